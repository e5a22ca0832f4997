#!/usr/bin/env python3
"""More vectors for search, sort, gather, random, MX and sparsity instructions: shapes, strides,
start partitions, dtypes, modes and generations are drawn. Semantics as in `indirect.py`, from the
published descriptions."""

import ml_dtypes
import numpy as np

from dge_more import combine
from draw import Operand, pick, some, split, start_partition
from indirect import NONE, code_value, lfsr_reset, lfsr_step, raw_bits, winners, xorwow_reset, xorwow_step
from indirect_common import CODE, NP, Vector, addr4, is_int, narrow, stride, tensor, widen, write

F32 = np.float32
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
FLOATS = ["fp32", "bf16", "fp16", "fp8e3", "fp8e4", "fp8e5"]
ALL = ["v2", "v3", "v4", "v4+", "v5"]
V3 = ALL[1:]
V4 = ALL[2:]


def vector(name, gens, engine, seed):
    gen = gens[seed % len(gens)]
    return Vector(f"{name} {gen} #{seed}", gen, engine, 7000 + seed), gen


def bits(x):
    return int(np.asarray(x, F32).view(np.uint32))


def plain_zeros(x):
    """-0 becomes +0: the two are equal keys, and which one stays is not published."""
    if is_int(x.dtype.name):
        return x
    return np.where(x == 0, np.zeros_like(x), x)


# ------------------------------------------------------------------ search

def max8(seed):
    v, gen = vector("max8", ALL, "DVE", seed)
    d, do = pick(v.rng, INTS + FLOATS), pick(v.rng, INTS + FLOATS)
    n, channels = int(v.rng.integers(8, 40)), int(v.rng.integers(1, 4))
    at = [start_partition(v.rng, gen) for _ in range(2)]
    a = Operand(v, d, split(v.rng, n, 4), at[0], channels)
    dst = Operand(v, do, split(v.rng, 8, 2), at[1], channels)
    few = not is_int(d) and seed % 3 == 0
    for c in range(channels):
        row = plain_zeros(some(v.rng, d, n))
        if few:         # fewer than eight numbers
            row[v.rng.permutation(n)[int(v.rng.integers(0, 8)):]] = np.nan
        a.put(c, row)
    v.freeze()
    for c in range(channels):
        x = widen(a.get(c), d)
        top = np.sort(x[~np.isnan(x)])[::-1][:8]
        top = np.concatenate([top, np.full(8 - len(top), -np.inf, F32)])
        dst.put(c, narrow(top[::-1], do))
    v.inst("MAX8", in_dtype=CODE[d], out_dtype=CODE[do], num_active_channels=channels,
           src=a.field(4), dst=dst.field(2))
    return v.done()


def values_load(v, values, channels):
    v.inst("MATCH_VALUE_LOAD", dtype=CODE[values.dtype], num_active_channels=channels,
           src=values.field(2))


def search(seed):
    """Values loaded, then some finds and replacements: a value serves once until it is loaded
    anew. The state belongs to channels, whatever partition they start at."""
    v, gen = vector("search", ALL, "DVE", seed)
    plan = [["find"], ["replace"], ["find", "find"], ["replace", "find"], ["find", "replace"],
            ["replace", "load", "replace"], ["find", "load", "find"]][seed % 7]
    both = ["fp16", "bf16", "uint8", "uint16", "uint32", "fp32", "int32"]
    d = pick(v.rng, both if "replace" in plan else INTS + FLOATS)
    dv = d if v.rng.integers(0, 2) else pick(v.rng, INTS + FLOATS)
    n, channels = int(v.rng.integers(8, 26)), int(v.rng.integers(1, 4))
    a = Operand(v, d, split(v.rng, n, 4), start_partition(v.rng, gen), channels)
    values = Operand(v, dv, split(v.rng, 8, 2), start_partition(v.rng, gen), channels)
    for c in range(channels):
        row = some(v.rng, d, n)
        a.put(c, row)
        keys = widen(row[v.rng.integers(0, n, 8)], d)
        keys[4:] = keys[v.rng.integers(0, 8, 4)]     # duplicates
        if v.rng.integers(0, 2):
            keys[2] = -keys[2]
        values.put(c, narrow(keys, dv))
    steps = []
    for kind in plan:
        do = pick(v.rng, ["uint16", "uint32"] if kind == "find" else both)
        count = split(v.rng, 8, 2) if kind == "find" else split(v.rng, n, 4)
        place = start_partition(v.rng, gen)
        steps.append((kind, None if kind == "load" else Operand(v, do, count, place, channels)))
    v.freeze()
    keys = [widen(values.get(c), dv)[::-1] for c in range(channels)]
    matched = [[False] * 8 for _ in range(channels)]
    values_load(v, values, channels)
    for kind, dst in steps:
        if kind == "load":
            matched = [[False] * 8 for _ in range(channels)]
            values_load(v, values, channels)
            continue
        immediate = F32(pick(v.rng, [-np.inf, 0.0, 7.5, -1e9, np.nan]))
        for c in range(channels):
            x = widen(a.get(c), d).copy()
            found = [NONE % 2 ** (8 * NP[dst.dtype].itemsize)] * 8
            for i, e in enumerate(list(x)):
                for k in range(8):
                    if not matched[c][k] and e == keys[c][k]:
                        found[k], matched[c][k], x[i] = i, True, immediate
                        break
            if kind == "find":
                dst.put(c, np.array(found, NP[dst.dtype]))
            else:
                dst.put(c, narrow(x, dst.dtype))
        fields = dict(in_dtype=CODE[d], out_dtype=CODE[dst.dtype], num_active_channels=channels,
                      src=a.field(4))
        if kind == "find":
            v.inst("FIND_INDEX8", dst=dst.field(2), **fields)
        else:
            v.inst("MATCH_REPLACE8", immediate=bits(immediate), dst=dst.field(4), **fields)
    return v.done(name=v.out["name"] + " " + "+".join(plan))


