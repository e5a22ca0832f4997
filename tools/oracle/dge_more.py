#!/usr/bin/env python3
"""More vectors for the DMA instructions: shapes, cuts, strides, places, dtypes, operations, bounds
and generations are drawn. Semantics as in `dge.py`, from the published descriptions."""

import numpy as np

from dge import OPS, Side, leg
from draw import pick, some, split
from indirect_common import (CODE, HBM_WINDOW, NP, SBUF_STRIDE, Vector, addr4, device, is_int, narrow, walk,
                             widen, write)

F32 = np.float32
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
FLOATS = ["fp32", "bf16", "fp16", "fp8e3", "fp8e4", "fp8e5"]
WIDE = ["int32", "uint32", "fp32"]
GENS = ["v2", "v3", "v4", "v4+"]


def saturated(values, dtype):
    info = np.iinfo(NP[dtype])
    return np.array([min(max(int(x), info.min), info.max) for x in values], object).astype(NP[dtype])


def convert(data, src, dst):
    if src == dst:
        return data
    values = np.frombuffer(data, NP[src])
    if is_int(src) and is_int(dst):
        return saturated(values, dst).tobytes()
    return narrow(widen(values, src), dst).tobytes()


def combine(new, old, src, dst, op):
    """B op A: integers in 32 bits that wrap, then saturated; anything else in FP32."""
    a, b = np.frombuffer(new, NP[src]), np.frombuffer(old, NP[dst])
    if is_int(src) and is_int(dst):
        out = []
        for x, y in zip(a, b):
            x, y = int(x), int(y)
            r = {"add": x + y, "multiply": x * y, "max": max(x, y), "min": min(x, y)}[op] % 2 ** 32
            out.append(r if dst == "uint32" or r < 2 ** 31 else r - 2 ** 32)
        return saturated(out, dst).tobytes()
    x, y = widen(a, src), widen(b, dst)
    out = {"add": y + x, "multiply": y * x, "max": np.fmax(x, y), "min": np.fmin(x, y)}[op]
    return narrow(np.where(np.isnan(out), F32(np.nan), out), dst).tobytes()


def side(rng, at, counts, size, hbm, unit=1):
    """A drawn 2-D side that begins behind byte `at`; steps are whole elements of `size` bytes."""
    steps, run = [0, 0], 1
    for d in rng.permutation(2):
        run += int(rng.integers(0, 3)) if rng.integers(0, 2) else 0
        steps[d] = run
        run *= counts[d]
    low = 0
    for d in range(2):
        if counts[d] > 1 and rng.integers(0, 5) == 0:
            low += steps[d] * (counts[d] - 1)
            steps[d] = -steps[d]
    dims = [(s * size, n) for s, n in zip(steps, counts)]
    if hbm:
        return Side(at + low * size, dims, size)
    p = int(rng.integers(0, 100))
    if rng.integers(0, 2) and SBUF_STRIDE % size == 0:
        # one of the dimensions goes over the partitions
        d = int(rng.integers(0, 2))
        dims = [(SBUF_STRIDE if k == d else size * (1 + int(rng.integers(0, 2))), n)
                for k, (_, n) in enumerate(dims)]
        low = 0
    return Side((p, at + low * size), dims, size)


def fill(v, s, dtype, kind=None):
    n = s.size // NP[dtype].itemsize
    for _, (space, p, b) in s.places():
        v.memory.put(space, p, b, some(v.rng, dtype, n, kind).tobytes())


