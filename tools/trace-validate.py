#!/usr/bin/env python3
"""Reads each export of a run with a reader that is not ours, and checks that busy, stall and total
ticks computed from it equal the run's summary.

usage: trace-validate.py SUMMARY.json FILE...
  SUMMARY.json  from `tpbemu run PROGRAM --summary json`
  FILE          .json .pftrace .csv .parquet .vcd .jsonl .html of the same run; the parts of a split
                trace (t.000.json t.001.json ...) are added up

Needs from PyPI: jsonschema (json), perfetto (pftrace), duckdb (csv, parquet), pyarrow (parquet),
vcdvcd (vcd). A missing one is an error: a check that did not run must not look like one that passed.
"""
import base64
import json
import pathlib
import re
import struct
import sys
import zlib
from collections import defaultdict

CAUSES = ["", "semaphore", "event", "dependency", "queue", "drain", "port", "control"]

TRACE_EVENTS = {
    "type": "object", "required": ["traceEvents"],
    "properties": {"displayTimeUnit": {"enum": ["ms", "ns"]}, "otherData": {"type": "object"}, "traceEvents": {
        "type": "array", "items": {
            "type": "object", "required": ["ph", "pid"],
            "properties": {"ph": {"enum": ["X", "M", "C", "i", "s", "f"]}, "pid": {"type": "integer"},
                           "tid": {"type": "integer"}, "name": {"type": "string"},
                           "ts": {"type": "number", "minimum": 0}, "dur": {"type": "number", "minimum": 0},
                           "args": {"type": "object"}},
            "allOf": [
                {"if": {"properties": {"ph": {"const": "X"}}}, "then": {"required": ["name", "ts", "dur", "tid"]}},
                {"if": {"properties": {"ph": {"enum": ["C", "i", "s", "f"]}}}, "then": {"required": ["name", "ts"]}},
                {"if": {"properties": {"ph": {"enum": ["s", "f"]}}}, "then": {"required": ["id", "tid"]}},
                {"if": {"properties": {"ph": {"const": "M"}}}, "then": {"required": ["name", "args"]}}]}}}}


def union(spans):
    """Ticks that at least one of the spans covers."""
    total = until = 0
    for a, b in sorted(spans):
        total += max(0, b - max(a, until))
        until = max(until, b)
    return total


class Sums:
    def __init__(self):
        self.busy, self.stalls, self.total = defaultdict(list), defaultdict(lambda: defaultdict(int)), None


def chrome(path):
    import jsonschema
    trace = json.loads(path.read_text())
    jsonschema.Draft7Validator(TRACE_EVENTS).validate(trace)
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    out, flows = Sums(), defaultdict(set)
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["cat"] in ("data", "dma"):
            out.busy[names[e["tid"]]].append((e["args"]["start_tick"], e["args"]["end_tick"]))
        elif e["ph"] == "X" and e["cat"] == "stall":
            out.stalls[names[e["tid"]].removesuffix(" stalls")][e["name"]] += e["args"]["end_tick"] - e["args"]["start_tick"]
        elif e["ph"] in "sf":
            flows[e["id"]].add(e["ph"])
    assert all(f == {"s", "f"} for f in flows.values()), "arrows have both ends"
    out.total = trace["otherData"]["total_ticks"]
    return out, f"{len(trace['traceEvents'])} events, {len(flows)} arrows"


def perfetto(path):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    out, tracks, open_slices = Sums(), {}, defaultdict(list)
    names, keys, values = {}, {}, {}
    flows, slices, counters, last = defaultdict(list), 0, 0, defaultdict(int)
    for n, p in enumerate(trace.packet):
        assert p.trusted_packet_sequence_id == 1
        assert bool(p.sequence_flags & 1) == (n == 0), "the first packet, and no other, clears the strings"
        names.update((x.iid, x.name) for x in p.interned_data.event_names)
        keys.update((x.iid, x.name) for x in p.interned_data.debug_annotation_names)
        values.update((x.iid, x.str.decode()) for x in p.interned_data.debug_annotation_string_values)
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            assert d.uuid not in tracks, "tracks are described once"
            assert not d.parent_uuid or d.parent_uuid in tracks, "parents come before children"
            tracks[d.uuid] = d
            continue
        e = p.track_event
        track = tracks[e.track_uuid]
        if e.type == TrackEvent.TYPE_COUNTER:
            assert track.HasField("counter") and e.WhichOneof("counter_value_field")
            counters += 1
            continue
        for f in e.flow_ids:
            flows[f].append(p.timestamp)
        if e.type == TrackEvent.TYPE_SLICE_END:
            begin = open_slices[e.track_uuid].pop()
            assert p.timestamp >= begin, "a slice ends after it begins"
            last[e.track_uuid] = p.timestamp
            continue
        args = {keys[a.name_iid]: values[a.string_value_iid] if a.string_value_iid else a.string_value or a.uint_value
                for a in e.debug_annotations}
        name = names[e.name_iid]
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            slices += 1
            assert not open_slices[e.track_uuid] and p.timestamp >= last[e.track_uuid], "slices of a track follow each other"
            open_slices[e.track_uuid].append(p.timestamp)
            category, = e.categories
            if category in ("data", "dma"):
                out.busy[track.name].append((args["start_tick"], args["end_tick"]))
            elif category == "stall":
                out.stalls[track.name.removesuffix(" stalls")][name] += args["end_tick"] - args["start_tick"]
        elif name == "end of run":
            out.total = args["total_ticks"]
    assert not any(open_slices.values()), "all slices end"
    arrows = sum(len(f) - 1 for f in flows.values())
    return out, f"{len(trace.packet)} packets, {slices} slices, {arrows} arrows, {counters} counter values"