# ------------------------------------------------------------------ sort, segments

def sort(seed):
    v, gen = vector("sort", ALL, "POOL", seed)
    d = pick(v.rng, ["fp16", "bf16", "uint16", "int16", "fp32", "uint32", "int32"])
    size = NP[d].itemsize
    n, channels = int(v.rng.integers(1, 40)), int(v.rng.integers(1, 4))
    keep = n if v.rng.integers(0, 2) else int(v.rng.integers(1, n + 1))
    index = np.dtype(f"u{size}")
    down, how = int(v.rng.integers(0, 2)), seed % 3 % 2
    a = Operand(v, d, [n], start_partition(v.rng, gen), channels)
    dst = Operand(v, d, [2, keep], start_partition(v.rng, gen), channels)
    scalar = Operand(v, "uint32", [1], a.first, channels)
    fixed = int(v.rng.integers(0, 2 ** 16 if how else 2 ** 32))
    for c in range(channels):
        a.put(c, some(v.rng, d, n))
        scalar.put(c, np.array([fixed + c], np.uint32))
    v.freeze()
    for c in range(channels):
        row = a.get(c)
        x = [int(y) if is_int(d) else float(y) for y in row]
        order = sorted([i for i in range(n) if x[i] == x[i]], key=lambda i: -x[i] if down else x[i])
        order += [i for i in range(n) if x[i] != x[i]]
        base, out = fixed + c if how else fixed, []
        for i in order[:keep]:
            out += [int(row[i:i + 1].view(index)[0]), (i + base) % 2 ** (8 * size)]
        dst.put(c, np.array(out, index).view(NP[d]))
    v.inst("SORT", num_active_channels=channels, index_offset_src=how, in_out_dtype=CODE[d] * 17,
           comparison=0x13 if down else 0x16, src=a.field(1), dst=dst.field(2),
           index_offset=scalar.addr() if how else fixed, stable=int(v.rng.integers(0, 2)))
    return v.done()


def nonzero(seed):
    v, gen = vector("nonzero_with_count", V3, "POOL", seed)
    d = pick(v.rng, ["fp32", "int32"])
    n, channels = int(v.rng.integers(1, 24)), pick(v.rng, [1, 3, 17])
    first = start_partition(v.rng, gen, channels)
    a = Operand(v, d, split(v.rng, n, 3), first, channels)
    dst = Operand(v, "int32", split(v.rng, n + 1, 3), first, channels)
    how = [int(v.rng.integers(0, 2)) for _ in range(2)]
    scalars = [Operand(v, "int32", [1], first, channels) for _ in how]
    fixed = [int(v.rng.integers(-1000, 1000)) for _ in how]
    for c in range(channels):
        row = some(v.rng, d, n)
        row[v.rng.integers(0, 2, n) == 0] = 0
        a.put(c, row)
        for s, f in zip(scalars, fixed):
            s.put(c, np.array([f + c], np.int32))
    v.freeze()
    for c in range(0, channels, 16):
        row = a.get(c)
        offset, padding = [f + c if h else f for f, h in zip(fixed, how)]
        with np.errstate(invalid="ignore"):
            hits = [i + offset for i in range(n) if row[i] < 0 or row[i] > 0]
        dst.put(c, np.array(hits + [padding] * (n - len(hits)) + [len(hits)], np.int32))
    imm = [s.addr() if h else f % 2 ** 32 for s, f, h in zip(scalars, fixed, how)]
    v.inst("NONZERO_WITH_COUNT", num_active_channels=channels, in_dtype=CODE[d],
           out_dtype=CODE["int32"], index_offset_src=how[0], index_offset=imm[0],
           padding_val_src=how[1], padding_val=imm[1], src=a.field(3), dst=dst.field(3))
    return v.done()


def bounds(seed):
    v, gen = vector("get_sequence_bounds", V3, "POOL", seed)
    d, do = pick(v.rng, ["fp32", "int32"]), pick(v.rng, ["fp32", "int32"])
    n = int(v.rng.integers(1, 40))
    first = start_partition(v.rng, gen)
    a = Operand(v, d, split(v.rng, n, 3), first, 1)
    dst = Operand(v, do, split(v.rng, n, 2) + [2], start_partition(v.rng, gen), 1)
    ids = []
    while len(ids) < n:
        ids += [int(v.rng.integers(-1, 4))] * int(v.rng.integers(1, 6))
    a.put(0, np.array(ids[:n]).astype(NP[d]))
    v.freeze()
    s = a.get(0)
    start, end = [0] * n, [0] * n
    for i in range(n):
        start[i] = n if s[i] == 0 else start[i - 1] if i and s[i] == s[i - 1] else i
    for i in reversed(range(n)):
        end[i] = -1 if s[i] == 0 else end[i + 1] if i + 1 < n and s[i] == s[i + 1] else i + 1
    dst.put(0, np.array(start + end).astype(NP[do]))
    v.inst("GET_SEQUENCE_BOUNDS", num_active_channels=1, in_dtype=CODE[d], out_dtype=CODE[do],
           src=a.field(3), dst=dst.field(3))
    return v.done()


# ------------------------------------------------------------------ gather

