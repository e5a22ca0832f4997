#!/usr/bin/env python3
"""Vectors for the DMA instructions, computed with numpy from the published descriptions,
independently of the emulator."""

import numpy as np

from indirect_common import (CODE, HBM_WINDOW, NP, SBUF_STRIDE, Vector, addr4, device, is_int, narrow, numbers,
                             tensor, walk, widen, write)

OPS = {"none": 0, "add": 1, "multiply": 2, "max": 3, "min": 4}


class Side:
    """Elements of `size` bytes at byte steps in HBM or, from (partition, byte), in SBUF."""

    def __init__(self, where, dims, size):
        self.where, self.dims, self.size = where, dims, size

    def address(self):
        if isinstance(self.where, int):
            return HBM_WINDOW + self.where
        return device(*self.where)

    def places(self):
        for offset in walk(self.dims):
            at = self.address() + offset
            if isinstance(self.where, int):
                yield at, ("hbm", 0, at - HBM_WINDOW)
            else:
                p, b = divmod(at - device(0, 0), SBUF_STRIDE)
                yield at, ("sbuf", p, b)

    def watch(self, v):
        for _, (s, p, b) in self.places():
            v.watch(s, p, b, self.size)


def convert(data, src, dst):
    if src == dst:
        return data
    values = np.frombuffer(data, NP[src])
    if is_int(src) and is_int(dst):
        info = np.iinfo(NP[dst])
        return np.clip(values.astype(object), info.min, info.max).astype(NP[dst]).tobytes()
    return narrow(widen(values, src), dst).tobytes()


def combine(new, old, dtype, op):
    if op == "none":
        return new
    a, b = np.frombuffer(new, NP[dtype]), np.frombuffer(old, NP[dtype])
    if is_int(dtype):
        with np.errstate(over="ignore"):
            out = {"add": b + a, "multiply": b * a, "max": np.maximum(a, b), "min": np.minimum(a, b)}[op]
        return out.astype(NP[dtype]).tobytes()
    a, b = widen(a, dtype), widen(b, dtype)
    with np.errstate(invalid="ignore"):
        out = {"add": b + a, "multiply": b * a, "max": np.fmax(a, b), "min": np.fmin(a, b)}[op]
    out = np.where(np.isnan(out), np.float32(np.nan), out)
    return narrow(out, dtype).tobytes()


def fill(v, side, dtype):
    n = side.size // NP[dtype].itemsize
    for _, (s, p, b) in side.places():
        v.memory.put(s, p, b, numbers(v.rng, dtype, n, special=False).tobytes())