ENGINES = {"Tensor": "PE", "Scalar": "ACT", "GpSimd": "POOL", "Vector": "DVE", "Sync": "SP"}


def tables(path):
    import duckdb
    db, out, kind = duckdb.connect(), Sums(), path.suffix[1:]
    reader = "read_csv('{}', header=true, sample_size=-1)" if kind == "csv" else "read_parquet('{}')"
    table = lambda name: reader.format(f"{path}/{name}.*{kind}")
    one = lambda sql: db.sql(sql).fetchall()[0][0]
    for e, a, b in db.sql(f"select engine, start_tick, end_tick from {table('ActiveTime')}").fetchall():
        out.busy[ENGINES.get(e, e)].append((a, b))
    for e, c, n in db.sql(f"select engine, cause, sum(end_tick - start_tick) from {table('Stall')} group by all").fetchall():
        out.stalls[ENGINES.get(e, e)][c] = int(n)
    out.total = one(f"select total_ticks from {table('Metadata')}")
    n = one(f"select count(*) from {table('Instruction')}")
    loose = one(f"""select count(*) from {table('Flow')} f where
        not exists (select 1 from {table('Instruction')} i where i.id = f.out_id and f.out_table = 'Instruction')
        and not exists (select 1 from {table('DmaPacket')} d where d.id = f.out_id and f.out_table = 'DmaPacket')""")
    assert loose == 0, f"{loose} flows end nowhere"
    schema = db.sql(f"select table_name, field_name, field_type from {table('SchemaFields')}").fetchall()
    for t in {t for t, *_ in schema}:
        columns = [c[0] for c in db.sql(f"describe select * from {table(t)}").fetchall()]
        wanted = [f for u, f, _ in schema if u == t]
        # the rows of several files come in no order
        assert sorted(columns[:len(wanted)]) == sorted(wanted), f"{t} has the columns of the schema"
    # what one table says of another
    packets = one(f"select count(*) from {table('DmaPacket')}")
    assert n == one(f"select coalesce(sum(instruction_count::bigint), 0) from {table('OpcodeSummary')}"), "opcodes add up"
    assert packets == one(f"select dma_transfer_count from {table('Summary')}"), "packets add up"
    hbm = one(f"select hbm_read_bytes + hbm_write_bytes from {table('Summary')}")
    moved = one(f"select coalesce(max(total_transfer_bytes::bigint), 0) from {table('HbmUsage')}")
    assert moved == hbm, f"HbmUsage moves {moved} bytes, the summary {hbm}"
    pending = db.sql(f"select arg_max(value::bigint, timestamp::bigint), coalesce(max(value::bigint), 0) from {table('PendingDma')}").fetchall()[0]
    assert not packets or pending[1] > 0, "transfers are pending at some time"
    full = [one(f"select coalesce(max(avg_util_percent::double), 0) from {table(t)}") for t in ("SbufUsage", "PsumUsage")]
    assert all(0 <= x <= 100 for x in full)
    if kind == "parquet":
        arrow(path, schema)
    return out, (f"{n} instructions, {packets} DMA packets, {len({t for t, *_ in schema})} tables of the schema, "
                 f"SBUF up to {full[0]:.1f} %, PSUM {full[1]:.1f} %")


def arrow(path, schema):
    """Every file with pyarrow: types, row counts, and the same columns in every part."""
    import pyarrow.parquet
    types = {"integer": "int64", "number": "double", "string": "string", "boolean": "bool"}
    for t in {t for t, *_ in schema}:
        for file in path.glob(f"{t}.*parquet"):
            read = pyarrow.parquet.read_table(file)
            for u, f, kind in schema:
                if u == t:
                    assert str(read.schema.field(f).type) == types[kind], f"{t}.{f} is {read.schema.field(f).type}"


def lines(path):
    """Our own records, read with the rules of docs/tracing.md."""
    out, free = Sums(), None
    for text in path.open():
        r = json.loads(text)
        if "start" in r and "kind" not in r:
            streams = r["start"]["header"]["streams"]
            free = (r["start"]["resume"]["busy_until"] + [0] * len(streams))[:len(streams)]
        elif "end" in r and "kind" not in r:
            out.total = r["end"]["tick"]
        elif "kind" not in r:
            continue  # what a word is called
        elif r["kind"] == "transfer":
            s = r["stream"]
            if r["end"] > max(r["start"], free[s]):
                out.busy[streams[s]].append((max(r["start"], free[s]), r["end"]))
                free[s] = r["end"]
        elif r["kind"] == "inst":
            s, stall = r["stream"], r["stall"]
            wait = next(iter(r["waited"][0])).lower() if r["waited"] else stall or "control"
            held = stall if stall in ("dependency", "port") else "queue"
            work = [("busy", r["busy_until"])] if r["data_path"] else [("control", r["end"])]
            for cause, to in [("control", r["head"]), (wait, r["issue"]), (held, r["start"])] + work:
                if to > free[s]:
                    if cause == "busy":
                        out.busy[streams[s]].append((free[s], to))
                    else:
                        out.stalls[streams[s]][cause] += to - free[s]
                    free[s] = to
    return out, "recording"