def indirect_copy(seed):
    v, gen = vector("indirect_copy", ALL, "POOL", seed)
    d = pick(v.rng, INTS + FLOATS)
    size, e = NP[d].itemsize, pick(v.rng, [1, 2, 4, 8, 16, 32])
    channels = pick(v.rng, [16, 16, 32])
    rows = int(v.rng.integers(2, 10))
    n = int(v.rng.integers(1, max(2, 48 // e)))
    columns = -(-n // 16)
    first = start_partition(v.rng, gen, channels)
    index = Operand(v, "uint16", [columns], first, channels, dims=[(1, columns)])
    table = Operand(v, d, [rows * e], first, channels, dims=[(1, rows * e)])
    dst = Operand(v, d, split(v.rng, n * e, 4), first, channels)
    lists = []
    for core in range(channels // 16):
        # one in five lies beyond the buffer
        chosen = [int(v.rng.integers(0, rows)) if v.rng.integers(0, 5) else rows + int(v.rng.integers(0, 900))
                  for _ in range(n)]
        lists.append(chosen)
        padded = chosen + [0] * (16 * columns - n)
        for p in range(16):
            index.put(16 * core + p, np.array(padded[p::16], np.uint16))
    v.freeze()
    for c in range(channels):
        data = table.get(c).tobytes()
        block = e * size
        out = b"".join(data[i * block:(i + 1) * block] if i < rows else bytes(block)
                       for i in lists[c // 16])
        dst.put(c, np.frombuffer(out, NP[d]))
    v.inst("INDIRECT_COPY", in_dtype=CODE[d], out_dtype=CODE[d], num_active_channels=channels,
           src_num_elem_per_idx=e, src_buffer_size=rows,
           src={"index": index.addr() | 0x20000000, "data": table.addr(), "num": n * e},
           dst=dst.field(4))
    return v.done()


def embedding(seed):
    v, gen = vector("embedding_update", ALL, "POOL", seed)
    d = pick(v.rng, INTS + FLOATS)
    op = [0, 2, 3][seed % 3]
    size = NP[d].itemsize
    width, count, entries = (int(v.rng.integers(1, k)) for k in [9, 9, 7])
    pitch = (width + int(v.rng.integers(0, 3))) * size
    base = 64 * int(v.rng.integers(0, 20))
    rows = []
    for i in range(entries):
        v.watch("hbm", 0, base + i * pitch, width * size)
        row = some(v.rng, d, width, pick(v.rng, ["ties", "wide"]))
        v.memory.scatter("hbm", 0, base + i * pitch, [(1, width)], row)
        rows.append(row.copy())
    index = Operand(v, "uint32", [count], 0, 1, backwards=False)
    data = Operand(v, d, [width, count], start_partition(v.rng, gen), 1, backwards=False)
    # duplicates, and entries beyond the table
    chosen = [int(v.rng.integers(0, entries + 1)) for _ in range(count)]
    if count > 2:
        chosen[-1] = 4000000000
    index.put(0, np.array(chosen, np.uint32))
    data.put(0, some(v.rng, d, width * count, pick(v.rng, ["ties", "wide"])))
    v.freeze()
    updates = data.get(0).reshape(count, width)
    for i, b in zip(chosen, updates):
        if i >= entries:
            continue
        a = rows[i]
        name = {0: "add", 2: "max", 3: "min"}[op]
        rows[i] = np.frombuffer(combine(b.tobytes(), a.tobytes(), d, d, name), NP[d])
    for i in range(entries):
        v.memory.scatter("hbm", 0, base + i * pitch, [(1, width)], rows[i])
    raw = bytearray(64)

    def field(at, n, value):
        raw[at:at + n] = int(value).to_bytes(n, "little")

    field(12, 1, CODE[d]), field(13, 1, op)
    field(16, 4, index.addr()), field(20, 2, index.dims[0][0] % 65536), field(22, 2, count)
    field(24, 4, data.addr())
    for k in range(2):
        field(28 + 2 * k, 2, data.dims[k][0] % 65536), field(32 + 2 * k, 2, data.dims[k][1])
    field(44, 4, base), field(48, 2, width), field(50, 2, pitch), field(52, 2, count)
    field(56, 4, entries)
    v.inst("EMBEDDING_UPDATE", raw=[12, bytes(raw[12:]).hex()])
    return v.done()


# ------------------------------------------------------------------ random

def rng(seed):
    """Raw draws by the generator of the partition, in two instructions."""
    engine = ["DVE", "POOL"][seed % 2]
    v, gen = vector(f"rng {engine}", V3 if engine == "POOL" else ALL, engine, seed)
    d = pick(v.rng, INTS + ["fp32", "bf16"] if engine == "POOL" else INTS)
    channels, first = int(v.rng.integers(1, 4)), start_partition(v.rng, gen)
    parts = [Operand(v, d, split(v.rng, int(v.rng.integers(1, 10)), 4), first, channels)
             for _ in range(2)]
    v.freeze()
    for c in range(channels):
        state = xorwow_reset(gen) if engine == "POOL" else lfsr_reset(first + c)
        for dst in parts:
            draws = []
            for _ in range(dst.n):
                if engine == "POOL":
                    draws.append(xorwow_step(state))
                else:
                    state = lfsr_step(state)
                    draws.append(state)
            dst.put(c, raw_bits(draws, d, engine == "POOL"))
    for dst in parts:
        v.inst("RNG", dst_element_count=dst.n, dtype=CODE[d], num_active_channels=channels,
               dst=dst.field(4))
    return v.done()


# engine, generations, rand_algorithm, rand_generator, words
STATES = [("POOL", V3, 3, 1, 6), ("POOL", V4, 0, 3, 1), ("DVE", V4, 3, 1, 24), ("DVE", V4, 0, 0, 4),
          ("DVE", V4, 0, 3, 4), ("ACT", ["v4", "v4+"], 0, 3, 2)]


def states(seed):
    """State words set and read back; between them draws of the generator that they belong to."""
    engine, gens, algorithm, source, words = STATES[seed % 6]
    v, gen = vector(f"rand state {engine} {algorithm} {source}", gens, engine, seed // 6)
    v.out["name"] += f" #{seed}"
    v.rng = np.random.default_rng(7600 + seed)
    channels, first = int(v.rng.integers(1, 4)), start_partition(v.rng, gen)
    src = Operand(v, "uint32", [words], first, channels)
    space = "psum" if engine != "POOL" and gen != "v5" and v.rng.integers(0, 2) else "sbuf"
    dst = Operand(v, "uint32", split(v.rng, words, 4), first, channels, space=space)
    drawn = (engine, source) in [("POOL", 1), ("DVE", 0)]
    out = Operand(v, "uint32", split(v.rng, 5, 4), first, channels) if drawn else None
    for c in range(channels):
        src.put(c, v.rng.integers(0, 2 ** 32, words, dtype=np.uint32))
    v.freeze()
    for c in range(channels):
        state = [int(x) for x in src.get(c)]
        draws = []
        for _ in range(5 if drawn else 0):
            if engine == "POOL":
                draws.append(xorwow_step(state))
            else:
                state[0] = lfsr_step(state[0])
                draws.append(state[0])
        if drawn:
            out.put(c, np.array(draws, np.uint32))
        dst.put(c, np.array(state, np.uint32))
    
    v.inst("RAND_SET_STATE", rand_algorithm=algorithm, num_active_channels=channels, update_state=0,
           in_dtype=CODE["uint32"], rand_generator=source, src=src.field(1))
    if drawn:
        v.inst("RNG", dst_element_count=5, dtype=CODE["uint32"], num_active_channels=channels,
               dst=out.field(4))
    v.inst("RAND_GET_STATE", rand_algorithm=algorithm, rand_generator=source, dtype=CODE["uint32"],
           num_active_channels=channels, dst=dst.field(4))
    return v.done()


def rand2(seed):
    v, gen = vector("rand2", V4, "DVE", seed)
    d = pick(v.rng, INTS + FLOATS)
    channels, first = int(v.rng.integers(1, 4)), start_partition(v.rng, gen)
    seeds = Operand(v, "uint32", [24], first, channels)
    how = [int(v.rng.integers(0, 2)) for _ in range(2)]
    scalars = [Operand(v, "fp32", [1], first, channels) for _ in how]
    parts = [Operand(v, d, split(v.rng, int(v.rng.integers(1, 14)), 3), first, channels)
             for _ in range(1 + seed % 2)]
    low = F32(v.rng.integers(-200, 200)) / F32(8)
    fixed = [low, low + F32(v.rng.integers(0, 300)) / F32(16)]
    for c in range(channels):
        seeds.put(c, v.rng.integers(0, 2 ** 32, 24, dtype=np.uint32))
        for s, f, step in zip(scalars, fixed, [0.25, 1.5]):
            s.put(c, np.array([f + F32(c * step)], F32))
    v.freeze()
    v.inst("RAND_SET_STATE", rand_algorithm=3, num_active_channels=channels, update_state=0,
           in_dtype=CODE["uint32"], rand_generator=1, src=seeds.field(1))
    for c in range(channels):
        words = [int(x) for x in seeds.get(c)]
        state = [words[6 * k:6 * k + 6] for k in range(4)]
        lo, hi = [s.get(c)[0] if h else f for s, f, h in zip(scalars, fixed, how)]
        for dst in parts:
            draws = np.array([xorwow_step(state[i % 4]) for i in range(dst.n)], np.uint32)
            u = (draws & 0x7FFFFF | 0x3F800000).view(F32) - F32(1)
            dst.put(c, narrow(lo + (hi - lo) * u, d))
    imm = [s.addr() if h else bits(f) for s, f, h in zip(scalars, fixed, how)]
    for dst in parts:
        v.inst("RAND2", rand_algorithm=3, post_process=1, dtype=CODE[d],
               num_active_channels=channels, min_src=how[0], max_src=how[1], min=imm[0], max=imm[1],
               dst=dst.field(3))
    return v.done()


def dropout(seed):
    v, gen = vector("dropout", ALL, "DVE", seed)
    d = pick(v.rng, INTS + FLOATS)
    dt = "fp32" if is_int(d) else pick(v.rng, FLOATS)
    channels, n = int(v.rng.integers(1, 4)), int(v.rng.integers(1, 30))
    first = start_partition(v.rng, gen)
    keep, how = int(v.rng.integers(0, 2)), int(v.rng.integers(0, 2))
    a = Operand(v, d, split(v.rng, n, 3), first, channels)
    dst = Operand(v, d, split(v.rng, n, 3), first, channels)
    scalar = Operand(v, dt, [1], first, channels)
    fixed = F32(pick(v.rng, [0.0, 0.25, 0.3, 0.5, 0.8, 1.0]))
    for c in range(channels):
        scalar.put(c, narrow([fixed * F32(1 - c / 4)], dt))
    v.freeze()
    for c in range(channels):
        limit = widen(scalar.get(c), dt)[0] if how else fixed
        s, row = lfsr_reset(first + c), a.get(c).copy()
        for i in range(n):
            s = lfsr_step(s)
            r = np.uint32(s >> 9 | 0x3F800000).view(F32) - F32(1)
            if (r < limit) != bool(keep):
                row[i:i + 1] = np.zeros(1, NP[d])
        dst.put(c, row)
    v.inst("DROPOUT", src=a.field(3), in_dtype=CODE[d], out_dtype=CODE[d],
           num_active_channels=channels, threshold_src=how,
           threshold_dtype=CODE[dt] if how else CODE["fp32"], threshold_type=keep,
           threshold=scalar.addr() if how else bits(fixed), dst=dst.field(3))
    return v.done()


# ------------------------------------------------------------------ MX, sparsity

def quantize(seed):
    v, gen = vector("quantize_mx", V4, "DVE", seed)
    d, (kind, code, emax, most) = pick(v.rng, ["bf16", "fp16"]), [
        (ml_dtypes.float8_e4m3fn, 0x0E, 7, 448), (ml_dtypes.float8_e5m2, 0x0F, 14, 57344)][seed % 2]
    channels, words = pick(v.rng, [32, 32, 64, 96]), int(v.rng.integers(1, 5))
    first = 0 if channels == 96 else start_partition(v.rng, gen, channels)
    # two elements to a 32-bit word of the source
    a = Operand(v, "uint32", split(v.rng, 2 * words, 3), first, channels)
    # backwards, the words and the scales both begin at the last one
    step, lane = pick(v.rng, [1, -1]), pick(v.rng, [0, 4, 8, 12])
    data = Operand(v, "uint32", [words], first, channels, dims=[(1, words)])
    scale = Operand(v, "uint8", [words], first, channels, dims=[(1, words)])
    place = lambda w: w if step > 0 else words - 1 - w
    for c in range(channels):
        x = v.rng.standard_normal(4 * words) * np.exp2(v.rng.integers(-14, 9, 4 * words))
        if d == "bf16" and seed % 4 < 2:
            x *= np.exp2(pick(v.rng, [100, -110, -133]))
        if c // 8 % 3 == 1:
            x[:4] = 0
        a.put(c, narrow(x.astype(F32), d).view(np.uint32))
    v.freeze()
    x = np.array([widen(a.get(c).view(NP[d]), d) for c in range(channels)])
    for g in range(channels // 8):
        for w in range(words):
            block = x[8 * g:8 * g + 8, 4 * w:4 * w + 4].copy()
            e = int((block.view(np.uint32) >> 23 & 0xFF).max())
            s = max(e - emax, 0)
            q = np.clip(block.astype(np.float64) * 2.0 ** (127 - s), -most, most).astype(F32)
            for r in range(8):
                v.memory.put("sbuf", first + 8 * g + r, data.start + 4 * place(w),
                             q[r].astype(kind).tobytes())
            v.memory.put("sbuf", first + g // 4 * 32 + g % 4 + lane, scale.start + place(w), bytes([s]))
    v.inst("QUANTIZE_MX", src=a.field(3), num_active_channels=channels, in_dtype=CODE[d],
           out_dtype=code, dst={"data": data.addr() + 4 * place(0), "scale": scale.addr() + place(0),
                                "num": 4 * words, "step": step % 256, "scale_partition": lane})
    return v.done()


def dequantize(seed):
    v, gen = vector("tensor_dequantize", V3, "POOL", seed)
    fmt = 1 + seed % 4
    group = 8 * int(v.rng.integers(0, 2)) if fmt < 4 else 0
    unit, per = (5, 8) if group else (3, 4) if fmt == 4 else (1, 2)
    units, channels = int(v.rng.integers(1, 7)), int(v.rng.integers(1, 4))
    a = Operand(v, "uint32", split(v.rng, unit * units, 3), start_partition(v.rng, gen), channels)
    dst = Operand(v, "uint32", split(v.rng, per * units, 3), start_partition(v.rng, gen), channels)
    kind, most = (ml_dtypes.float8_e5m2, 57344.0) if fmt < 3 else (ml_dtypes.float8_e4m3, 240.0)
    for c in range(channels):
        words = v.rng.integers(0, 2 ** 32, unit * units, dtype=np.uint32)
        if group:
            for u in range(units):
                words[5 * u] = v.rng.integers(100, 150, 4).astype(np.uint8).view(np.uint32)[0]
        a.put(c, words)
    v.freeze()

    for c in range(channels):
        words, out = [int(x) for x in a.get(c)], []
        for u in range(units):
            these = words[unit * u:unit * u + unit]
            scales = [2.0 ** ((these[0] >> 8 * k & 0xFF) - 127) for k in range(4)] if group else None
            stream = sum(w << 32 * i for i, w in enumerate(these[1 if group else 0:]))
            width = 6 if fmt == 4 else 4
            for k in range(4 * per):
                x = code_value(stream >> width * k & (2 ** width - 1), fmt) * (scales[k // 8] if group else 1.0)
                out.append(np.clip(F32(x), -most, most))
        dst.put(c, np.array(out, F32).astype(kind).view(np.uint32))
    v.inst("TENSOR_DEQUANTIZE", src=a.field(3), in_dtype=CODE["uint32"], out_dtype=CODE["uint32"],
           num_active_channels=channels, dequant_fmt=fmt, group_size=group, dst=dst.field(3))
    return v.done()


def transposed(x):
    """Each block of 32 rows by 32 columns in its place."""
    out = x.copy()
    for r in range(0, x.shape[0], 32):
        for c in range(0, x.shape[1], 32):
            out[r:r + 32, c:c + 32] = x[r:r + 32, c:c + 32].T
    return out


def sparsity(seed, tags):
    v, gen = vector(f"sparsity_compress{'_tag' if tags else ''}", V4, "DVE", seed)
    d = pick(v.rng, INTS[:4] + FLOATS[:3])
    op = [9, 8, 0x21, 0x20][seed % 4]
    flip = seed % 5 == 4
    dim = int(v.rng.integers(2, 4 if tags else 5))
    group = [4, 6, 8, 12][int(v.rng.integers(0, 4))]
    groups = int(v.rng.integers(1, 5))
    inner = split(v.rng, group, dim - 1)
    counts = (inner + split(v.rng, groups, 4 - dim)) if not tags and dim < 4 else inner + (
        [groups] if dim == 2 else [])
    if dim == 4 or tags and dim == 3:
        groups = 1
    n = group * groups
    if flip:
        group, groups, n, dim = 8, 4, 32, 2
        counts = [8, 4] if tags else [8, 2, 2]
    channels = 32 if flip else int(v.rng.integers(1, 4))
    first = start_partition(v.rng, gen, channels)
    data = pick(v.rng, (INTS + FLOATS) if tags else ["bf16", "fp16", "fp8e3", "fp8e4", "fp8e5"])
    size = NP[data].itemsize
    a = Operand(v, d, counts, first, channels)
    packed = tags and seed % 3 == 1
    if tags:
        t = "uint16" if packed else pick(v.rng, ["uint8", "uint16", "uint32"])
        out = Operand(v, data, split(v.rng, 4 * groups, 2), first, channels)
        mark = Operand(v, t, split(v.rng, groups if packed else 4 * groups, 2), first, channels)
    else:
        word = "uint16" if size == 1 else "uint32"
        out = Operand(v, word, split(v.rng, 4 * groups, 3), first, channels)
    for c in range(channels):
        a.put(c, some(v.rng, d, n, pick(v.rng, ["ties", "wide"])))
    v.freeze()
    x = np.array([widen(a.get(c), d) for c in range(channels)])
    x = transposed(x) if flip else x
    for c in range(channels):
        values, marks = [], []
        for g in range(groups):
            row = x[c][group * g:group * (g + 1)]
            for i in winners(row, op):
                values.append(row[i])
                marks.append(i)
        values = narrow(values, data)
        if not tags:
            u = values.view(np.dtype(f"u{size}")).astype(np.int64)
            out.put(c, (u | np.array(marks) << 8 * size).astype(NP[out.dtype]))
            continue
        out.put(c, values)
        if packed:
            marks = [sum(marks[4 * g + k] << 4 * k for k in range(4)) for g in range(groups)]
        mark.put(c, np.array(marks).astype(NP[mark.dtype]))
    common = dict(in_dtype=CODE[d], transpose_src=int(flip), num_active_channels=channels,
                  out_data_dtype=CODE[data], op=op, op_dim=dim)
    if tags:
        v.inst("SPARSITY_COMPRESS_TAG", packed_tags=int(packed), src=a.field(2),
               out_tag_dtype=CODE[mark.dtype], data_dst=out.field(2), tag_dst=mark.field(2), **common)
    else:
        v.inst("SPARSITY_COMPRESS", src=a.field(3), out_struct_dtype=CODE[out.dtype],
               dst=out.field(3), **common)
    return v.done()


# ------------------------------------------------------------------ selects, wide integers

def maxnum(a, b):
    return b if np.isnan(a) or b > a else a


def largest(acc, c, row, command):
    """Takes `row` into accumulator `c`: command 2 goes on with it, another one begins anew."""
    if command:
        t = acc[c] if command == 2 else F32(-np.inf)
        for x in row:
            t = maxnum(t, x)
        acc[c] = t


def read_accumulators(v, result, acc):
    """Reads the accumulators of the channels of `result`, if there is one."""
    if result:
        v.inst("DVE_READ_ACCUMULATOR", dst_element_count=1, dtype=CODE["fp32"], negated=0,
               num_active_channels=result.channels, dst=result.field(1))
        for c in range(result.channels):
            result.put(c, np.array([acc[c]], F32))


def select_reduce(seed):
    v, gen = vector("select_reduce", ALL, "DVE", seed)
    dp, d, do = pick(v.rng, INTS), pick(v.rng, INTS[:4] + FLOATS), pick(v.rng, INTS + FLOATS)
    n, channels = int(v.rng.integers(1, 24)), int(v.rng.integers(1, 4))
    at = start_partition(v.rng, gen)
    p = Operand(v, dp, split(v.rng, n, 2), at, channels)
    a = Operand(v, d, split(v.rng, n, 2), start_partition(v.rng, gen), channels)
    dst = Operand(v, do, split(v.rng, n, 2), start_partition(v.rng, gen), channels)
    scalar = Operand(v, "fp32", [1], at, channels)
    how, rev = int(v.rng.integers(0, 2)), int(v.rng.integers(0, 2))
    fixed = F32(v.rng.integers(-40, 40)) / F32(4)
    for c in range(channels):
        p.put(c, (v.rng.integers(0, 2, n) * int(v.rng.integers(1, 100))).astype(NP[dp]))
        a.put(c, some(v.rng, d, n, pick(v.rng, ["ties", "wide"])))
        scalar.put(c, np.array([fixed + F32(c)], F32))
    commands = [[0], [3], [3, 2]][seed % 3]
    result = Operand(v, "fp32", [1], at, channels) if commands != [0] else None
    v.freeze()
    acc = [F32(0)] * channels
    for command in commands:
        v.inst("SELECT_REDUCE", in0_in1_dtype=CODE[dp] | CODE[d] << 4, out_dtype=CODE[do],
               num_active_channels=channels, op0=0, op1=8, reverse_operands=rev,
               accumulator_cmd=command, imm0_src=how, imm0=scalar.addr() if how else bits(fixed),
               imm0_dtype=CODE["fp32"], src0=p.field(2), src1=a.field(2), dst=dst.field(2))
        for c in range(channels):
            keep = (p.get(c) != 0) != bool(rev)
            other = scalar.get(c)[0] if how else fixed
            r = np.where(keep, widen(a.get(c), d), other).astype(F32)
            dst.put(c, narrow(r, do))
            largest(acc, c, r, command)
    read_accumulators(v, result, acc)
    return v.done()


COMPARE = {0x12: np.equal, 0x13: np.greater, 0x14: np.greater_equal, 0x15: np.less_equal, 0x16: np.less}


def range_select(seed):
    v, gen = vector("range_select", V3, "DVE", seed)
    d, do = pick(v.rng, FLOATS), pick(v.rng, FLOATS)
    n, channels = int(v.rng.integers(1, 24)), int(v.rng.integers(1, 4))
    at = start_partition(v.rng, gen)
    a = Operand(v, d, split(v.rng, n, 2), at, channels)
    dst = Operand(v, do, split(v.rng, n, 2), start_partition(v.rng, gen), channels)
    how = [int(v.rng.integers(0, 2)) for _ in range(2)]
    scalars = [Operand(v, "fp32", [1], at, channels) for _ in how]
    base = F32(v.rng.integers(-50, 5000))
    fixed = [base + F32(v.rng.integers(-2, n)) for _ in how]
    ops = [pick(v.rng, list(COMPARE)) for _ in how]
    for c in range(channels):
        a.put(c, some(v.rng, d, n, pick(v.rng, ["ties", "wide"])))
        for s, f in zip(scalars, fixed):
            s.put(c, np.array([f + F32(c)], F32))
    commands = [[0], [3], [3, 2]][seed % 3]
    result = Operand(v, "fp32", [1], at, channels) if commands != [0] else None
    v.freeze()
    acc, fill = [F32(0)] * channels, np.uint32(0xFF7FFFFF).view(F32)
    imm = [s.addr() if h else bits(f) for s, f, h in zip(scalars, fixed, how)]
    for command in commands:
        v.inst("RANGE_SELECT", num_active_channels=channels, in_out_dtype=CODE[d] | CODE[do] << 4,
               reduce_cmd=command, reduce_op=8, base=bits(base), fill_val=0xFF7FFFFF, src=a.field(2),
               comp_op0=ops[0], comp_op1=ops[1], bound0_src=how[0], bound1_src=how[1], bound0=imm[0],
               bound1=imm[1], dst=dst.field(2))
        for c in range(channels):
            index = base + np.arange(n, dtype=F32)
            limit = [s.get(c)[0] if h else f for s, f, h in zip(scalars, fixed, how)]
            keep = COMPARE[ops[0]](index, limit[0]) & COMPARE[ops[1]](index, limit[1])
            r = np.where(keep, widen(a.get(c), d), fill).astype(F32)
            dst.put(c, narrow(r, do))
            largest(acc, c, r, command)
    read_accumulators(v, result, acc)
    return v.done()


WIDE = {"add": 0xC4, "mult_int": 0xC5, "sub": 0xC6, "mult_uint": 0xDB, "asl": 0x02, "asr": 0x03,
        "lsl": 0x10, "lsr": 0x11}


def int_wide(seed, scalar_form):
    name = "tensor_scalar_int_wide" if scalar_form else "tensor_tensor_int_wide"
    v, gen = vector(name, ["v5"], "DVE" if scalar_form else "POOL", seed)
    op = list(WIDE)[seed % 8]
    shift = op in ("asl", "asr", "lsl", "lsr")
    signed = op == "mult_int" or shift and v.rng.integers(0, 2)
    kinds = INTS[0::2] if signed else INTS[1::2]
    d, d1 = pick(v.rng, kinds), pick(v.rng, INTS[1::2] if shift else kinds)
    if shift and scalar_form:
        # tensor and immediate of one signedness, the count unsigned
        d, signed = pick(v.rng, INTS[1::2]), False
    low = pick(v.rng, INTS) if shift else pick(v.rng, ["int32", "uint32"])
    high = pick(v.rng, INTS[0::2] if signed else INTS[1::2])
    n, channels = int(v.rng.integers(1, 16)), int(v.rng.integers(1, 4))
    a = Operand(v, d, split(v.rng, n, 2), 0, channels)
    b = Operand(v, d1, [1] if scalar_form else split(v.rng, n, 2), 0, channels)
    dst = [Operand(v, t, split(v.rng, n, 2), 0, channels) for t in (low, high)]
    inline = scalar_form and seed % 16 >= 8
    fixed = some(v.rng, d1, 1, "wide")
    if shift:
        fixed = np.array([v.rng.integers(0, 32)], NP[d1])
    for c in range(channels):
        a.put(c, some(v.rng, d, n, pick(v.rng, ["wide", "special"])))
        other = some(v.rng, d1, b.n, pick(v.rng, ["wide", "special"]))
        if shift:
            other = v.rng.integers(0, 32, b.n).astype(NP[d1])
        b.put(c, other)
    v.freeze()
    for c in range(channels):
        ys = list(fixed if inline else b.get(c)) * (n if scalar_form else 1)
        lows, highs = [], []
        for x, y in zip(a.get(c), ys):
            x, y = int(x), int(y)
            full = {"add": lambda: x + y, "sub": lambda: x - y, "mult": lambda: x * y,
                    "asl": lambda: x << y, "lsl": lambda: x << y, "asr": lambda: x >> y,
                    "lsr": lambda: (x % 2 ** 64) >> y}[op.split("_")[0]]() % 2 ** 64
            lows.append(full % 2 ** 32)
            highs.append(full >> 32)
        for t, r in zip(dst, (lows, highs)):
            k = 2 ** (8 * NP[t.dtype].itemsize)
            t.put(c, np.array([x % k for x in r], np.dtype(f"u{NP[t.dtype].itemsize}")).view(NP[t.dtype]))
    fields = dict(out0_out1_dtype=CODE[low] | CODE[high] << 4, op=WIDE[op],
                  num_active_channels=channels, dst0=dst[0].field(2), dst1=dst[1].field(2))
    if scalar_form:
        fields |= dict(in_imm_dtype=CODE[d] | CODE[d1] << 4, src=a.field(2), imm_src=0 if inline else 1,
                       imm=int(fixed.astype(np.int64)[0]) % 2 ** 32 if inline else b.addr())
    else:
        fields |= dict(in0_in1_dtype=CODE[d] | CODE[d1] << 4, src0=a.field(2), src1=b.field(2))
    v.inst(name.upper(), **fields)
    return v.done(name=f"{v.out['name']} {op}")


# ------------------------------------------------------------------ extended forms

def extended(seed):
    """EXTENDED_INST: two-operand arithmetic, copy, state words, peer copy to the own core."""
    form = [2, 1, 2, 6, 2, 3][seed % 6]
    v, gen = vector(f"extended_inst form {form}", V3, "POOL", seed)
    channels, n = 16, int(v.rng.integers(1, 8))
    # one port of 16 partitions, operands read and written
    common = dict(extended_opcode=form, completion_info=0b1101)
    first = [start_partition(v.rng, gen) for _ in range(3)]
    if form == 2:
        d0, d1, do = (pick(v.rng, INTS + FLOATS) for _ in range(3))
        a, b = (Operand(v, d, split(v.rng, n, 2), p, channels) for d, p in zip([d0, d1], first))
        dst = Operand(v, do, split(v.rng, n, 2), first[2], channels)
        op = int(v.rng.integers(0, 2))
        for c in range(channels):
            a.put(c, some(v.rng, d0, n, "ties"))
            b.put(c, some(v.rng, d1, n, "wide"))
        v.freeze()
        for c in range(channels):
            x, y = widen(a.get(c), d0), widen(b.get(c), d1)
            dst.put(c, narrow((x + y, x * y)[op], do))
        v.inst("EXTENDED_INST", in0_in1_dtype=CODE[d0] | CODE[d1] << 4, out_dtype=CODE[do],
               op=(4, 6)[op], src0=a.field(2), src1=b.field(2), dst=dst.field(2), **common)
    elif form in (1, 6):
        d = pick(v.rng, INTS + FLOATS)
        do = d if form == 6 else pick(v.rng, INTS + FLOATS)
        parts = 3 if form == 6 else 2
        a = Operand(v, d, split(v.rng, n, parts), first[0], channels)
        dst = Operand(v, do, split(v.rng, n, parts), first[1], channels)
        for c in range(channels):
            a.put(c, some(v.rng, d, n, "wide" if d != do else None))
        v.freeze()
        for c in range(channels):
            row = a.get(c)
            dst.put(c, row if d == do else narrow(widen(row, d), do))
        v.inst("EXTENDED_INST", in_dtype=CODE[d], out_dtype=CODE[do], src=a.field(parts),
               dst=dst.field(parts), **common)
    else:
        src = Operand(v, "uint32", [6], first[0], channels)
        out = Operand(v, "uint32", [3], first[0], channels)
        dst = Operand(v, "uint32", split(v.rng, 6, 4), first[0], channels)
        for c in range(channels):
            src.put(c, v.rng.integers(1, 2 ** 32, 6, dtype=np.uint32))
        v.freeze()
        for c in range(channels):
            state = [int(x) for x in src.get(c)]
            out.put(c, np.array([xorwow_step(state) for _ in range(3)], np.uint32))
            dst.put(c, np.array(state, np.uint32))
        v.inst("EXTENDED_INST", rand_algorithm=3, rand_generator=1, in_dtype=CODE["uint32"],
               src=src.field(1), **common)
        v.inst("RNG", dst_element_count=3, dtype=CODE["uint32"], num_active_channels=channels,
               dst=out.field(4))
        v.inst("EXTENDED_INST", rand_algorithm=3, rand_generator=1, dtype=CODE["uint32"],
               dst=dst.field(4), **(common | {"extended_opcode": 4}))
    return v.done()


def sb2sb(seed):
    v, gen = vector("sb2sb_collective LNC1", V3, "POOL", seed)
    d = pick(v.rng, INTS + FLOATS)
    n, channels = int(v.rng.integers(1, 24)), int(v.rng.integers(1, 5))
    a = Operand(v, d, split(v.rng, n, 3), start_partition(v.rng, gen), channels)
    dst = Operand(v, d, split(v.rng, n, 3), start_partition(v.rng, gen), channels)
    for c in range(channels):
        a.put(c, some(v.rng, d, n))
    v.freeze()
    for c in range(channels):
        dst.put(c, a.get(c))
    v.inst("SB2SB_COLLECTIVE", in_dtype=CODE[d], out_dtype=CODE[d], lnc_size_fmt=0,
           num_active_channels=channels, src=a.field(3), dst=dst.field(3))
    return v.done()


def main():
    with np.errstate(all="ignore"):
        many = lambda f, n, *more: [x for x in (f(s, *more) for s in range(n)) if x]
        write("indirect", "search_drawn", many(max8, 30) + many(search, 56))
        write("indirect", "sort_drawn", many(sort, 30) + many(nonzero, 24) + many(bounds, 24))
        write("indirect", "gather_drawn", many(indirect_copy, 24) + many(embedding, 27))
        write("indirect", "random_drawn",
              many(rng, 30) + many(states, 42) + many(rand2, 24) + many(dropout, 30))
        write("indirect", "mx_drawn", many(quantize, 20) + many(dequantize, 28))
        write("indirect", "sparsity_drawn", many(sparsity, 25, False) + many(sparsity, 25, True))
        write("indirect", "select_drawn", many(select_reduce, 25) + many(range_select, 25)
              + many(int_wide, 24, False) + many(int_wide, 24, True))
        write("indirect", "extended_drawn", many(extended, 24) + many(sb2sb, 20))


if __name__ == "__main__":
    main()