def leg(prefix, side):
    step = [d[0] // side.size for d in side.dims]
    num = [d[1] for d in side.dims]
    return {f"{prefix}_start_addr": side.address(), f"{prefix}_step_elem": step,
            f"{prefix}_num_elem": num, f"{prefix}_elem_size": side.size % 65536}


def memcpy(name, seed, src, dst, dtypes=("uint8", "uint8"), op="none", limits=None):
    v = Vector(f"dmamemcpy {name}", "v3", "POOL", seed)
    fill(v, src, dtypes[0])
    fill(v, dst, dtypes[1])
    src.watch(v)
    dst.watch(v)
    v.freeze()
    bounds = {}
    if limits:
        limits = [x if x is None or not isinstance(s.where, int) else x + HBM_WINDOW
                  for x, s in zip(limits, [src, dst])]
        for prefix, register, limit in zip(["src", "dst"], [4, 6], limits):
            if limit is not None:
                v.registers[str(register)] = limit & 0xFFFFFFFF
                v.registers[str(register + 1)] = limit >> 32
                bounds[f"{prefix}_bound_reg"] = 0x80 | register
    if limits:
        for (sa, s), (da, d) in zip(list(src.places()), list(dst.places())):
            if limits[0] is not None and sa > limits[0] or limits[1] is not None and da > limits[1]:
                continue
            data = convert(v.memory.get(*s, src.size), *dtypes)
            v.memory.put(*d, combine(data, v.memory.get(*d, dst.size), dtypes[1], op))
    else:
        data = b"".join(v.memory.get(*s, src.size) for _, s in src.places())
        data = convert(data, *dtypes)
        for i, (_, d) in enumerate(dst.places()):
            part = data[i * dst.size:(i + 1) * dst.size]
            v.memory.put(*d, combine(part, v.memory.get(*d, dst.size), dtypes[1], op))
    v.inst("DMAMEMCPY", semaphore=9, sem_increment=3, compute_op=OPS[op], in_dtype=CODE[dtypes[0]],
           out_dtype=CODE[dtypes[1]], **leg("src", src), **leg("dst", dst), **bounds)
    return v.done(semaphores=[[9, 3]])


def indirect(name, seed, mode, src, dst, src_idx=None, dst_idx=None, bounds=(None, None), dtype="uint8",
             op="none", unique=True, error=None, is_err=False):
    v = Vector(f"dma_indirect {name}", "v3", "POOL", seed)
    n = max(len(src_idx or []), len(dst_idx or []))
    table = {}
    for key, side, idx, bound in [("s", src, src_idx, bounds[0]), ("d", dst, dst_idx, bounds[1])]:
        rows = range(n) if idx is None else sorted({i for i in idx if bound is None or i < bound})
        for i in rows:
            at = side.address() + i * side.dims[0][0]
            if isinstance(side.where, int):
                place = ("hbm", 0, at - HBM_WINDOW)
            else:
                p, b = divmod(at - device(0, 0), SBUF_STRIDE)
                place = ("sbuf", p, b)
            table[key, i] = place
            v.memory.put(*place, numbers(v.rng, dtype, side.size // NP[dtype].itemsize, False).tobytes())
            v.watch(*place, side.size)
    fields = {}
    for prefix, idx, bound, byte, register in [("src", src_idx, bounds[0], 1024, 8),
                                               ("dst", dst_idx, bounds[1], 1280, 9)]:
        if idx is None:
            continue
        v.watch("sbuf", 0, byte, 4 * len(idx))
        v.memory.put("sbuf", 0, byte, np.array(idx, np.uint32).tobytes())
        fields[f"{prefix}_idx_start_addr"] = addr4(0, byte)
        if bound is not None:
            v.registers[str(register)] = bound
            fields[f"{prefix}_idx_bound_reg"] = 0x80 | register
    v.freeze()
    if not error:
        for k in range(n):
            i = src_idx[k] if src_idx else k
            j = dst_idx[k] if dst_idx else k
            if (src_idx and bounds[0] is not None and i >= bounds[0] or
                    dst_idx and bounds[1] is not None and j >= bounds[1]):
                continue
            new = v.memory.get(*table["s", i], src.size)
            old = v.memory.get(*table["d", j], dst.size)
            v.memory.put(*table["d", j], combine(new, old, dtype, op))
    modes = {"gather": 0, "scatter": 1, "both": 2}
    flags = modes[mode] | (0 if unique else 8) | (4 if is_err else 0)
    for prefix, side in [("src", src), ("dst", dst)]:
        fields[f"{prefix}_start_addr"] = side.address()
        fields[f"{prefix}_step_elem"] = side.dims[0][0] // side.size
        fields[f"{prefix}_num_elem"] = n
        fields[f"{prefix}_elem_size"] = side.size
    v.inst("DMA_INDIRECT", semaphore=5, sem_increment=1, idx_num_active_channels=128, flags=flags,
           in_dtype=CODE[dtype], out_dtype=CODE[dtype], compute_op=OPS[op], **fields)
    return v.done(error=error) if error else v.done(semaphores=[[5, 1]])


def transpose(name, seed, dtype, columns, tiles, src_at):
    """`tiles` tiles of 16 rows, one below the other, become columns side by side."""
    v = Vector(f"dma_transpose {name}", "v3", "POOL", seed)
    size = NP[dtype].itemsize
    rows = 16 * tiles
    pitch = columns * size + 8
    for r in range(rows):
        v.watch("hbm", 0, src_at + r * pitch, columns * size)
    for c in range(columns):
        v.watch("sbuf", c, 64, rows * size)
    v.freeze()
    for r in range(rows):
        for c in range(columns):
            element = v.memory.get("hbm", 0, src_at + r * pitch + c * size, size)
            v.memory.put("sbuf", c, 64 + r * size, element)
    v.inst("DMA_TRANSPOSE", in_dtype=CODE[dtype], out_dtype=CODE[dtype], src_start_addr=HBM_WINDOW + src_at,
           src_step_elem=[16 * pitch, 0], src_num_elem=[tiles, 1], tile_src_row_step=pitch,
           dst_start_addr=device(0, 64), dst_step_elem=[16 * size, 0], dst_num_elem=[tiles, 1],
           tile_src_rows=16, tile_src_cols=columns, semaphore=12)
    return v.done(semaphores=[[12, 1]])


def gather_transpose(name, seed, width, block, indices, bound, sbuf=False):
    v = Vector(f"dma_gather_transpose {name}", "v3", "POOL", seed)
    rows = sorted({i for i in indices if bound is None or i < bound})
    pitch = 2 * width
    place = (lambda i: ("sbuf", 5, 512 + i * pitch)) if sbuf else (lambda i: ("hbm", 0, 256 + i * pitch))
    for i in rows:
        v.watch(*place(i), 2 * width)
    v.watch("sbuf", 0, 1024, 4 * len(indices))
    v.memory.put("sbuf", 0, 1024, np.array(indices, np.uint32).tobytes())
    per = block // 2
    blocks = width // per
    step = 2 * len(indices) + 32
    for c in range(per):
        for j in range(blocks):
            v.watch("sbuf", c + 32, 2048 + j * step, 2 * len(indices))
    v.freeze()
    for k, i in enumerate(indices):
        if i not in rows:
            continue
        s, p, b = place(i)
        for x in range(width):
            element = v.memory.get(s, p, b + 2 * x, 2)
            v.memory.put("sbuf", 32 + x % per, 2048 + x // per * step + 2 * k, element)
    fields = {}
    if bound is not None:
        v.registers["3"] = bound
        fields["src_idx_bound_reg"] = 0x83
    v.inst("DMA_GATHER_TRANSPOSE", semaphore=7, idx_num_active_channels=128,
           src_start_addr=device(5, 512) if sbuf else HBM_WINDOW + 256, src_step_elem=[1, width],
           src_num_elem=[width, len(indices)], src_idx_start_addr=addr4(0, 1024),
           dst_start_addr=device(32, 2048), dst_step_elem_1=step, dst_num_elem=[len(indices), blocks],
           elem_size=block, in_out_dtype=CODE["bf16"] * 17, flags=1, **fields)
    return v.done(semaphores=[[7, 1]])


def memcpy2(seed, mode):
    """A v5 copy whose source address comes from registers."""
    v = Vector(f"dma_memcpy2 mode {mode}", "v5", "DVE", seed)
    v.watch("hbm", 0, 0x300, 64)
    v.watch("hbm", 0, 0x800, 64)
    v.freeze()
    v.memory.put("hbm", 0, 0x800, v.memory.get("hbm", 0, 0x300, 64))
    # base register 10 (pair 10, 11), offset register 12 (pair 12, 13)
    base, offset, immediate = {1: (0x300, 0, 0), 2: (0x200, 0, 0x100), 4: (0x280, 0x80, 0),
                               6: (0x240, 0xC0, 0), 8: (0x2C0, 4, 16)}[mode]
    v.registers = {"10": base, "11": HBM_WINDOW >> 32, "12": offset, "13": 0}
    raw = 10 | 12 << 8 | immediate << 32
    v.inst("DMA_MEMCPY2", addr_mode=mode, sema_update_mode=0x11, rd_done_sema_update_idx=20,
           wr_done_sema_update_idx=21, src_start_addr=raw, src_step_elem=[1, 0], src_num_elem=[4, 1],
           src_elem_size=16, dst_start_addr=HBM_WINDOW + 0x800, dst_step_elem=[1, 0], dst_num_elem=[1, 1],
           dst_elem_size=64)
    return v.done(semaphores=[[20, 1], [21, 1]])


def sb2sb(seed):
    v = Vector("sb2sb_collective LNC1", "v3", "POOL", seed)
    rows = []
    for c in range(3):
        v.watch("sbuf", c, 0, 40)
        rows.append(v.memory.gather("sbuf", c, 0, [(2, 10)], "uint16"))
        v.watch("sbuf", 32 + c, 100, 20)
    v.freeze()
    for c in range(3):
        v.memory.scatter("sbuf", 32 + c, 100, [(1, 10)], rows[c])
    v.inst("SB2SB_COLLECTIVE", in_dtype=CODE["fp16"], out_dtype=CODE["fp16"], lnc_size_fmt=0,
           num_active_channels=3, src=tensor(addr4(0, 0), [(2, 10)], 3),
           dst=tensor(addr4(32, 100), [(1, 10)], 3))
    return v.done()


def main():
    wide = lambda n: [(n, 4), (0, 1)]
    vectors = [
        memcpy("load", 1, Side(0x100, [(64, 4), (0, 1)], 64), Side((0, 32), [(SBUF_STRIDE, 4), (0, 1)], 64)),
        memcpy("store, other cut", 2, Side((3, 0), [(32, 4), (SBUF_STRIDE, 2)], 32),
               Side(0x40, [(128, 2), (0, 1)], 128)),
        memcpy("two dimensions", 3, Side(0x80, [(8, 3), (24, 2)], 4), Side((1, 8), [(4, 6), (0, 1)], 4)),
        memcpy("backwards", 4, Side(0x90, [(-4, 4), (0, 1)], 4), Side(0x400, wide(8), 4)),
        memcpy("fp32 to bf16", 5, Side(0, wide(32), 32), Side(0x400, wide(16), 16), ("fp32", "bf16")),
        memcpy("int32 to int8, exact", 6, Side(0, wide(32), 32), Side(0x400, wide(8), 8), ("int32", "int8")),
        memcpy("int16 to int32", 7, Side(0, wide(16), 16), Side(0x400, wide(32), 32), ("int16", "int32")),
        memcpy("uint8 to fp32", 8, Side(0, wide(8), 8), Side((2, 0), wide(32), 32), ("uint8", "fp32")),
    ]
    seed = 20
    for dtype in ["fp32", "bf16", "fp16", "int32"]:
        for op in ["add", "multiply", "max", "min"]:
            seed += 1
            vectors.append(memcpy(f"{op} {dtype}", seed, Side(0x200, wide(16), 16), Side((4, 64), wide(16), 16),
                                  (dtype, dtype), op))
    vectors += [
        memcpy("source bound", 50, Side(0x100, wide(16), 16), Side((0, 0), wide(16), 16), limits=(0x120, None)),
        memcpy("destination bound", 51, Side(0x100, wide(16), 16), Side((0, 0), wide(16), 16),
               limits=(None, device(0, 16))),
        memcpy("both bounds, int32 add", 52, Side(0x100, wide(16), 16), Side((0, 0), wide(16), 16),
               ("int32", "int32"), "add", limits=(0x110, device(0, 32))),
        memcpy("bound never met", 53, Side(0x100, wide(16), 16), Side((0, 0), wide(16), 16), limits=(0xFFFF, None)),
    ]
    row = lambda where, step, size: Side(where, [(step, 1)], size)
    vectors += [
        indirect("gather", 60, "gather", row(0x800, 64, 64), row((2, 0), SBUF_STRIDE, 64),
                 [5, 0, 3, 5], None),
        indirect("gather, skip out of range", 61, "gather", row(0x800, 32, 16), row((2, 0), 16, 16),
                 [2, 9, 1, 4000000000], None, (3, None)),
        indirect("scatter", 62, "scatter", row((2, 0), 32, 32), row(0x800, 32, 32), None, [4, 0, 7]),
        indirect("scatter add, duplicates", 63, "scatter", row((2, 0), 16, 16), row(0x800, 16, 16), None,
                 [5, 5, 2, 5], (None, 256), "fp32", "add", unique=False),
        indirect("scatter, last one stays", 64, "scatter", row((2, 0), 16, 16), row(0x800, 16, 16), None,
                 [1, 1], unique=False),
        indirect("gather and scatter max", 65, "both", row(0x800, 16, 16), row((1, 0), 48, 16), [3, 1, 2],
                 [0, 2, 1], (4, 3), "int32", "max"),
        indirect("out of range is an error", 66, "gather", row(0x800, 16, 16), row((2, 0), 16, 16), [1, 7],
                 None, (3, None), error="DeviceFault", is_err=True),
        indirect("duplicates not announced", 67, "scatter", row((2, 0), 16, 16), row(0x800, 16, 16), None,
                 [1, 1], error="UndefinedBehaviour"),
    ]
    vectors += [memcpy2(70 + m, m) for m in [1, 2, 4, 6, 8]]
    vectors += [sb2sb(80)]
    write("dge", "copy", vectors)
    vectors = [transpose("bf16, 1 tile", 90, "bf16", 5, 1, 0x40), transpose("fp32, 2 tiles", 91, "fp32", 6, 2, 0),
               transpose("fp16, 3 tiles", 92, "fp16", 8, 3, 0x200)]
    indices = [int(i) for i in np.random.default_rng(1).integers(0, 6, 16)]
    far = list(indices)
    far[3], far[9] = 6, 4000000000
    vectors += [gather_transpose("one block", 93, 4, 8, indices, 6),
                gather_transpose("two blocks, skips", 94, 8, 8, far, 6),
                gather_transpose("from SBUF", 95, 4, 8, far, 6, sbuf=True)]
    write("dge", "transpose", vectors)


if __name__ == "__main__":
    main()
