#!/usr/bin/env python3
"""Vectors for the matrix engine, computed with numpy from the specification alone.

Writes tests/golden/pe/vectors.json. Needs numpy and ml_dtypes.

A product is formed as the definition says: one FP32 multiplication and one FP32 addition for each
contraction row, rows ascending, from +0; then one addition to what PSUM holds.
"""

import json
import pathlib

import ml_dtypes
import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/pe/vectors.json"
BF16, FP16, FP32, FP8E3, FP8E4, FP8E5, U8, U16 = 6, 7, 10, 13, 14, 15, 3, 5
TYPES = {
    BF16: ml_dtypes.bfloat16, FP16: np.float16, FP32: np.float32, FP8E3: ml_dtypes.float8_e3m4,
    FP8E4: ml_dtypes.float8_e4m3, FP8E5: ml_dtypes.float8_e5m2, U8: np.uint8, U16: np.uint16,
}
NONE, LOW, HIGH, LOW_HIGH = range(4)
MID, START, END, SINGLE = range(4)
GROUPS = {0xF: 0, 0x3: 0, 0xC: 64, 0x1: 0, 0x2: 32, 0x4: 64}
MASK_32 = [0x1, 0x2, 0x4]

rng = np.random.default_rng(20)
cases = []


def stride(gen):
    return {"v1": 128 << 10, "v5": 1024 << 10}.get(gen, 256 << 10)


def psum_stride(gen):
    return 16 << 10 if gen == "v1" else 32 << 10


def sbuf(gen, partition, byte):
    return partition * stride(gen) + byte


def psum_base(gen):
    return 0x2000000


def psum(gen, partition, byte):
    return psum_base(gen) + partition * psum_stride(gen) + byte


def hexed(array):
    return np.ascontiguousarray(array).tobytes().hex()


def put(space, partition, byte, rows):
    """One row of bytes for each of some consecutive partitions."""
    return [{"space": space, "partition": partition, "byte": byte, "count": len(rows),
             "hex": "".join(hexed(r) for r in rows)}]


def values(code, shape, special=False):
    kind = TYPES[code]
    if code in (U8, U16):
        return rng.integers(0, 256 if code == U8 else 65536, shape).astype(kind)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 3, shape)
    a = x.astype(np.float32).astype(kind)
    if special:
        a.flat[1] = np.nan
        a.flat[a.size // 2] = np.inf
        a.flat[a.size // 3] = -0.0
    return a


def round_fp22(x):
    bits = x.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x1FF + ((bits >> 10) & 1)) >> 10 << 10).astype(np.uint32)
    finite = np.isfinite(x)
    return np.where(finite, rounded.view(np.float32), x).astype(np.float32)


