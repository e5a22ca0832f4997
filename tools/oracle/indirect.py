#!/usr/bin/env python3
"""Vectors for search, sort, gather, random, MX and sparsity instructions, computed with numpy and
ml_dtypes from the published descriptions, independently of the emulator."""

import numpy as np
import ml_dtypes

from indirect_common import (CODE, NP, Vector, addr4, is_int, narrow, numbers, tensor, walk, widen,
                             write)

F32 = np.float32
NONE = 0xFFFFFFFF


# ------------------------------------------------------------------ search

def search_source(v, dtype, channels, n, start, dims=None):
    """Puts `n` numbers in each channel and returns them."""
    dims = dims or [(1, n)]
    rows = []
    size = NP[dtype].itemsize
    for c in range(channels):
        v.watch("sbuf", start + c, 0, (max(walk(dims)) + 1) * size)
        row = numbers(v.rng, dtype, n)
        v.memory.scatter("sbuf", start + c, 0, dims, row)
        rows.append(row)
    return rows


def max8(seed, gen, in_dtype, out_dtype, n, channels, start, step):
    v = Vector(f"max8 {in_dtype} to {out_dtype} n={n}", gen, "DVE", seed)
    dims = [(2, n // 4), (n, 4)] if n % 4 == 0 and n > 20 else [(1, n)]
    rows = search_source(v, in_dtype, channels, n, start, dims)
    size = NP[out_dtype].itemsize
    at = 2048 if step > 0 else 2048 + 7 * size
    for c in range(channels):
        v.watch("sbuf", start + c, 2048, 8 * size * abs(step))
    v.freeze()
    for c, row in enumerate(rows):
        x = widen(row, in_dtype)
        top = sorted((y for y in x if not np.isnan(y)), reverse=True)[:8]
        top += [-np.inf] * (8 - len(top))
        out = narrow(np.array(top[::-1], F32), out_dtype)
        v.memory.scatter("sbuf", start + c, at, [(step, 8)], out)
    v.inst("MAX8", in_dtype=CODE[in_dtype], out_dtype=CODE[out_dtype], num_active_channels=channels,
           src=tensor(addr4(start, 0), dims, 4), dst=tensor(addr4(start, at), [(step, 8)], 2))
    return v.done()


def find(seed, gen, dtype, out_dtype, n, channels, twice=False):
    v = Vector(f"find_index8 {dtype} to {out_dtype} n={n}", gen, "DVE", seed)
    rows = search_source(v, dtype, channels, n, 32)
    size = NP[out_dtype].itemsize
    values = []
    for c in range(channels):
        pick = v.rng.integers(0, n, 8)
        vals = rows[c][pick].copy()
        if not is_int(dtype):
            vals[0] = F32(77.0)
        v.watch("sbuf", 32 + c, 3000, 8 * NP[dtype].itemsize)
        v.memory.scatter("sbuf", 32 + c, 3000, [(1, 8)], vals)
        values.append(vals)
        v.watch("sbuf", 32 + c, 3500, 8 * size)
        if twice:
            v.watch("sbuf", 32 + c, 3600, 8 * size)
    v.freeze()
    for c in range(channels):
        x, mv = widen(rows[c], dtype), widen(values[c], dtype)[::-1]
        matched = [False] * 8
        for at in [3500, 3600] if twice else [3500]:
            out = [NONE & (2 ** (8 * size) - 1)] * 8
            for i, e in enumerate(x):
                for k in range(8):
                    if not matched[k] and e == mv[k]:
                        out[k], matched[k] = i, True
                        break
            v.memory.scatter("sbuf", 32 + c, at, [(1, 8)], np.array(out, NP[out_dtype]))
    v.inst("MATCH_VALUE_LOAD", dtype=CODE[dtype], num_active_channels=channels,
           src=tensor(addr4(32, 3000), [(1, 2), (2, 4)], 2))
    for at in [3500, 3600] if twice else [3500]:
        v.inst("FIND_INDEX8", in_dtype=CODE[dtype], out_dtype=CODE[out_dtype],
               num_active_channels=channels, src=tensor(addr4(32, 0), [(1, n)], 4),
               dst=tensor(addr4(32, at), [(1, 8)], 2))
    return v.done()


def replace(seed, gen, dtype, out_dtype, n, channels, immediate):
    v = Vector(f"match_replace8 {dtype} to {out_dtype} n={n}", gen, "DVE", seed)
    rows = search_source(v, dtype, channels, n, 64)
    size = NP[out_dtype].itemsize
    values = []
    for c in range(channels):
        vals = rows[c][v.rng.integers(0, n, 8)].copy()
        vals[4:7] = vals[3]
        v.watch("sbuf", 64 + c, 3000, 8 * NP[dtype].itemsize)
        v.memory.scatter("sbuf", 64 + c, 3000, [(1, 8)], vals)
        values.append(vals)
        v.watch("sbuf", 64 + c, 2000, n * size)
    v.freeze()
    for c in range(channels):
        x, mv, matched = widen(rows[c], dtype).copy(), widen(values[c], dtype)[::-1], [False] * 8
        for i, e in enumerate(list(x)):
            for k in range(8):
                if not matched[k] and e == mv[k]:
                    matched[k], x[i] = True, F32(immediate)
                    break
        v.memory.scatter("sbuf", 64 + c, 2000, [(1, n)], narrow(x, out_dtype))
    v.inst("MATCH_VALUE_LOAD", dtype=CODE[dtype], num_active_channels=channels,
           src=tensor(addr4(64, 3000), [(1, 8)], 2))
    v.inst("MATCH_REPLACE8", in_dtype=CODE[dtype], out_dtype=CODE[out_dtype],
           num_active_channels=channels, immediate=int(F32(immediate).view(np.uint32)),
           src=tensor(addr4(64, 0), [(1, n)], 4), dst=tensor(addr4(64, 2000), [(1, n)], 4))
    return v.done()


# ------------------------------------------------------------------ sort, segments

def sort(seed, gen, dtype, descending, n, channels, keep, pointer):
    v = Vector(f"sort {dtype} {'down' if descending else 'up'} n={n}", gen, "POOL", seed)
    rows = search_source(v, dtype, channels, n, 0, [(2, n)])
    width = NP[dtype].itemsize
    index = np.dtype(f"u{width}")
    offsets = []
    for c in range(channels):
        v.watch("sbuf", c, 2000, 2 * keep * width)
        offset = int(v.rng.integers(0, 1000)) if pointer else 100
        v.watch("sbuf", c, 3900, 4)
        v.memory.put("sbuf", c, 3900, np.uint32(offset).tobytes())
        offsets.append(offset)
    v.freeze()
    for c, row in enumerate(rows):
        x = row.astype(np.float64) if not is_int(dtype) else row.astype(np.int64)
        numbers_first = [i for i in range(n) if x[i] == x[i]]
        order = sorted(numbers_first, key=lambda i: -x[i] if descending else x[i])
        order += [i for i in range(n) if x[i] != x[i]]
        out = []
        for i in order[:keep]:
            out += [row[i:i + 1].view(index)[0], (i + offsets[c]) % 2 ** (8 * width)]
        v.memory.scatter("sbuf", c, 2000, [(1, 2 * keep)], np.array(out, index))
    v.inst("SORT", num_active_channels=channels, index_offset_src=1 if pointer else 0,
           in_out_dtype=CODE[dtype] * 17, comparison=0x13 if descending else 0x16,
           src=tensor(addr4(0, 0), [(2, n)], 1), dst=tensor(addr4(0, 2000), [(1, 2), (2, keep)], 2),
           index_offset=addr4(0, 3900) if pointer else 100, stable=1)
    return v.done()


def nonzero(seed, gen, dtype, n, channels):
    v = Vector(f"nonzero_with_count {dtype} n={n}", gen, "POOL", seed)
    rows = []
    for c in range(channels):
        row = (v.rng.integers(0, 3, n) - 1).astype(NP[dtype])
        if dtype == "fp32":
            row[:4] = [np.nan, -0.0, 1e-40, np.inf]
        if c == 16:
            row[:] = 0
        v.watch("sbuf", c, 0, 4 * n)
        v.memory.scatter("sbuf", c, 0, [(1, n)], row)
        v.watch("sbuf", c, 1024, 4 * (n + 1))
        rows.append(row)
    v.freeze()
    for c in range(0, channels, 16):
        with np.errstate(invalid="ignore"):
            hits = [i - 5 for i in range(n) if rows[c][i] < 0 or rows[c][i] > 0]
        out = hits + [-7] * (n - len(hits)) + [len(hits)]
        v.memory.scatter("sbuf", c, 1024, [(1, n + 1)], np.array(out, np.int32))
    v.inst("NONZERO_WITH_COUNT", num_active_channels=channels, in_dtype=CODE[dtype],
           out_dtype=CODE["int32"], index_offset_src=0, index_offset=2 ** 32 - 5, padding_val_src=0,
           padding_val=2 ** 32 - 7, src=tensor(addr4(0, 0), [(1, n)], 3),
           dst=tensor(addr4(0, 1024), [(1, n + 1)], 3))
    return v.done()


def bounds(seed, gen, in_dtype, out_dtype, lengths):
    v = Vector(f"get_sequence_bounds {in_dtype} to {out_dtype}", gen, "POOL", seed)
    ids = np.concatenate([np.full(k, i) for i, k in lengths]).astype(NP[in_dtype])
    n = len(ids)
    v.watch("sbuf", 32, 0, 4 * n)
    v.memory.scatter("sbuf", 32, 0, [(1, n)], ids)
    v.watch("sbuf", 32, 2000, 8 * n)
    v.freeze()
    start, end, at = [], [], 0
    # runs of equal numbers, which may be split over several entries of `lengths`
    runs = [[ids[0], 0]]
    for x in ids:
        if x == runs[-1][0]:
            runs[-1][1] += 1
        else:
            runs.append([x, 1])
    for x, k in runs:
        start += [n if x == 0 else at] * k
        end += [-1 if x == 0 else at + k] * k
        at += k
    out = np.array(start + end, np.int64).astype(NP[out_dtype])
    v.memory.scatter("sbuf", 32, 2000, [(1, 2 * n)], out)
    v.inst("GET_SEQUENCE_BOUNDS", num_active_channels=1, in_dtype=CODE[in_dtype],
           out_dtype=CODE[out_dtype], src=tensor(addr4(32, 0), [(1, n)], 3),
           dst=tensor(addr4(32, 2000), [(1, n), (n, 1), (n, 2)], 3))
    return v.done()


# ------------------------------------------------------------------ gather

def indirect_copy(seed, gen, dtype, per_index, indices, channels, rows):
    v = Vector(f"indirect_copy {dtype} e={per_index}", gen, "POOL", seed)
    size = NP[dtype].itemsize
    columns = -(-indices // 16)
    lists, table = [], []
    for core in range(channels // 16):
        chosen = v.rng.integers(0, rows, indices)
        chosen[-1] = rows + 3           # beyond the buffer: zeros
        lists.append(chosen)
        for p in range(16):
            column = [int(chosen[j]) if j < indices else 0 for j in range(p, 16 * columns, 16)]
            v.watch("sbuf", 16 * core + p, 0, 2 * columns)
            v.memory.put("sbuf", 16 * core + p, 0, np.array(column, np.uint16).tobytes())
    for c in range(channels):
        v.watch("sbuf", c, 256, rows * per_index * size)
        table.append(v.memory.get("sbuf", c, 256, rows * per_index * size))
        v.watch("sbuf", c, 2048, indices * per_index * size)
    v.freeze()
    block = per_index * size
    for c in range(channels):
        out = b"".join(table[c][i * block:(i + 1) * block] if i < rows else bytes(block)
                       for i in lists[c // 16])
        v.memory.put("sbuf", c, 2048, out)
    n = indices * per_index
    v.inst("INDIRECT_COPY", in_dtype=CODE[dtype], out_dtype=CODE[dtype],
           num_active_channels=channels, src_num_elem_per_idx=per_index, src_buffer_size=rows,
           src={"index": addr4(0, 0) | 0x20000000, "data": addr4(0, 256), "num": n},
           dst=tensor(addr4(0, 2048), [(1, n)], 4))
    return v.done()


def embedding(seed, gen, dtype, op, width, indices, entries):
    v = Vector(f"embedding_update {dtype} op={op}", gen, "POOL", seed)
    size = NP[dtype].itemsize
    stride = width * size + 8
    v.watch("hbm", 0, 0, entries * stride)
    table = []
    for i in range(entries):
        row = numbers(v.rng, dtype, width, special=False)
        v.memory.scatter("hbm", 0, i * stride, [(1, width)], row)
        table.append(row.copy())
    data = [numbers(v.rng, dtype, width, special=False) for _ in indices]
    v.watch("sbuf", 0, 0, 4 * len(indices))
    v.memory.put("sbuf", 0, 0, np.array(indices, np.uint32).tobytes())
    v.watch("sbuf", 0, 512, len(indices) * width * size)
    v.memory.put("sbuf", 0, 512, b"".join(d.tobytes() for d in data))
    v.freeze()
    for i, d in zip(indices, data):
        if i >= entries:
            continue
        a, b = table[i], d
        if is_int(dtype):
            with np.errstate(over="ignore"):
                table[i] = {0: a + b, 2: np.maximum(a, b), 3: np.minimum(a, b)}[op]
        else:
            a, b = widen(a, dtype), widen(b, dtype)
            table[i] = narrow({0: a + b, 2: np.maximum(a, b), 3: np.minimum(a, b)}[op], dtype)
    for i in range(entries):
        v.memory.scatter("hbm", 0, i * stride, [(1, width)], table[i])
    raw = bytearray(64)

    def field(at, size, value):
        raw[at:at + size] = int(value).to_bytes(size, "little")

    field(12, 1, CODE[dtype]); field(13, 1, op)
    field(16, 4, addr4(0, 0)); field(20, 2, 1); field(22, 2, len(indices))
    field(24, 4, addr4(0, 512)); field(28, 2, 1); field(30, 2, width)
    field(32, 2, width); field(34, 2, len(indices))
    field(48, 2, width); field(50, 2, stride); field(52, 2, len(indices)); field(56, 4, entries)
    v.inst("EMBEDDING_UPDATE", raw=[12, bytes(raw[12:]).hex()])
    return v.done()


# ------------------------------------------------------------------ random

M32 = 0xFFFFFFFF


def lfsr_step(s):
    b = (s >> 31 ^ s >> 21 ^ s >> 1 ^ s) & 1
    return (s << 1 | b) & M32


def lfsr_reset(lane):
    return (lane * 0x9E3779B9) & M32 or 1


def xorwow_step(s):
    x, y, z, w, u, d = s
    t = x ^ x >> 2
    u2 = (u ^ u << 4) ^ (t ^ t << 1)
    u2 &= M32
    d = (d + 362437) & M32
    s[:] = [y, z, w, u, u2, d]
    return (u2 + d) & M32


def xorwow_reset(gen):
    return [0x075BCD15, 0x159A55E5, 0x1F123BB5, 0x05491333, 0x00583F19,
            0xC934 if gen == "v3" else 0xC924]


def raw_bits(draws, dtype, pool):
    draws = np.array(draws, np.uint32)
    if pool and dtype == "fp32":
        return ((draws & 0x7FFFFF | 0x3F800000).view(F32) - F32(1))
    if pool and dtype == "bf16":
        one = ((draws & 0x7F | 0x3F80) << np.uint32(16)).view(F32) - F32(1)
        return one.astype(ml_dtypes.bfloat16)
    unsigned = np.dtype(f"u{NP[dtype].itemsize}")
    return draws.astype(unsigned).view(NP[dtype])


def rng(seed, gen, engine, dtype, start, channels, n, words=None):
    v = Vector(f"rng {engine} {gen} {dtype}{' seeded' if words else ''}", gen, engine, seed)
    size = NP[dtype].itemsize
    states = []
    for c in range(channels):
        v.watch("sbuf", start + c, 0, 2 * n * size)
        if words:
            state = [int(x) for x in v.rng.integers(0, 2 ** 32, words)]
            if c == 1:
                state = [0] * words
            v.watch("sbuf", start + c, 3000, 4 * words)
            v.watch("sbuf", start + c, 3500, 4 * words)
            v.memory.put("sbuf", start + c, 3000, np.array(state, np.uint32).tobytes())
        elif engine == "POOL":
            state = xorwow_reset(gen)
        else:
            state = [lfsr_reset(start + c)]
        states.append(state)
    v.freeze()
    pool = engine == "POOL"
    if words:
        algorithm, source = (3, 1) if pool else (0, 0)
        v.inst("RAND_SET_STATE", rand_algorithm=algorithm, num_active_channels=channels,
               update_state=0, in_dtype=CODE["uint32"], rand_generator=source,
               src=tensor(addr4(start, 3000), [(1, words)], 1))
    for c, state in enumerate(states):
        if words and pool and not any(state[:5]):
            state[4] = 1
        if words and not pool and state[0] == 0:
            state[0] = 1
        draws = []
        for _ in range(2 * n):
            if pool:
                draws.append(xorwow_step(state))
            else:
                state[0] = lfsr_step(state[0])
                draws.append(state[0])
        v.memory.scatter("sbuf", start + c, 0, [(1, 2 * n)], raw_bits(draws, dtype, pool))
        if words:
            v.memory.put("sbuf", start + c, 3500, np.array(state, np.uint32).tobytes())
    for at in [0, n * size]:
        v.inst("RNG", dst_element_count=n, dtype=CODE[dtype], num_active_channels=channels,
               dst=tensor(addr4(start, at), [(1, n)], 4))
    if words:
        v.inst("RAND_GET_STATE", rand_algorithm=algorithm, rand_generator=source,
               dtype=CODE["uint32"], num_active_channels=channels,
               dst=tensor(addr4(start, 3500), [(1, words)], 4))
    return v.done()


def rand2(seed, gen, dtype, low, high, n, pointer):
    v = Vector(f"rand2 {gen} {dtype}", gen, "DVE", seed)
    channels, start = 3, 32
    size = NP[dtype].itemsize
    states, lows = [], []
    for c in range(channels):
        v.watch("sbuf", start + c, 0, n * size)
        words = [int(x) for x in v.rng.integers(0, 2 ** 32, 24)]
        v.watch("sbuf", start + c, 3000, 96)
        v.memory.put("sbuf", start + c, 3000, np.array(words, np.uint32).tobytes())
        states.append([words[6 * k:6 * k + 6] for k in range(4)])
        value = F32(low + c) if pointer else F32(low)
        v.watch("sbuf", start + c, 3200, 4)
        v.memory.put("sbuf", start + c, 3200, value.tobytes())
        lows.append(value)
    v.freeze()
    for c in range(channels):
        draws = np.array([xorwow_step(states[c][i % 4]) for i in range(n)], np.uint32)
        u = (draws & 0x7FFFFF | 0x3F800000).view(F32) - F32(1)
        spread = F32(high) - lows[c]
        out = lows[c] + spread * u
        v.memory.scatter("sbuf", start + c, 0, [(1, n)], narrow(out, dtype))
    v.inst("RAND_SET_STATE", rand_algorithm=3, num_active_channels=channels, update_state=0,
           in_dtype=CODE["uint32"], rand_generator=1, src=tensor(addr4(start, 3000), [(1, 24)], 1))
    v.inst("RAND2", rand_algorithm=3, post_process=1, dtype=CODE[dtype],
           num_active_channels=channels, min_src=1 if pointer else 0, max_src=0,
           min=addr4(start, 3200) if pointer else int(F32(low).view(np.uint32)),
           max=int(F32(high).view(np.uint32)), dst=tensor(addr4(start, 0), [(1, n)], 3))
    return v.done()


def dropout(seed, gen, dtype, drop, threshold, n, pointer=None):
    v = Vector(f"dropout {dtype} {'drop' if drop else 'keep'} {threshold}", gen, "DVE", seed)
    channels, start = 2, 64
    size = NP[dtype].itemsize
    rows = []
    for c in range(channels):
        v.watch("sbuf", start + c, 0, n * size)
        rows.append(v.memory.get("sbuf", start + c, 0, n * size))
        v.watch("sbuf", start + c, 2000, n * size)
        v.watch("sbuf", start + c, 3000, 4)
        if pointer:
            value = narrow([threshold], pointer)
            v.memory.put("sbuf", start + c, 3000, value.tobytes())
    v.freeze()
    limit = widen(narrow([threshold], pointer), pointer)[0] if pointer else F32(threshold)
    for c in range(channels):
        s, out = lfsr_reset(start + c), bytearray(rows[c])
        for i in range(n):
            s = lfsr_step(s)
            r = np.uint32(s >> 9 | 0x3F800000).view(F32) - F32(1)
            if (r < limit) == drop:
                out[i * size:(i + 1) * size] = bytes(size)
        v.memory.put("sbuf", start + c, 2000, bytes(out))
    v.inst("DROPOUT", src=tensor(addr4(start, 0), [(1, n)], 3), in_dtype=CODE[dtype],
           out_dtype=CODE[dtype], num_active_channels=channels, threshold_src=1 if pointer else 0,
           threshold_dtype=CODE[pointer or "fp32"], threshold_type=0 if drop else 1,
           threshold=addr4(start, 3000) if pointer else int(F32(threshold).view(np.uint32)),
           dst=tensor(addr4(start, 2000), [(1, n)], 3))
    return v.done()


# ------------------------------------------------------------------ MX, sparsity

def quantize(seed, gen, in_dtype, out, channels, words):
    kind, code, emax = {"e4m3": (ml_dtypes.float8_e4m3fn, 0x0E, 7),
                        "e5m2": (ml_dtypes.float8_e5m2, 0x0F, 14)}[out]
    v = Vector(f"quantize_mx {in_dtype} to {out} {channels} channels", gen, "DVE", seed)
    width = 4 * words
    scale = np.exp2(v.rng.integers(-10, 11, (channels, width))).astype(F32)
    x = v.rng.normal(size=(channels, width)).astype(F32) * scale
    x[8:16, :4] = 0                     # a block of zeros
    if in_dtype == "bf16":
        x[16:24, :4] *= F32(2.0 ** 100)
        x[16:24, 4:8] *= F32(2.0 ** -120)
    x = narrow(x, in_dtype)
    for c in range(channels):
        v.watch("sbuf", c, 0, 2 * width)
        v.memory.scatter("sbuf", c, 0, [(1, width)], x[c])
        v.watch("sbuf", c, 1024, 4 * words)
        v.watch("sbuf", c, 2048, words)
    v.freeze()
    wide = widen(x, in_dtype)
    for g in range(channels // 8):
        for w in range(words):
            block = wide[8 * g:8 * g + 8, 4 * w:4 * w + 4]
            e = int((block.view(np.uint32) >> 23 & 0xFF).max())
            s = max(e - emax, 0)
            q = (block.astype(np.float64) * 2.0 ** (127 - s)).astype(F32).astype(kind)
            for r in range(8):
                v.memory.put("sbuf", 8 * g + r, 1024 + 4 * w, q[r].tobytes())
            v.memory.put("sbuf", g // 4 * 32 + g % 4, 2048 + w, bytes([s]))
    v.inst("QUANTIZE_MX", src=tensor(addr4(0, 0), [(1, 2 * words)], 3), num_active_channels=channels,
           in_dtype=CODE[in_dtype], out_dtype=code,
           dst={"data": addr4(0, 1024), "scale": addr4(0, 2048), "num": width, "step": 1,
                "scale_partition": 0})
    return v.done()


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]


def code_value(code, fmt):
    """Value of a packed code of TENSOR_DEQUANTIZE: FP4, INT4, NF4 or a 6-bit float."""
    if fmt == 2:
        return code - 16 if code > 7 else code
    if fmt == 3:
        return float(F32(NF4[code]))
    man = 1 if fmt == 1 else 3
    sign, e, f = code >> (2 + man), code >> man & 3, code & (2 ** man - 1)
    mag = f / 2 ** man if e == 0 else 2.0 ** (e - 1) * (1 + f / 2 ** man)
    return -mag if sign else mag


def dequantize(seed, gen, fmt, group, units):
    v = Vector(f"tensor_dequantize format {fmt} group {group}", gen, "POOL", seed)
    unit = 5 if group else 3 if fmt == 4 else 1
    per = {True: 8, False: 4 if fmt == 4 else 2}[bool(group)]
    kind = ml_dtypes.float8_e5m2 if fmt < 3 else ml_dtypes.float8_e4m3
    limit = 57344.0 if fmt < 3 else 240.0
    channels = 2
    n, m = unit * units, per * units
    rows = []
    for c in range(channels):
        words = [int(x) for x in v.rng.integers(0, 2 ** 32, n)]
        if group:
            for u in range(units):
                scale = v.rng.integers(120, 136, 4, dtype=np.uint8)
                words[5 * u] = int.from_bytes(scale.tobytes(), "little")
        rows.append(words)
        v.watch("sbuf", c, 0, 4 * n)
        v.memory.put("sbuf", c, 0, np.array(words, np.uint32).tobytes())
        v.watch("sbuf", c, 2048, 4 * m)
    v.freeze()

    for c in range(channels):
        out = b""
        for u in range(units):
            words = rows[c][unit * u:unit * (u + 1)]
            scales = [1.0] * 99
            if group:
                scales = [2.0 ** (words[0] >> 8 * k & 0xFF) / 2.0 ** 127 for k in range(4)]
                words = words[1:]
            stream = sum(w << 32 * i for i, w in enumerate(words))
            bits = 6 if fmt == 4 else 4
            for k in range(32 * len(words) // bits):
                x = F32(code_value(stream >> bits * k & (2 ** bits - 1), fmt) * scales[k // 8 if group else 0])
                x = np.clip(x, -limit, limit)
                out += np.asarray(x, F32).astype(kind).tobytes()
        v.memory.put("sbuf", c, 2048, out)
    v.inst("TENSOR_DEQUANTIZE", src=tensor(addr4(0, 0), [(1, n)], 3), in_dtype=CODE["uint32"],
           out_dtype=CODE["uint32"], num_active_channels=channels, dequant_fmt=fmt, group_size=group,
           dst=tensor(addr4(0, 2048), [(1, m)], 3))
    return v.done()


def winners(group, op):
    """Positions of the four kept elements, least extreme first; earlier ones win ties."""
    key = {9: lambda x: x, 8: lambda x: -x, 0x21: abs, 0x20: lambda x: -abs(x)}[op]
    best = sorted(range(len(group)), key=lambda i: (-key(float(group[i])), i))[:4]
    return best[::-1]


def sparsity(seed, gen, in_dtype, op, data, transpose, tags=None, packed=False):
    op_name = {9: "max", 8: "min", 0x21: "abs_max", 0x20: "abs_min"}[op]
    v = Vector(f"sparsity_compress{'_tag' if tags else ''} {in_dtype} {op_name} {data}"
               f"{' transposed' if transpose else ''}{' packed' if packed else ''}", gen, "DVE", seed)
    channels = 32 if transpose else 3
    dims = [(1, 8), (8, 4)]
    groups = 4
    rows = []
    for c in range(channels):
        v.watch("sbuf", c, 0, 32 * NP[in_dtype].itemsize)
        row = numbers(v.rng, in_dtype, 32, special=False)
        v.memory.scatter("sbuf", c, 0, dims, row)
        rows.append(widen(row, in_dtype))
    size = NP[data].itemsize
    for c in range(channels):
        v.watch("sbuf", c, 1024, 16 * size * (1 if tags else 2))
        if tags:
            v.watch("sbuf", c, 2048, (4 if packed else 16) * NP[tags].itemsize)
    v.freeze()
    x = np.array(rows)
    if transpose:
        x = x.T.copy()
    for c in range(channels):
        values, marks = [], []
        for g in range(groups):
            group = x[c][8 * g:8 * g + 8]
            for i in winners(group, op):
                values.append(group[i])
                marks.append(i)
        values = narrow(values, data)
        if tags:
            v.memory.scatter("sbuf", c, 1024, [(1, 16)], values)
            if packed:
                marks = [sum(marks[4 * g + k] << 4 * k for k in range(4)) for g in range(groups)]
            v.memory.scatter("sbuf", c, 2048, [(1, len(marks))], np.array(marks, NP[tags]))
        else:
            unsigned = np.dtype(f"u{size}")
            pair = np.stack([values.view(unsigned), np.array(marks, unsigned)], 1)
            v.memory.put("sbuf", c, 1024, pair.tobytes())
    common = dict(in_dtype=CODE[in_dtype], transpose_src=int(transpose), num_active_channels=channels,
                  out_data_dtype=CODE[data], op=op, op_dim=2)
    if tags:
        v.inst("SPARSITY_COMPRESS_TAG", packed_tags=int(packed), src=tensor(addr4(0, 0), dims, 2),
               out_tag_dtype=CODE[tags], data_dst=tensor(addr4(0, 1024), [(1, 16)], 2),
               tag_dst=tensor(addr4(0, 2048), [(1, 4 if packed else 16)], 2), **common)
    else:
        v.inst("SPARSITY_COMPRESS", src=tensor(addr4(0, 0), dims, 3),
               out_struct_dtype=CODE["uint16" if size == 1 else "uint32"],
               dst=tensor(addr4(0, 1024), [(1, 16)], 3), **common)
    return v.done()


def main():
    search = [max8(1, "v2", "fp32", "fp32", 8, 2, 0, 1), max8(2, "v3", "bf16", "fp32", 100, 3, 32, -1),
              max8(3, "v3", "fp16", "fp16", 33, 2, 0, 1), max8(4, "v4", "int32", "int32", 40, 2, 64, 1),
              max8(5, "v5", "uint8", "bf16", 9, 2, 0, 1)]
    search += [find(10, "v2", "fp32", "uint32", 64, 3), find(11, "v3", "bf16", "uint16", 40, 2),
               find(12, "v3", "int16", "uint32", 30, 2, twice=True),
               find(13, "v4", "fp16", "uint16", 17, 2, twice=True)]
    search += [replace(20, "v2", "fp32", "fp32", 50, 3, -np.inf), replace(21, "v3", "bf16", "fp32", 40, 2, 9),
               replace(22, "v3", "uint8", "int32", 40, 2, 200.5), replace(23, "v4", "fp16", "bf16", 20, 2, 1e9)]
    write("indirect", "search", search)
    dtypes = ["fp16", "bf16", "uint16", "int16", "fp32", "uint32", "int32"]
    vectors = [sort(30 + i, "v3", d, i % 2 == 1, 24, 2, 24, False) for i, d in enumerate(dtypes)]
    vectors += [sort(40 + i, "v2", d, True, 30, 3, 5, True) for i, d in enumerate(["fp32", "bf16"])]
    vectors += [nonzero(50, "v3", "fp32", 20, 33), nonzero(51, "v4", "int32", 12, 17)]
    runs = [(0, 2), (1, 3), (4, 1), (0, 1), (4, 2), (2, 4)]
    vectors += [bounds(60, "v3", "int32", "int32", runs), bounds(61, "v3", "fp32", "int32", runs),
                bounds(62, "v4", "int32", "fp32", runs[1:]), bounds(63, "v4", "fp32", "fp32", [(7, 1)])]
    write("indirect", "sort", vectors)
    vectors = [indirect_copy(70, "v2", "fp32", 4, 9, 16, 6), indirect_copy(71, "v3", "bf16", 1, 19, 32, 20),
               indirect_copy(72, "v3", "uint8", 32, 3, 16, 4)]
    vectors += [embedding(80, "v2", "fp32", 0, 5, [3, 1, 3, 9, 3], 6),
                embedding(81, "v2", "bf16", 2, 4, [0, 0, 2], 3),
                embedding(82, "v3", "int32", 0, 3, [1, 1, 7], 2),
                embedding(83, "v3", "fp16", 3, 6, [2, 0, 2], 4)]
    write("indirect", "gather", vectors)
    vectors = [rng(90, "v2", "DVE", "uint32", 0, 3, 7), rng(91, "v3", "DVE", "int8", 64, 2, 9),
               rng(92, "v3", "POOL", "uint32", 0, 2, 6), rng(93, "v3", "POOL", "fp32", 32, 2, 5),
               rng(94, "v4", "POOL", "bf16", 0, 2, 8), rng(95, "v5", "POOL", "uint16", 0, 2, 8),
               rng(96, "v3", "POOL", "uint32", 32, 3, 4, words=6),
               rng(97, "v4", "DVE", "uint16", 0, 3, 4, words=4)]
    vectors += [rand2(100, "v4", "fp32", -1.5, 2.25, 10, False), rand2(101, "v4+", "bf16", 0, 1, 9, True),
                rand2(102, "v4", "int8", -100, 100, 12, False)]
    vectors += [dropout(110, "v2", "fp32", True, 0.5, 24), dropout(111, "v3", "bf16", False, 0.25, 24),
                dropout(112, "v3", "uint32", True, 0.3, 16), dropout(113, "v4", "int8", False, 0.75, 30, "fp32"),
                dropout(114, "v3", "fp16", True, 0.6, 16, "bf16"), dropout(115, "v3", "fp32", True, 1.0, 8),
                dropout(116, "v3", "fp32", True, 0.0, 8), dropout(117, "v3", "fp32", False, 1.0, 8)]
    write("indirect", "random", vectors)
    vectors = [quantize(120, "v4", "bf16", "e4m3", 32, 4), quantize(121, "v4", "fp16", "e5m2", 32, 3),
               quantize(122, "v5", "bf16", "e5m2", 64, 2)]
    vectors += [dequantize(130 + f, "v3", f, 0, 3) for f in [1, 2, 3, 4]]
    vectors += [dequantize(140 + f, "v4", f, 8, 2) for f in [1, 2, 3]]
    write("indirect", "mx", vectors)
    vectors = [sparsity(150, "v4", "fp32", 9, "bf16", False), sparsity(151, "v4", "bf16", 8, "fp16", False),
               sparsity(152, "v4", "int8", 0x21, "fp8e5", False), sparsity(153, "v5", "fp16", 0x20, "bf16", True),
               sparsity(154, "v4", "fp32", 9, "fp32", False, "uint32"),
               sparsity(155, "v4", "bf16", 0x21, "bf16", False, "uint16", True),
               sparsity(156, "v5", "fp32", 8, "int8", True, "uint8")]
    write("indirect", "sparsity", vectors)


if __name__ == "__main__":
    main()
