#!/usr/bin/env python3
"""Drives the HTML viewer in headless Chromium over its debugging pipe: loads a file, counts rows,
zooms, pans, searches, selects, follows a dependency, box-selects, and measures frames. Needs
nothing beyond the standard library and a Chromium; without one it says so and ends with status 77.

usage: trace-viewer-test.py FILE.html [--rows N] [--totals SUMMARY.json] [--cores N]
                            [--screenshot FILE.png]
                            [--select NAME] [--span TICKS] [--max-load SECONDS] [--min-fps N]
"""
import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time


class Chromium:
    """A browser and one page in it."""

    def __init__(self, program, size):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()

        def pipes():
            # the browser reads commands from 3 and answers on 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                 "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage",
                 f"--user-data-dir={self.home.name}", f"--window-size={size[0]},{size[1]}"]
        self.process = subprocess.Popen([program, *flags, "about:blank"], close_fds=False,
                                        preexec_fn=pipes, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank", width=size[0], height=size[1],
                           newWindow=True)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")

    def receive(self, limit):
        end = time.time() + limit
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reader], [], [], max(0, end - time.time()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.reader, 1 << 20)
            if not data:
                raise EOFError("the browser is gone")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(120)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{text}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        # wheel events reach the page with the next frame
        self.js("new Promise(r => requestAnimationFrame(() => setTimeout(r, 20)))")

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", clickCount=1, modifiers=modifiers)
        for i in range(1, 6):
            self.mouse("mouseMoved", x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5, button="left",
                       modifiers=modifiers)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1, modifiers=modifiers)

    def key(self, key, down=True):
        self.call("Input.dispatchKeyEvent", type="keyDown" if down else "keyUp", key=key,
                  **({"text": key} if down and len(key) == 1 else {}))

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (EOFError, OSError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.home.cleanup()


def expect(condition, text):
    if not condition:
        raise SystemExit(f"FAILED: {text}")
    print(f"ok: {text}")


def totals(page, path):
    summary = json.loads(path.read_text()[path.read_text().index("{"):].split("\ncheck ")[0])
    found = {t["stream"]: t for t in page.js("tpbemu.totals()")}
    for s in summary["streams"]:
        if not s["instructions"]:
            continue
        mine = found[s["name"]]
        expect(mine["busy"] == s["busy_ticks"] and mine["stalls"] == s["stall_ticks"],
               f"{s['name']}: busy {s['busy_ticks']} and stalls {s['stall_ticks']} as in the summary")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--cores", type=int, help="slices on Q7 cores")
    parser.add_argument("--totals", type=pathlib.Path)
    parser.add_argument("--screenshot")
    parser.add_argument("--select")
    parser.add_argument("--span", type=float, help="ticks that the screenshot shows around the selected slice")
    parser.add_argument("--max-load", type=float, default=5)
    parser.add_argument("--min-fps", type=float, default=30)
    args = parser.parse_args()
    program = next((p for p in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if p), None)
    if not program:
        print("skipped: no Chromium here")
        return 77
    page = Chromium(program, (1500, 950))
    try:
        started = time.time()
        page.call("Page.navigate", url=pathlib.Path(args.file).resolve().as_uri())
        while not page.js("Boolean(window.tpbemu && (tpbemu.ready || tpbemu.error))"):
            if time.time() - started > 20:
                said = [e["params"] for e in page.events if e.get("method") == "Runtime.exceptionThrown"]
                raise SystemExit(f"FAILED: not ready after 20 s {said}")
            time.sleep(0.05)
        seconds = time.time() - started
        expect(page.js("tpbemu.error ?? null") is None, f"no error on loading {page.js('tpbemu.error ?? null') or ''}")
        rows = page.js("tpbemu.rows")
        expect(seconds < args.max_load, f"{rows} rows loaded in {seconds:.2f} s (limit {args.max_load} s)")
        if args.rows is not None:
            expect(rows == args.rows, f"{rows} rows are there, {args.rows} expected")
        if args.cores is not None:
            cores = page.js("tpbemu.cores")
            expect(cores == args.cores, f"{cores} slices on Q7 cores are there, {args.cores} expected")
            shown = page.js("tpbemu.labels.filter(l => l.startsWith('Q7 core')).length")
            expect((shown > 0) == (cores > 0), f"{shown} rows of Q7 cores")
        labels = page.js("tpbemu.labels")
        for kind in ("stalls", "in use"):
            expect(any(kind in l for l in labels), f"there are rows of {kind!r}")
        if args.totals:
            totals(page, args.totals)

        canvas = page.js("(() => { const r = document.getElementById('view').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
        x, y = canvas[0] + canvas[2] / 2, canvas[1] + canvas[3] / 2
        width = lambda: page.js("tpbemu.view.b - tpbemu.view.a")
        before = width()
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
        expect(width() < before, f"the wheel zooms: {before:.0f} to {width():.0f} ticks")
        left = page.js("tpbemu.view.a")
        page.drag(x, y, x - 200, y)
        expect(page.js("tpbemu.view.a") > left, "dragging pans")
        before = width()
        page.key("w")
        time.sleep(0.3)
        page.key("w", False)
        expect(width() < before, "W zooms")
        page.key("0")

        name = args.select or page.js("tpbemu.row(Math.floor(tpbemu.rows / 2)).name")
        page.js("document.getElementById('search').focus()")
        page.call("Input.insertText", text=name)
        expect(page.js("tpbemu.matches") > 0, f"search finds {page.js('tpbemu.matches')} x {name}")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter")
        expect(page.js("tpbemu.selected") >= 0 and page.js("tpbemu.row(tpbemu.selected).name").find(name) >= 0,
               "Enter selects the first match")
        page.js("document.getElementById('search').blur()")
        page.key("Escape")
        page.key("0")

        row = page.js("tpbemu.find((r, I) => I.sync[r] !== 65535 && I.by[r] !== 65535 && (I.flags[r] & 1) && I.dur[r] > 1 && tpbemu.producer(r) >= 0)")
        if row >= 0:
            page.js(f"(() => {{ const {{start, dur}} = tpbemu.row({row}); tpbemu.setView(start - dur - 500, start + 2 * dur + 1000); }})()")
            time.sleep(0.2)
            at = page.js(f"tpbemu.place({row})")
            page.click(canvas[0] + at["x"], canvas[1] + at["y"])
            expect(page.js("tpbemu.selected") == row, f"a click selects row {row}")
            expect(page.js("tpbemu.links") >= 1, "its dependency is drawn")
            page.key("[")
            expect(page.js("tpbemu.selected") not in (row, -1), "[ goes to what released it")
        page.key("Escape")
        expect(page.js("tpbemu.selected") == -1, "Escape clears the selection")
        page.key("c")
        expect(page.js("document.getElementById('critical').checked && tpbemu.critical") > 0,
               f"C highlights {page.js('tpbemu.critical')} slices of the critical path")
        page.key("c")
        for key, moves in (("a", "left"), ("d", "right"), ("s", "out")):
            page.js("tpbemu.setView(tpbemu.view.b * .4, tpbemu.view.b * .5)")
            time.sleep(0.1)
            was, wide = page.js("tpbemu.view.a"), width()
            page.key(key)
            time.sleep(0.3)
            page.key(key, False)
            now = page.js("tpbemu.view.a")
            expect({"left": now < was, "right": now > was, "out": width() > wide}[moves],
                   f"{key.upper()} moves {moves}")
        page.key("0")
        time.sleep(0.1)
        page.drag(canvas[0] + 300, y, canvas[0] + 700, y, modifiers=8)
        span = page.js("tpbemu.box && tpbemu.box.b - tpbemu.box.a")
        expect(span and span > 0, f"Shift and drag select {span:.0f} ticks")
        expect("Selection" in page.js("document.getElementById('side').textContent"), "its statistics are shown")
        page.key("Escape")

        page.key("0")
        page.js("tpbemu.setView(tpbemu.view.b * .3, tpbemu.view.b * .7)")
        fps = page.js("""new Promise(done => { let n = 0, worst = 0; const start = performance.now();
            const tick = () => { worst = Math.max(worst, tpbemu.drawMs); const {a, b} = tpbemu.view, d = (b - a) * .004 * (n & 32 ? 1 : -1);
              tpbemu.setView(a + d, b + d); n++; const t = performance.now() - start;
              if (t < 2000) requestAnimationFrame(tick); else done([n * 1000 / t, worst]); };
            requestAnimationFrame(tick); })""")
        expect(fps[0] >= args.min_fps, f"pans at {fps[0]:.0f} frames/s, slowest drawing {fps[1]:.1f} ms")

        if args.screenshot:
            page.key("0")
            page.js("document.getElementById('critical').checked || document.getElementById('critical').click()")
            target = page.js(f"tpbemu.find((r, I) => tpbemu.row(r).name.includes({json.dumps(name)}) && I.by[r] !== 65535 && r > 12)")
            if target >= 0:
                if args.span:
                    start = page.js(f"tpbemu.row({target}).start")
                    page.js(f"tpbemu.setView({start - args.span / 2}, {start + args.span / 2})")
                    time.sleep(0.1)
                at = page.js(f"tpbemu.place({target})")
                page.click(canvas[0] + at["x"], canvas[1] + at["y"])
                page.mouse("mouseMoved", canvas[0] + 300, canvas[1] + canvas[3] - 20)
            time.sleep(0.4)
            page.screenshot(args.screenshot)
            print(f"screenshot: {args.screenshot}")
    finally:
        page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