def viewer(path):
    """The columns that the viewer draws."""
    text, out = path.read_text(), Sums()
    meta = json.loads(re.search(r'<script type="application/json" id="meta">(.*?)</script>', text, re.S)[1])
    streams, widths = meta["header"]["streams"], {"I": "<d,<I,<I,<I,<I,<I,<I,<I,<f,<I,<I,<I,<H,<H,<H,<B,<B", "T": "<d,<I,<I,<H,<B"}
    slices = 0
    for kind, n, data in re.findall(r'data-k="(.)" data-n="(\d+)">([^<]*)<', text):
        if kind not in widths:
            continue
        bytes_, at, columns, n = zlib.decompress(base64.b64decode(data)), 0, [], int(n)
        for w in widths[kind].split(","):
            size = struct.calcsize(w) * n
            columns.append(struct.unpack(f"<{n}{w[1]}", bytes_[at:at + size]))
            at += size
        assert at == len(bytes_), "the block has these columns and no others"
        if kind == "I":
            slices += n
            for start, dur, stream, flags in zip(columns[0], columns[1], columns[14], columns[15]):
                if flags & 1 and dur:
                    out.busy[streams[stream]].append((int(start), int(start) + dur))
        else:
            for dur, stream, cause in zip(columns[1], columns[3], columns[4]):
                out.stalls[streams[stream]][meta["causes"][cause]] += dur
    out.total = meta["end"]
    return out, f"{slices} slices"


def vcd(path):
    from vcdvcd import VCDVCD
    v, out = VCDVCD(str(path)), Sums()
    text = path.read_text()
    hz = int(text.split("ticks per second ")[1].split(";")[0])
    tick = lambda fs: round(fs * hz / 10**15)
    end = v.endtime
    for name in v.signals:
        scope, signal = name.rsplit(".", 1)
        if signal not in ("busy", "stall") and not signal.startswith("stall"):
            continue
        changes = v[name].tv + [(end, "0")]
        stream = scope.rsplit(".", 1)[-1].replace("q_", "q:", 1) if scope.startswith("q_") else scope
        stream = stream.replace("q:dge_", "q:dge-")
        for (a, x), (b, _) in zip(changes, changes[1:]):
            if int(x, 2) and b > a:
                if signal == "busy":
                    out.busy[stream].append((tick(a), tick(b)))
                else:
                    out.stalls[stream][CAUSES[int(x, 2)]] += tick(b) - tick(a)
    out.total = tick(end)
    return out, f"{len(v.signals)} signals"


READERS = {".json": chrome, ".pftrace": perfetto, ".csv": tables, ".parquet": tables, ".vcd": vcd,
           ".jsonl": lines, ".html": viewer}


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    summary, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    traces = defaultdict(list)
    for name in map(pathlib.Path, sys.argv[2:]):
        traces[re.sub(r"\.\d{3}(\.\w+)$", r".NNN\1", str(name))].append(name)
    failed = 0
    for name, parts in traces.items():
        read = READERS[parts[0].suffix]
        sums, what = read(parts[0])
        for part in sorted(parts)[1:]:
            more, _ = read(part)
            for s, spans in more.busy.items():
                sums.busy[s] += spans
            for s, stalls in more.stalls.items():
                for c, n in stalls.items():
                    sums.stalls[s][c] += n
            assert more.total >= sums.total, "parts are in order of time"
            sums.total = more.total
        parts = f" in {len(parts)} files" if len(parts) > 1 else ""
        print(f"{pathlib.Path(name).name} ({read.__name__}{parts}): {what}")
        wrong = []
        if sums.total != summary["total_ticks"]:
            wrong.append(f"total {sums.total}, summary {summary['total_ticks']}")
        busy_all = stall_all = 0
        for s in summary["streams"]:
            busy, stalls = union(sums.busy[s["name"]]), dict(sums.stalls[s["name"]])
            busy_all, stall_all = busy_all + busy, stall_all + sum(stalls.values())
            if busy != s["busy_ticks"]:
                wrong.append(f"{s['name']} busy {busy}, summary {s['busy_ticks']}")
            if stalls != s["stall_ticks"]:
                wrong.append(f"{s['name']} stalls {stalls}, summary {s['stall_ticks']}")
        print(f"  busy {busy_all} ticks, stalled {stall_all} ticks, total {sums.total} ticks:",
              "equal the summary" if not wrong else "DIFFER")
        for w in wrong:
            print("  ", w)
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