def product(w, x):
    """w [k][c], x [k][n] FP32 -> [c][n]."""
    out = np.zeros((w.shape[1], x.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(w.shape[0]):
            out = (out + (w[k][:, None] * x[k][None, :]).astype(np.float32)).astype(np.float32)
    return canonical(out)


def canonical(x):
    x = np.asarray(x, np.float32).copy()
    x[np.isnan(x)] = np.uint32(0x7FC00000).view(np.float32)
    return x


def tile_fields(gen, rows, cols, row_grp, col_grp):
    if gen == "v5":
        return {}
    f = {"num_active_rows": rows, "num_active_cols": cols}
    if gen != "v1":
        f |= {"row_grp": row_grp, "col_grp": col_grp}
    return f


def ldweights(gen, code, base, byte, rows, cols, row_grp=0xF, col_grp=0xF, mode=NONE, extra=None,
              dims=None):
    """The default order: the pattern starts at the last weight and runs backwards."""
    size = np.dtype(TYPES[code]).itemsize
    f = tile_fields(gen, rows, cols, row_grp, col_grp) | {"in_dtype": code, "fp32_mode": mode}
    f |= extra or {}
    start = byte + (cols - 1) * size
    pattern = {"addr": sbuf(gen, base, start), "dims": [[-1, cols], [0, 1], [0, 1]]}
    if dims:
        pattern = {"addr": sbuf(gen, base, byte), "dims": dims}
    return {"op": "LDWEIGHTS", "fields": f, "patterns": {"src": pattern}}


def matmul(gen, code, base, byte, rows, cols, n, dst_partition, dst_byte, flags=SINGLE, row_grp=0xF,
           col_grp=0xF, mode=NONE, extra=None, src_dims=None, dst_dims=None):
    f = tile_fields(gen, rows, cols, row_grp, col_grp) | {"in_dtype": code}
    if gen != "v1":
        f["fp32_mode"] = mode
    if gen != "v5":
        f["psum_accumulate_flags"] = flags
    f |= extra or {}
    flat = [[1, n], [0, 1], [0, 1]]
    return {"op": "MATMUL", "fields": f, "patterns": {
        "src": {"addr": sbuf(gen, base, byte), "dims": src_dims or flat},
        "dst": {"addr": psum(gen, dst_partition, dst_byte), "dims": dst_dims or flat},
    }}


def add(name, gen, puts, insts, expect, **more):
    cases.append({"name": name, "gen": gen, "put": puts, "insts": insts, "expect": expect, **more})


def f32(a):
    return np.asarray(a).astype(np.float32)


def simple(gen, code, mode=NONE, special=False, wcode=None):
    rows, cols, n = 20, 9, 11
    wcode = wcode or code
    w, x = values(wcode, (rows, cols)), values(code, (rows, n), special)
    a, b = f32(w), f32(x)
    if mode == LOW:
        a, b = round_fp22(a), round_fp22(b)
    out = product(a, b)
    tile = {"tile_size": 0x77, "tile_sel": 0, "num_active_rows": rows, "num_active_cols": cols}
    extra = tile if gen == "v5" else {}
    add(f"{gen} in {wcode} x {code} mode {mode} special {special}", gen,
        put("sbuf", 0, 64, w) + put("sbuf", 0, 1024, x),
        [ldweights(gen, wcode, 0, 64, rows, cols, mode=mode, extra=extra),
         matmul(gen, code, 0, 1024, rows, cols, n, 0, 32, mode=mode, extra=extra)],
        put("psum", 0, 32, out))


for gen in ("v1", "v2", "v3", "v4", "v4+"):
    simple(gen, BF16)
simple("v5", BF16)
simple("v1", FP16)
for code in (FP16, FP8E3, FP8E4, FP8E5):
    simple("v3", code)
simple("v3", BF16, wcode=FP8E5)
simple("v3", FP8E4, wcode=FP16)
for mode in (LOW, HIGH, LOW_HIGH):
    simple("v3", FP32, mode)
    simple("v5", FP32, mode)
simple("v3", BF16, special=True)
simple("v2", FP32, LOW_HIGH, special=True)
simple("v2", FP32, LOW, special=True)


def groups():
    """Two row groups and three column groups loaded one after the other, then multiplied."""
    gen, rows, cols, n = "v3", 32, 8, 5
    for r, c in ((0x2, 0x4), (0x4, 0x1), (0x8, 0x2)):
        rb = {1: 0, 2: 32, 4: 64, 8: 96}[r]
        cb = {1: 0, 2: 32, 4: 64}[c]
        w, x = values(BF16, (rows, cols)), values(BF16, (rows, n))
        other = values(BF16, (rows, cols))
        add(f"row group {r} column group {c}", gen,
            put("sbuf", rb, 0, w) + put("sbuf", rb, 512, x) + put("sbuf", 0, 2048, other),
            [ldweights(gen, BF16, rb, 0, rows, cols, r, c),
             ldweights(gen, BF16, 0, 2048, rows, cols, 0x1, c if r != 1 else 0x4),
             matmul(gen, BF16, rb, 512, rows, cols, n, cb, 4096, row_grp=r, col_grp=c)],
            put("psum", cb, 4096, product(f32(w), f32(x))))
    add("row group partition mismatch", gen, put("sbuf", 32, 0, w), 
        [ldweights(gen, BF16, 32, 0, rows, cols, 0x4, 0x1)], [], error="row_grp_partition")
    add("column group partition mismatch", gen, put("sbuf", 0, 0, w),
        [ldweights(gen, BF16, 0, 0, rows, cols),
         matmul(gen, BF16, 0, 0, rows, cols, n, 32, 0)], [], error="col_grp_partition")
    add("no weights", gen, [], [matmul(gen, BF16, 0, 0, rows, cols, n, 0, 0)], [],
        error="weights_loaded")
    add("fp32 needs a mode", gen, [], [ldweights(gen, FP32, 0, 0, rows, cols)], [],
        error="fp32_mode")
    add("bf16 takes no mode", gen, [], [ldweights(gen, BF16, 0, 0, rows, cols, mode=LOW)], [],
        error="fp32_mode")
    add("fp32 weights with bf16 data", gen, [],
        [ldweights(gen, FP32, 0, 0, rows, cols, mode=LOW),
         matmul(gen, BF16, 0, 512, rows, cols, n, 0, 0)], [], error="matmul_dtype_pair")
    add("counts differ", gen, put("sbuf", 0, 0, w),
        [ldweights(gen, BF16, 0, 0, rows, cols),
         matmul(gen, BF16, 0, 0, rows, cols, n, 0, 0, dst_dims=[[1, 4], [0, 1], [0, 1]])], [],
        error="tensor_same_num_elements")
    add("destination in sbuf", gen, put("sbuf", 0, 0, w),
        [ldweights(gen, BF16, 0, 0, rows, cols),
         matmul(gen, BF16, 0, 0, rows, cols, n, 0, -0x2000000)], [], error="matmul_dst")


groups()


def group_of_three(gen, out_dtype=None):
    """START, MID, END over three contraction tiles."""
    rows, cols, n = 16, 6, 7
    parts = [(values(BF16, (rows, cols)), values(BF16, (rows, n))) for _ in range(3)]
    total, puts, insts = None, put("psum", 0, 0, np.full((cols, 8), 7.0, np.float32)), []
    for i, (w, x) in enumerate(parts):
        puts += put("sbuf", 0, 256 * i, w) + put("sbuf", 0, 1024 + 256 * i, x)
        p = product(f32(w), f32(x))
        total = p if total is None else (total + p).astype(np.float32)
        if out_dtype == BF16:
            total = total.astype(ml_dtypes.bfloat16).astype(np.float32)
        extra_m, extra_w = {}, {}
        if gen == "v5":
            tile = {"tile_size": 0x77, "num_active_rows": rows, "num_active_cols": cols}
            extra_m, extra_w = dict(tile, flags=0 if i == 0 else 0x10), tile
        if out_dtype:
            extra_m = dict(extra_m, out_dtype=out_dtype)
        insts += [ldweights(gen, BF16, 0, 256 * i, rows, cols, extra=extra_w),
                  matmul(gen, BF16, 0, 1024 + 256 * i, rows, cols, n, 0, 0,
                         flags=[START, MID, END][i], extra=extra_m)]
    want = total.astype(ml_dtypes.bfloat16) if out_dtype == BF16 else total
    add(f"{gen} three steps out {out_dtype}", gen, puts, insts, put("psum", 0, 0, want))


for gen in ("v1", "v2", "v3", "v4", "v5"):
    group_of_three(gen)
for gen in ("v4", "v5"):
    group_of_three(gen, FP32)
    group_of_three(gen, BF16)


def convolution():
    """First-write rule: a group whose steps overlap only partly, on dirty PSUM."""
    gen, rows, cols = "v3", 8, 4
    w = [values(BF16, (rows, cols)) for _ in range(3)]
    x = values(BF16, (rows, 12))
    puts = put("psum", 0, 0, np.full((cols, 20), 99.0, np.float32)) + put("sbuf", 0, 512, x)
    insts, out = [], np.full((cols, 20), 99.0, np.float32)
    written = np.zeros(20, bool)
    for i, (flag, at, n) in enumerate(((START, 2, 8), (MID, 0, 8), (END, 4, 8))):
        puts += put("sbuf", 0, 64 * i, w[i])
        p = product(f32(w[i]), f32(x[:, :n]))
        for j in range(n):
            d = at + j
            out[:, d] = (out[:, d] + p[:, j]).astype(np.float32) if written[d] else p[:, j]
            written[d] = True
        insts += [ldweights(gen, BF16, 0, 64 * i, rows, cols),
                  matmul(gen, BF16, 0, 512, rows, cols, n, 0, 4 * at, flags=flag)]
    add("overlapping steps of one group", gen, puts, insts, put("psum", 0, 0, out))
    # One instruction that visits an element twice.
    p = product(f32(w[0]), f32(x[:, :6]))
    once = np.full((cols, 4), 99.0, np.float32)
    first = np.zeros(4, bool)
    for j in range(6):
        d = (j % 3) + (j // 3)
        once[:, d] = (once[:, d] + p[:, j]).astype(np.float32) if first[d] else p[:, j]
        first[d] = True
    add("an element visited twice", gen,
        put("psum", 0, 0, np.full((cols, 4), 99.0, np.float32)) + put("sbuf", 0, 512, x)
        + put("sbuf", 0, 0, w[0]),
        [ldweights(gen, BF16, 0, 0, rows, cols),
         matmul(gen, BF16, 0, 512, rows, cols, 6, 0, 0, dst_dims=[[1, 3], [1, 2], [0, 1]])],
        put("psum", 0, 0, once))
    # Accumulation onto what another engine left, without a group begun.
    p = product(f32(w[1]), f32(x[:, :5]))
    add("accumulates onto initialised psum", "v4",
        put("psum", 0, 64, np.full((cols, 5), 3.0, np.float32)) + put("sbuf", 0, 512, x)
        + put("sbuf", 0, 0, w[1]),
        [ldweights("v4", BF16, 0, 0, rows, cols),
         matmul("v4", BF16, 0, 512, rows, cols, 5, 0, 64, flags=END)],
        put("psum", 0, 64, (np.float32(3.0) + p).astype(np.float32)))
    # Zero regions: 2048 bytes leave the second bank alone, 4096 do not.
    for region in (0, 1):
        first = product(f32(w[0]), f32(x[:, :4]))
        second = product(f32(w[1]), f32(x[:, :4]))
        old = np.full((cols, 4), 5.0, np.float32)
        want = second if region else (old + second).astype(np.float32)
        add(f"zero region {region}", "v4",
            put("psum", 0, 2048, old) + put("sbuf", 0, 512, x) + put("sbuf", 0, 0, w[0])
            + put("sbuf", 0, 64, w[1]),
            [ldweights("v4", BF16, 0, 0, rows, cols),
             matmul("v4", BF16, 0, 512, rows, cols, 4, 0, 0, flags=START,
                    extra={"psum_zero_region": region}),
             ldweights("v4", BF16, 0, 64, rows, cols),
             matmul("v4", BF16, 0, 512, rows, cols, 4, 0, 2048, flags=END)],
            put("psum", 0, 0, first) + put("psum", 0, 2048, want))


convolution()


def shapes():
    """3-D sources and destinations, broadcast and negative steps, address registers."""
    gen, rows, cols = "v3", 12, 5
    w, x = values(FP16, (rows, cols)), values(FP16, (rows, 64))
    order = [2 * i + 16 * j + 0 * k for k in range(2) for j in range(2) for i in range(3)]
    places = [4 * i - 1 * j + 20 * k + 8 for k in range(2) for j in range(2) for i in range(3)]
    p = product(f32(w), f32(x[:, order]))
    want = np.zeros((cols, 48), np.float32)
    want[:, places] = p
    m = matmul(gen, FP16, 0, 256, rows, cols, 0, 0, 32,
               src_dims=[[2, 3], [16, 2], [0, 2]], dst_dims=[[4, 3], [-1, 2], [20, 2]])
    puts = put("sbuf", 0, 0, w) + put("sbuf", 0, 256, x) + put("psum", 0, 0, np.zeros((cols, 48), np.float32))
    add("three dimensions", gen, puts, [ldweights(gen, FP16, 0, 0, rows, cols), m],
        put("psum", 0, 0, want))
    m = json.loads(json.dumps(m))
    m["patterns"]["src"]["addr"], m["patterns"]["dst"]["addr"] = 0x80000005, 0x80000009
    m["registers"] = {"5": sbuf(gen, 0, 256), "9": psum(gen, 0, 32)}
    add("address registers", gen, puts, [ldweights(gen, FP16, 0, 0, rows, cols), m],
        put("psum", 0, 0, want))
    # Load order: the positive stride gives mirrored columns by default, straight ones with the flag.
    x5 = x[:, :6]
    p = product(f32(w), f32(x5))
    straight = [[1, cols], [0, 1], [0, 1]]
    add("last column first", gen, puts,
        [ldweights(gen, FP16, 0, 0, rows, cols, dims=straight),
         matmul(gen, FP16, 0, 256, rows, cols, 6, 0, 0)],
        put("psum", 0, 0, p[::-1]))
    add("first column first", "v4", puts,
        [ldweights("v4", FP16, 0, 0, rows, cols, dims=straight, extra={"flags": 0x20}),
         matmul("v4", FP16, 0, 256, rows, cols, 6, 0, 0)],
        put("psum", 0, 0, p))


shapes()


def tiles_v5():
    gen, rows, n = "v5", 10, 3
    w, x = values(BF16, (rows, 256)), values(BF16, (rows, n))
    p = product(f32(w), f32(x))
    tile = {"tile_size": 0x87, "tile_sel": 0, "num_active_rows": rows, "num_active_cols": 0}
    add("256 columns", gen, put("sbuf", 0, 0, w) + put("sbuf", 0, 1024, x),
        [ldweights(gen, BF16, 0, 0, rows, 256, extra=tile),
         matmul(gen, BF16, 0, 1024, rows, 256, n, 0, 0, extra=tile,
                dst_dims=[[1, n], [0, 1], [100, 2]])],
        put("psum", 0, 0, p[:128]) + put("psum", 0, 400, p[128:]))
    w = w[:, :6]
    p = product(f32(w), f32(x))
    tile = {"tile_size": 0x76, "tile_sel": 0x11, "num_active_rows": rows, "num_active_cols": 6}
    add("64 rows, second tiles", gen, put("sbuf", 64, 0, w) + put("sbuf", 64, 1024, x),
        [ldweights(gen, BF16, 64, 0, rows, 6, extra=tile),
         matmul(gen, BF16, 64, 1024, rows, 6, n, 0, 0, extra=tile)],
        put("psum", 0, 0, p))


tiles_v5()


def transposes():
    for gen, code, bits in (("v3", BF16, np.uint16), ("v3", FP32, np.uint32), ("v3", FP8E5, np.uint16)):
        rows, cols = 9, 7
        w = values(code, (rows, cols), special=True)
        eye = np.eye(rows).astype(TYPES[code])
        raw = w.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[w.itemsize]).astype(bits)
        # NaN comes out canonical.
        nan = np.isnan(f32(w))
        raw[nan] = np.array(np.nan, np.float32).astype(TYPES[code]).reshape(1).view(
            {1: np.uint8, 2: np.uint16, 4: np.uint32}[w.itemsize]).astype(bits)[0]
        mode = HIGH if code == FP32 else NONE
        add(f"transpose of {code}", gen, put("sbuf", 0, 0, w) + put("sbuf", 0, 512, eye),
            [ldweights(gen, code, 0, 0, rows, cols, mode=mode),
             matmul(gen, code, 0, 512, rows, cols, rows, 0, 0, mode=mode,
                    extra={"transpose_mode": 1})],
            put("psum", 0, 0, raw.T))


transposes()


def quantised():
    rows, cols, n = 40, 6, 5
    w, x = values(U8, (rows, cols)), values(U8, (rows, n))
    zi, zw = 3, 200
    want = ((w.astype(np.int64) - zw).T @ (x.astype(np.int64) - zi)).astype(np.int32)
    puts = put("sbuf", 0, 0, w) + put("sbuf", 0, 128, x)
    add("v1 uint8", "v1", puts,
        [ldweights("v1", U8, 0, 0, rows, cols),
         matmul("v1", U8, 0, 128, rows, cols, n, 0, 0, extra={"quant_offset": zi | zw << 8})],
        put("psum", 0, 0, want))
    add("v2 uint8", "v2", puts,
        [ldweights("v2", U8, 0, 0, rows, cols, extra={"quant_offset": zw}),
         matmul("v2", U8, 0, 128, rows, cols, n, 0, 0, extra={"quant_offset": zi}),
         matmul("v2", U8, 0, 128, rows, cols, n, 0, 0, flags=END, extra={"quant_offset": zi})],
        put("psum", 0, 0, want * 2))
    w, x = values(U16, (rows, cols)), values(U16, (rows, n))
    want = w.astype(np.int64).T @ (x.astype(np.int64) - 1000)
    add("v1 uint16", "v1", put("sbuf", 0, 0, w) + put("sbuf", 0, 128, x),
        [ldweights("v1", U16, 0, 0, rows, cols),
         matmul("v1", U16, 0, 128, rows, cols, n, 0, 0, extra={"quant_offset": 1000})],
        put("psum", 0, 0, want))


quantised()


def double_row():
    """Two contraction rows in each partition: [row][2][column], 8-bit operands."""
    for wcode, xcode in ((FP8E4, FP8E4), (FP8E5, FP8E4)):
        rows, cols, n = 12, 5, 6
        w, x = values(wcode, (rows, 2, cols)), values(xcode, (rows, 2, n))
        out = product(f32(w).reshape(2 * rows, cols), f32(x).reshape(2 * rows, n))
        add(f"double row {wcode} x {xcode}", "v3",
            put("sbuf", 0, 0, w[:, :, ::-1].reshape(rows, -1)) + put("sbuf", 0, 64, x.reshape(rows, -1)),
            [ldweights("v3", wcode, 0, 0, rows, cols, extra={"perf_opt": 1},
                       dims=[[1, cols], [cols, 2], [0, 1]]),
             matmul("v3", xcode, 0, 64, rows, cols, n, 0, 0, extra={"perf_opt": 1},
                    src_dims=[[1, n], [n, 2], [0, 1]])],
            put("psum", 0, 0, out))
    add("double row of bf16", "v3", [],
        [ldweights("v3", BF16, 0, 0, 4, 4, extra={"perf_opt": 1})], [], error="perf_opt")
    add("double row data on single weights", "v3", [],
        [ldweights("v3", FP8E4, 0, 0, rows, cols),
         matmul("v3", FP8E4, 0, 64, rows, cols, n, 0, 0, extra={"perf_opt": 1},
                src_dims=[[1, n], [n, 2], [0, 1]])], [], error="matmul_perf_mode")


double_row()


def sparse():
    """Each cell picks row group tag >> 2, map tag & 3 of its row position."""
    gen, cols, n = "v3", 6, 4
    for rows, row_grp, base, force, maps in ((128, 0xF, 0, 0, 4), (64, 0x3, 0, 0, 3), (64, 0xC, 64, 8, 2),
                                             (32, 0x2, 32, 4, 4)):
        w = values(BF16, (rows, cols))
        x = values(BF16, (rows, maps, n))
        top = rows // 32
        tags = (rng.integers(0, top, (rows, 128)) << 2) | rng.integers(0, maps, (rows, 128))
        seen = tags | force
        packed = np.zeros((rows, 32), np.uint16)
        for i in range(32):
            for nibble in range(4):
                packed[:, i] |= (tags[:, 127 - (4 * i + nibble)] << (4 * nibble)).astype(np.uint16)
        out = np.zeros((cols, n), np.float32)
        for c in range(cols):
            for r in range(rows):
                row = (base + r) % 32 + 32 * (seen[r, c] >> 2) - base
                xv = f32(x)[row, seen[r, c] & 3]
                out[c] = (out[c] + (f32(w)[r, c] * xv).astype(np.float32)).astype(np.float32)
        flat = {"num_active_rows": rows, "row_grp": row_grp, "col_grp": 0xF}
        tagged = {"op": "LDTAGS", "fields": dict(flat, in_dtype=U16, force_tag_bits=force),
                  "patterns": {"src": {"addr": sbuf(gen, base, 2048), "dims": [[1, 32], [0, 1], [0, 1]]}}}
        mm = {"op": "MATMUL_SPARSE", "fields": dict(flat, in_dtype=BF16, num_active_cols=cols,
                                                    psum_accumulate_flags=SINGLE),
              "patterns": {"src": {"addr": sbuf(gen, base, 512), "dims": [[1, n], [0, 1], [0, 1], [n, maps]]},
                           "dst": {"addr": psum(gen, 0, 0), "dims": [[1, n], [0, 1], [0, 1]]}}}
        puts = (put("sbuf", base, 0, w) + put("sbuf", base, 512, x.reshape(rows, -1))
                + put("sbuf", base, 2048, packed))
        load = ldweights(gen, BF16, base, 0, rows, cols, row_grp)
        add(f"sparse, {rows} rows from {base}, {maps} maps", gen, puts, [load, tagged, mm],
            put("psum", 0, 0, out))
    add("sparse without tags", gen, puts, [load, mm], [], error="tags_loaded")
    bad = json.loads(json.dumps(tagged))
    bad["fields"]["force_tag_bits"] = 3
    add("forced bits that do not exist", gen, puts, [bad], [], error="force_tag_bits")
    # Weights and tags in one word (v4).
    rows, maps = 32, 4
    w, x = values(FP16, (rows, cols)), values(FP16, (rows, maps, n))
    tags = rng.integers(0, maps, (rows, cols))
    words = w.view(np.uint16).astype(np.uint32) | (tags << 16).astype(np.uint32)
    out = np.zeros((cols, n), np.float32)
    for c in range(cols):
        for r in range(rows):
            xv = f32(x)[r, tags[r, c]]
            out[c] = (out[c] + (f32(w)[r, c] * xv).astype(np.float32)).astype(np.float32)
    mm = {"op": "MATMUL_SPARSE", "fields": {"num_active_rows": rows, "row_grp": 1, "col_grp": 0xF,
                                            "in_dtype": FP16, "num_active_cols": cols,
                                            "psum_accumulate_flags": SINGLE},
          "patterns": {"src": {"addr": sbuf("v4", 0, 512), "dims": [[1, n], [0, 1], [0, 1], [n, maps]]},
                       "dst": {"addr": psum("v4", 0, 0), "dims": [[1, n], [0, 1], [0, 1]]}}}
    add("weights with tags", "v4", put("sbuf", 0, 0, words) + put("sbuf", 0, 512, x.reshape(rows, -1)),
        [ldweights("v4", FP16, 0, 0, rows, cols, 0x1, extra={"flags": 1},
                   dims=[[-1, cols], [0, 1], [0, 1]]), mm], put("psum", 0, 0, out))
    cases[-1]["insts"][0]["patterns"]["src"]["addr"] = 4 * (cols - 1)


sparse()


def mx():
    """Blocks of 8 rows by 4 elements share a scale byte; the step counts words."""
    formats = {FP8E4: (ml_dtypes.float8_e4m3fn, 4), FP8E5: (ml_dtypes.float8_e5m2, 4),
               0x10: (ml_dtypes.float4_e2m1fn, 2)}
    for gen, wcode, xcode in (("v4", FP8E4, FP8E4), ("v4", FP8E5, FP8E4), ("v4", 0x10, 0x10),
                              ("v4+", FP8E4, FP8E4)):
        for rows, row_grp in ((32, 0x1), (64, 0xC)):
            base, cols, n = {0x1: 0, 0xC: 64}[row_grp], 5, 6
            operand = {}
            for name, code, width in (("w", wcode, cols), ("x", xcode, n)):
                kind, word = formats[code]
                e = (rng.standard_normal((rows, width, 4)) * 3).astype(np.float32).astype(kind)
                scale = rng.integers(120, 135, (rows // 8, width)).astype(np.uint8)
                if word == 4:
                    packed = e.view(np.uint8).reshape(rows, -1)
                else:
                    codes = e.view(np.uint8).reshape(rows, width, 2, 2)
                    packed = (codes[..., 0] | codes[..., 1] << 4).astype(np.uint8).reshape(rows, -1)
                value = e.astype(np.float32) * 2.0 ** (scale.repeat(8, 0)[:, :, None].astype(float) - 127)
                operand[name] = (packed, scale, value.astype(np.float32), word)
            w, x = operand["w"], operand["x"]
            out = product(w[2].transpose(0, 2, 1).reshape(4 * rows, cols),
                          x[2].transpose(0, 2, 1).reshape(4 * rows, n))
            puts = put("sbuf", base, 0, w[0]) + put("sbuf", base, 256, x[0])
            for scales, byte in ((w[1], 512), (x[1], 768)):
                for g, row in enumerate(scales):
                    # Four scale rows to a quadrant, from partition 4 of it on.
                    puts += put("sbuf", base + g // 4 * 32 + g % 4 + 4, byte, [row])
            def pattern(data, scale, num, step):
                raw = np.zeros(16, np.uint8)
                raw[0:4] = np.array([data], np.uint32).view(np.uint8)
                raw[4:8] = np.array([scale], np.uint32).view(np.uint8)
                raw[8:10] = np.array([num], np.uint16).view(np.uint8)
                raw[10], raw[11] = step & 0xFF, 4
                return raw.tobytes().hex()
            flat = {"num_active_rows": rows, "num_active_cols": cols, "row_grp": row_grp, "col_grp": 0xF}
            lw = {"op": "LDWEIGHTS_MX", "fields": dict(flat, in_dtype=wcode), "raw": {
                "src": pattern(sbuf(gen, base, w[3] * (cols - 1)), sbuf(gen, base, 512 + cols - 1),
                               4 * cols, -1)}}
            mm = {"op": "MATMUL_MX", "fields": dict(flat, in_dtype=xcode, psum_accumulate_flags=SINGLE),
                  "raw": {"src": pattern(sbuf(gen, base, 256), sbuf(gen, base, 768), 4 * n, 1)},
                  "patterns": {"dst": {"addr": psum(gen, 0, 0), "dims": [[1, n], [0, 1], [0, 1]]}}}
            add(f"{gen} MX {wcode} x {xcode} {rows} rows", gen, puts, [lw, mm], put("psum", 0, 0, out))
    plain = ldweights("v4", FP8E4, base, 0, rows, cols, row_grp)
    add("MX data on plain weights", "v4", puts, [plain, mm], [], error="matmul_mx_weights")
    bad = json.loads(json.dumps(lw))
    bad["fields"]["in_dtype"] = BF16
    add("MX of bf16", "v4", puts, [bad], [], error="is_valid_mx_dtype")


mx()


def seeds():
    """States load by state and save by partition; rounding draws from them."""
    gen = "v4"
    words = rng.integers(1, 2**32, (16, 128), dtype=np.uint64).astype(np.uint32)
    shape = {"num_active_rows": 16, "num_active_cols": 128, "identity_dtype": FP32}
    load = {"op": "PE_MANAGE_SEED", "fields": dict(shape, mode=1),
            "patterns": {"src_seed": {"addr": 0, "dims": [[1, 128], [0, 1]]}}}
    save = {"op": "PE_MANAGE_SEED", "fields": dict(shape, mode=2),
            "patterns": {"dst_seed": {"addr": 0x2000000, "dims": [[1, 2], [512, 8]]}}}
    expect = []
    for p in (0, 1, 127):
        for s in range(16):
            expect += put("psum", p, 2048 * (s // 2) + 4 * (s % 2), [words[s, p:p + 1]])
    add("seeds loaded and saved", gen, put("sbuf", 0, 0, words), [load, save], expect)
    add("seeds saved but never loaded", gen, [], [save], [], error="pe_seed_save")
    # BF16 results round up or down by a draw: add 16 random bits below the kept ones, truncate.
    rows, cols, n = 8, 3, 9
    w, x = values(FP32, (rows, cols)), values(FP32, (rows, n))
    p = product(w, x)
    want = np.zeros((cols, n), np.uint16)
    for c in range(cols):
        state = [int(words[2 + parity, c]) for parity in range(2)]
        for j in range(n):
            s = state[j & 1]
            bit = (s >> 31 ^ s >> 21 ^ s >> 1 ^ s) & 1
            s = (s << 1 | bit) & 0xFFFFFFFF
            state[j & 1] = s
            bits = int(p[c, j].view(np.uint32))
            want[c, j] = ((bits + (s & 0xFFFF)) & 0xFFFFFFFF) >> 16
    add("stochastic rounding", gen, put("sbuf", 0, 0, words) + put("sbuf", 0, 1024, w) + put("sbuf", 0, 2048, x),
        [load, ldweights(gen, FP32, 0, 1024, rows, cols, mode=HIGH),
         matmul(gen, FP32, 0, 2048, rows, cols, n, 0, 2048, mode=HIGH, extra={"out_dtype": BF16})],
        put("psum", 0, 2048, want))


seeds()


def converter():
    fields = {"in_dtype": U16, "num_active_rows": 128, "num_active_cols": 128, "row_grp": 0xF,
              "col_grp": 0xF}
    load = {"op": "CONV_LUT_LOAD", "fields": fields,
            "patterns": {"src": {"addr": 0, "dims": [[1, 16], [0, 1]]}}}
    for gen in ("v4", "v5"):
        add(f"{gen} converter table", gen, [], [load], [])
    bad = json.loads(json.dumps(load))
    bad["patterns"]["src"]["dims"] = [[1, 15], [0, 1]]
    add("converter table of 15", "v4", [], [bad], [], error="convlut_elements")


converter()

if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases", OUT.stat().st_size, "bytes")