def memcpy(seed):
    rng = np.random.default_rng(9000 + seed)
    gen = (GENS + ["v5"])[seed % 5]
    kind = ["plain", "cast", "compute", "bounds"][seed // 5 % 4]
    same = pick(rng, INTS + FLOATS)
    dtypes, op = (same, same), "none"
    if kind == "cast":
        dtypes = (same, pick(rng, INTS + FLOATS))
    if kind == "compute" or kind == "bounds" and rng.integers(0, 2):
        op = pick(rng, ["add", "multiply", "max", "min"])
    if op != "none":
        other = [d for d in INTS + FLOATS if (d in WIDE) == (same in WIDE)]
        second = pick(rng, other)
        # signed and unsigned words together: which of the two the sum is, is not published
        if {same, second} != {"int32", "uint32"} and kind == "compute":
            dtypes = (same, second)
    if kind == "plain" and gen != "v5":
        op = "none"
    sizes = [NP[d].itemsize for d in dtypes]
    counts = [int(rng.integers(1, 5)), int(rng.integers(1, 5))]
    e = int(rng.integers(1, 7))
    total = counts[0] * counts[1] * e
    if kind == "bounds":
        cut = list(counts), e
    else:
        # the destination is cut in another way
        e2 = pick(rng, [k for k in range(1, total + 1) if total % k == 0 and k <= 64])
        cut = split(rng, total // e2, 2), e2
    v = Vector(f"dmamemcpy {kind} {gen} {dtypes[0]} to {dtypes[1]} {op} #{seed}", gen,
               "POOL" if gen == "v2" else pick(rng, ["POOL", "SP"] if gen == "v5" else ["POOL", "SP", "ACT"]), seed)
    v.rng = rng
    hbm = [gen == "v5" or bool(rng.integers(0, 2)) for _ in range(2)]
    align = max(sizes)
    src = side(rng, 64 + align * int(rng.integers(0, 5)), counts, e * sizes[0], hbm[0])
    dst = side(rng, 2048 + align * int(rng.integers(0, 5)), cut[0], cut[1] * sizes[1], hbm[1])
    tame = pick(rng, ["ties", "wide"]) if op != "none" else None
    fill(v, src, dtypes[0], tame)
    fill(v, dst, dtypes[1], tame)
    src.watch(v), dst.watch(v)
    v.freeze()
    apply = lambda data, old: combine(data, old, *dtypes, op) if op != "none" else convert(data, *dtypes)
    fields = {}
    places = list(src.places()), list(dst.places())
    if kind == "bounds":
        limits = [pick(rng, places[k])[0] if rng.integers(0, 3) else None for k in range(2)]
        for name, register, limit in zip(["src", "dst"], [4, 6], limits):
            if limit is not None:
                v.registers[str(register)] = limit & 0xFFFFFFFF
                v.registers[str(register + 1)] = limit >> 32
                fields[f"{name}_bound_reg"] = 0x80 | register | pick(rng, [0, 0x40])
        for (sa, s), (da, d) in zip(*places):
            if any(l is not None and a > l for a, l in zip((sa, da), limits)):
                continue
            v.memory.put(*d, apply(v.memory.get(*s, src.size), v.memory.get(*d, dst.size)))
    else:
        data = b"".join(v.memory.get(*s, src.size) for _, s in places[0])
        per = dst.size // sizes[1] * sizes[0]
        for i, (_, d) in enumerate(places[1]):
            v.memory.put(*d, apply(data[i * per:(i + 1) * per], v.memory.get(*d, dst.size)))
    semaphore, step = int(rng.integers(0, 32)), int(rng.integers(0, 4))
    v.inst("DMAMEMCPY", dma_configs=int(rng.integers(0, 5)), semaphore=semaphore, sem_increment=step,
           compute_op=OPS[op], in_dtype=CODE[dtypes[0]], out_dtype=CODE[dtypes[1]], **leg("src", src),
           **leg("dst", dst), **fields)
    return v.done(semaphores=[[semaphore, step]] if step else [])


def indirect(seed):
    rng = np.random.default_rng(9200 + seed)
    gen = (GENS + ["v5"])[seed % 5]
    mode = ["gather", "scatter", "both"][seed % 3]
    dtype = pick(rng, INTS + FLOATS)
    op = pick(rng, ["none", "none", "add", "multiply", "max", "min"])
    n, rows = int(rng.integers(1, 10)), int(rng.integers(4, 12))
    e = int(rng.integers(1, 5)) * NP[dtype].itemsize
    v = Vector(f"dma_indirect {mode} {gen} {dtype} {op} #{seed}", gen, "POOL", seed)
    v.rng = rng
    v.registers = {}
    fields, lists, sides, limits = {}, [], [], []
    unique = True
    for k, name in enumerate(["src", "dst"]):
        hbm = gen == "v5" or bool(rng.integers(0, 2))
        step = int(rng.integers(1, 4))
        at = 512 + 1536 * k + 8 * int(rng.integers(0, 4))
        if not hbm and SBUF_STRIDE % e == 0 and rng.integers(0, 2):
            step = SBUF_STRIDE // e
        where = at if hbm else (int(rng.integers(0, 90)), at)
        indexed = mode == "both" or (mode == "gather") == (k == 0)
        index, limit = None, None
        if indexed:
            index = [int(i) for i in rng.integers(0, rows, n)]
            if k == 1 and rng.integers(0, 2):
                index = [int(i) for i in rng.permutation(max(n, rows))[:n]]
            if rng.integers(0, 2):
                limit = int(rng.integers(1, rows))
                if n > 2:
                    index[1] = pick(rng, [limit, 4000000000])
            if k == 1:
                kept = [i for i in index if limit is None or i < limit]
                unique = len(set(index)) == len(index)
        lists.append(index), limits.append(limit)
        sides.append((name, where, step, at))
    places = []
    for (name, where, step, at), index, limit in zip(sides, lists, limits):
        base = Side(where, [(1, 1)], e)
        place = {}
        for i in range(n) if index is None else {i for i in index if limit is None or i < limit}:
            _, (s, p, b) = next(Side(where, [(0, 1)], e).places())
            far = i * step * e
            if s == "sbuf":
                p, b = p + far // SBUF_STRIDE, b + far % SBUF_STRIDE
            else:
                b += far
            place[i] = (s, p, b)
        for spot in place.values():
            v.memory.put(*spot, some(rng, dtype, e // NP[dtype].itemsize,
                                     "ties" if op != "none" else None).tobytes())
            v.watch(*spot, e)
        places.append(place)
        fields |= {f"{name}_start_addr": base.address(), f"{name}_step_elem": step,
                   f"{name}_num_elem": n, f"{name}_elem_size": e}
    for k, (name, index, limit) in enumerate(zip(["src", "dst"], lists, limits)):
        if index is None:
            continue
        at = 64 + 128 * k
        v.watch("sbuf", 0, at, 4 * n)
        v.memory.put("sbuf", 0, at, np.array(index, np.uint32).tobytes())
        fields[f"{name}_idx_start_addr"] = addr4(0, at)
        if limit is not None:
            register = 8 + k
            v.registers[str(register)] = limit
            fields[f"{name}_idx_bound_reg"] = 0x80 | register
    v.freeze()
    for k in range(n):
        i, j = (index[k] if index else k for index in lists)
        if i not in places[0] or j not in places[1]:
            continue
        new, old = v.memory.get(*places[0][i], e), v.memory.get(*places[1][j], e)
        v.memory.put(*places[1][j], combine(new, old, dtype, dtype, op) if op != "none" else new)
    flags = {"gather": 0, "scatter": 1, "both": 2}[mode] | (0 if unique else 8)
    v.inst("DMA_INDIRECT", semaphore=5, sem_increment=1, idx_num_active_channels=128, flags=flags,
           in_dtype=CODE[dtype], out_dtype=CODE[dtype], compute_op=OPS[op], **fields)
    return v.done(semaphores=[[5, 1]])


def transpose(seed):
    """Tiles of 16 rows, each to 16 columns of the destination; both sides count tiles."""
    rng = np.random.default_rng(9400 + seed)
    gen = GENS[1:][seed % 3]
    dtype = pick(rng, ["bf16", "fp16", "int16", "uint16", "fp32", "int32", "uint32"])
    size = NP[dtype].itemsize
    v = Vector(f"dma_transpose {gen} {dtype} #{seed}", gen, "POOL", seed)
    v.rng = rng
    columns = int(rng.integers(1, 9))
    tiles = [int(rng.integers(1, 4)), int(rng.integers(1, 3))]
    pitch = columns * size + size * int(rng.integers(0, 3))
    tile = [16 * pitch + size * int(rng.integers(0, 3)), 0]
    tile[1] = tile[0] * tiles[0] + size * int(rng.integers(0, 3))
    hbm = bool(rng.integers(0, 2))
    at, first, there = 4 * int(rng.integers(0, 40)), 32 * int(rng.integers(0, 3)), 64 * int(rng.integers(0, 4))
    partition = int(rng.integers(0, 120))
    if partition in range(first, first + columns):
        partition = 100
    big = at + tile[1] * tiles[1] + 16 * pitch
    source = ("hbm", 0) if hbm else ("sbuf", partition)
    v.memory.row(*source, size=max(4096, big))
    cut = split(rng, tiles[0] * tiles[1], 2)
    step = [32 * int(rng.integers(1, 3)) * (size // 2), 0]
    step[1] = step[0] * cut[0] + 32 * int(rng.integers(0, 2))
    v.watch(*source, at, big - at)
    starts = [at + x * tile[0] + y * tile[1] for y in range(tiles[1]) for x in range(tiles[0])]
    ends = [there + x * step[0] + y * step[1] for y in range(cut[1]) for x in range(cut[0])]
    for c in range(columns):
        v.watch("sbuf", first + c, there, max(ends) + 16 * size - there)
    v.freeze()
    fields = {}
    limit = None
    if seed % 3 == 0:
        limit = (HBM_WINDOW if hbm else device(partition, 0)) + pick(rng, starts)
        v.registers = {"8": limit & 0xFFFFFFFF, "9": limit >> 32}
        fields["src_bound_reg"] = 0x88
    for s, d in zip(starts, ends):
        if limit is not None and (HBM_WINDOW if hbm else device(partition, 0)) + s > limit:
            continue
        for r in range(16):
            for c in range(columns):
                v.memory.put("sbuf", first + c, d + r * size,
                             v.memory.get(*source, s + r * pitch + c * size, size))
    base = HBM_WINDOW + at if hbm else device(partition, at)
    v.inst("DMA_TRANSPOSE", in_dtype=CODE[dtype], out_dtype=CODE[dtype], src_start_addr=base,
           src_step_elem=tile, src_num_elem=tiles, tile_src_row_step=pitch,
           dst_start_addr=device(first, there), dst_step_elem=step, dst_num_elem=cut,
           tile_src_rows=16, tile_src_cols=columns, semaphore=seed % 32, **fields)
    return v.done(semaphores=[[seed % 32, 1]])


def gather_transpose(seed):
    rng = np.random.default_rng(9600 + seed)
    gen = GENS[1:][seed % 3]
    dtype = pick(rng, ["bf16", "fp16", "int16", "uint16"])
    v = Vector(f"dma_gather_transpose {gen} {dtype} #{seed}", gen, "POOL", seed)
    v.rng = rng
    per, blocks, count = int(rng.integers(1, 7)), int(rng.integers(1, 4)), 16 * int(rng.integers(1, 3))
    width, rows = per * blocks, int(rng.integers(3, 9))
    pitch = width + int(rng.integers(0, 4))
    at = 2 * int(rng.integers(0, 40))
    hbm = bool(rng.integers(0, 2))
    source = ("hbm", 0, at) if hbm else ("sbuf", 120, at)
    v.watch(*source, 2 * pitch * rows)
    limit = int(rng.integers(1, rows)) if seed % 2 else None
    index = [int(i) for i in rng.integers(0, rows, count)]
    if limit is not None:
        index[3] = 4000000000
    byte = 4 * int(rng.integers(0, 20))
    v.watch("sbuf", 0, byte, 4 * count)
    v.memory.put("sbuf", 0, byte, np.array(index, np.uint32).tobytes())
    first, there = 32 * int(rng.integers(0, 3)), 1024 + 32 * int(rng.integers(0, 4))
    step = 2 * count + 32 * int(rng.integers(0, 2))
    for c in range(per):
        v.watch("sbuf", first + c, there, step * (blocks - 1) + 2 * count)
    v.freeze()
    for k, i in enumerate(index):
        if limit is not None and i >= limit:
            continue
        for x in range(width):
            element = v.memory.get(*source[:2], at + 2 * (i * pitch + x), 2)
            v.memory.put("sbuf", first + x % per, there + x // per * step + 2 * k, element)
    fields = {}
    if limit is not None:
        v.registers = {"3": limit}
        fields["src_idx_bound_reg"] = 0x83
    v.inst("DMA_GATHER_TRANSPOSE", semaphore=7, idx_num_active_channels=128,
           src_start_addr=HBM_WINDOW + at if hbm else device(120, at), src_step_elem=[1, pitch],
           src_num_elem=[width, count], src_idx_start_addr=addr4(0, byte),
           dst_start_addr=device(first, there), dst_step_elem_1=step, dst_num_elem=[count, blocks],
           elem_size=2 * per, in_out_dtype=CODE[dtype] * 17, flags=1, **fields)
    return v.done(semaphores=[[7, 1]])


def memcpy2(seed):
    """Addresses of both sides immediate or from registers; two dimensions, cut differently."""
    rng = np.random.default_rng(9800 + seed)
    v = Vector(f"dma_memcpy2 #{seed}", "v5", pick(rng, ["DVE", "POOL", "SP"]), seed)
    v.rng = rng
    counts, size = [int(rng.integers(1, 5)), int(rng.integers(1, 4))], int(rng.integers(1, 17))
    total = counts[0] * counts[1] * size
    size2 = pick(rng, [k for k in range(1, total + 1) if total % k == 0])
    src = side(rng, 64 + int(rng.integers(0, 64)), counts, size, True)
    dst = side(rng, 2048 + int(rng.integers(0, 64)), split(rng, total // size2, 2), size2, True)
    src.watch(v), dst.watch(v)
    v.freeze()
    data = b"".join(v.memory.get(*s, src.size) for _, s in src.places())
    for i, (_, d) in enumerate(dst.places()):
        v.memory.put(*d, data[i * size2:(i + 1) * size2])
    fields = leg("src", src) | leg("dst", dst)
    modes = [pick(rng, [0, 1, 2, 4, 6, 8]) for _ in range(2)]
    for k, (name, mode) in enumerate(zip(["src", "dst"], modes)):
        if mode == 0:
            continue
        # base pair and offset pair of each side
        b, o, address = 10 + 8 * k, 14 + 8 * k, fields[f"{name}_start_addr"]
        far = int(rng.integers(0, 40))
        immediate = {2: 4 * far, 8: 4}.get(mode, 0)
        moved = {2: immediate, 4: far, 6: far, 8: 4 * far}.get(mode, 0)
        if mode == 6 and seed % 2:
            moved = far - 2 ** 32        # wraps in 64 bits
        base = address - moved
        offset = far if mode in (4, 8) else moved % 2 ** 64
        v.registers |= {str(b): base % 2 ** 32, str(b + 1): base >> 32, str(o): offset % 2 ** 32,
                        str(o + 1): offset >> 32}
        fields[f"{name}_start_addr"] = b | o << 8 | immediate << 32
    done = [int(rng.integers(0, 2)) for _ in range(2)]
    v.inst("DMA_MEMCPY2", addr_mode=modes[0] | modes[1] << 4, sema_update_mode=done[0] | done[1] << 4,
           rd_done_sema_update_idx=20, wr_done_sema_update_idx=21, **fields)
    return v.done(semaphores=[[20 + k, 1] for k in range(2) if done[k]])


def main():
    with np.errstate(all="ignore"):
        many = lambda f, n: [f(s) for s in range(n)]
        write("dge", "copy_drawn", many(memcpy, 80) + many(indirect, 45) + many(memcpy2, 24))
        write("dge", "transpose_drawn", many(transpose, 24) + many(gather_transpose, 24))


if __name__ == "__main__":
    main()
