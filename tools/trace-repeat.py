#!/usr/bin/env python3
"""Makes a long recording out of a short one: its course again and again, one after the other.

usage: trace-repeat.py RECORDING.jsonl TIMES > LONG.jsonl
"""
import json
import sys


def main():
    lines = [json.loads(line) for line in open(sys.argv[1])]
    times = int(sys.argv[2])
    head = [l for l in lines if "kind" not in l and "end" not in l]
    records = [l for l in lines if "kind" in l]
    end = next(l for l in lines if "end" in l and "kind" not in l)["end"]["tick"]
    streams = len(head[0]["start"]["header"]["streams"])
    counts = [0] * streams
    for r in records:
        if r["kind"] in ("inst", "transfer"):
            counts[r["stream"]] = max(counts[r["stream"]], r["index"] + 1)
    out = sys.stdout
    for l in head:
        out.write(json.dumps(l, separators=(",", ":")) + "\n")
    for n in range(times):
        shift = lambda by: [by[0], by[1] + n * counts[by[0]]]
        for r in records:
            r = dict(r)
            for field in ("head", "granted", "issue", "start", "busy_until", "reads_done", "end", "tick", "queued"):
                if field in r:
                    r[field] += n * end
            if "index" in r:
                r["index"] += n * counts[r["stream"]]
            for field in ("by", "trigger"):
                if field in r:
                    r[field] = shift(r[field])
            if r.get("waited") and r["waited"][1]:
                r["waited"] = [r["waited"][0], shift(r["waited"][1])]
            out.write(json.dumps(r, separators=(",", ":")) + "\n")
    out.write(json.dumps({"end": {"tick": end * times, "error": None}}) + "\n")


main()
