#!/usr/bin/env python3
"""More vectors for the matrix engine: generations, dtypes, tiles, row and column groups, shapes,
performance modes, accumulation groups, flags and result types are drawn. Semantics as in `pe.py`."""

import json

import ml_dtypes
import numpy as np

import pe
from draw import layout, pick, split
from pe import (BF16, FP16, FP32, FP8E3, FP8E4, FP8E5, LOW, MID, NONE, SINGLE, START, TYPES, U16, U8, END, add,
                canonical, f32, ldweights, matmul, product, psum, put, round_fp22, sbuf, values)

F32 = np.float32
OUT = pe.OUT.with_name("drawn.json")
GENS = ["v1", "v2", "v3", "v4", "v4+", "v5"]
ROWS = {128: [(0xF, 0)], 64: [(0x3, 0), (0xC, 64)], 32: [(0x1, 0), (0x2, 32), (0x4, 64), (0x8, 96)]}
# The crossbar selector of v2 by column group.
XBUS = {0xF: 0x10, 0x3: 0x01, 0xC: 0x04, 0x1: 0x01, 0x2: 0x02, 0x4: 0x04}
COLS = {128: [(0xF, 0)], 64: [(0x3, 0), (0xC, 64)], 32: [(0x1, 0), (0x2, 32), (0x4, 64)]}


def spread(rng, rows, dims, low, span):
    """Each row's elements at the places of a pattern; the bytes between are drawn."""
    kind = rows.dtype
    from indirect_common import walk
    real = [d if d[1] > 1 else (0, 1) for d in dims]
    out = rng.integers(0, 256, (len(rows), span * kind.itemsize), dtype=np.uint8)
    view = out.view(kind)
    for place, column in zip(walk(real), range(rows.shape[1])):
        view[:, low + place] = rows[:, column]
    return view


def gather(rows, dims, low):
    from indirect_common import walk
    real = [d if d[1] > 1 else (0, 1) for d in dims]
    return rows[:, [low + p for p in walk(real)]]


def tile(rng, gen):
    """Rows and columns, the fields that say so, and where source and destination begin."""
    if gen == "v5":
        row_code, row_sel = pick(rng, [(7, 0), (6, 0), (6, 1)])
        most = 64 if row_code == 6 else 128
        rows, cols = int(rng.integers(1, min(most, 24))), int(rng.integers(1, 10))
        extra = {"tile_size": row_code | 0x70, "tile_sel": row_sel | int(rng.integers(0, 2)) << 4,
                 "num_active_rows": rows, "num_active_cols": cols}
        return rows, cols, {}, extra, 64 * row_sel, 0
    rows_max, cols_max = pick(rng, [128, 64, 32]), pick(rng, [128, 64, 32])
    if gen == "v1":
        rows_max = cols_max = 128
    row_grp, base = pick(rng, ROWS[rows_max])
    col_grp, first = pick(rng, COLS[cols_max])
    # a group may be filled only in part
    rows = rows_max if rng.integers(0, 5) == 0 else int(rng.integers(1, 25))
    cols = int(rng.integers(1, 10))
    groups = {} if gen == "v1" else {"row_grp": row_grp, "col_grp": col_grp}
    if gen == "v2":
        groups["xbus_sel"] = XBUS[col_grp]
    return rows, cols, groups, {}, base, first


def dense(seed):
    """One to three products that accumulate, in drawn shapes."""
    rng = pe.rng = np.random.default_rng(4000 + seed)
    gen = GENS[seed % 6]
    rows, cols, groups, extra, base, first = tile(rng, gen)
    choice = pick(rng, ["16", "8", "32"] if gen != "v1" else ["16"])
    mode = NONE
    if choice == "32":
        wcode = xcode = FP32
        mode = pick(rng, [1, 2, 3])
    elif choice == "8":
        kinds = [FP8E3, FP8E4, FP8E5]
        wcode, xcode = pick(rng, kinds + [BF16]), pick(rng, kinds)
    else:
        wcode, xcode = pick(rng, [BF16, FP16]), pick(rng, [BF16, FP16])
        if gen == "v1":
            wcode = xcode
    perf = 0
    if gen in ("v3", "v4", "v4+") and wcode in (FP8E3, FP8E4, FP8E5) and xcode in (FP8E3, FP8E4, FP8E5):
        perf = pick(rng, [0, 2, 3])
    wide = gen == "v5"
    kind = lambda code: np.dtype(ml_dtypes.float8_e4m3fn) if wide and code == FP8E4 else np.dtype(TYPES[code])
    n = int(rng.integers(1, 19))
    steps = int(rng.integers(1, 4))
    out_code = pick(rng, [0, FP32, BF16]) if gen in ("v4", "v4+", "v5") else 0
    narrow = out_code == BF16
    dkind = np.dtype(ml_dtypes.bfloat16 if narrow else np.float32)
    dcounts = split(rng, n, 3)
    ddims, dlow, dspan = layout(rng, dcounts)
    old = (rng.integers(-40, 40, (cols, dspan)) * F32(0.5)).astype(dkind)
    at = dkind.itemsize * int(rng.integers(0, 16))
    puts, insts, total = put("psum", first, at, old), [], None
    special = choice == "16" and seed % 4 == 0
    for i in range(steps):
        w = values(wcode, (rows, cols)).astype(F32).astype(kind(wcode))
        x = values(xcode, (rows, n)).astype(F32).astype(kind(xcode))
        if special and n > 2:
            x.flat[1] = pick(rng, [np.nan, np.inf, -np.inf])
        xdims, xlow, xspan = layout(rng, split(rng, n, 3))
        xrow = spread(rng, x, xdims, xlow, xspan)
        wbyte = 1024 * i
        xbyte = 4096 + 1024 * i + 8 * int(rng.integers(0, 4))
        # weights backwards as the compiler puts them, or the columns mirrored
        mirrored = bool(rng.integers(0, 2))
        step = int(rng.integers(1, 3))
        wdims = [(step, cols)]
        wrow = spread(rng, w[:, ::-1] if mirrored else w, wdims, 0, step * (cols - 1) + 1)
        size = w.dtype.itemsize
        if mirrored:
            pattern = [[step, cols], [0, 1], [0, 1]]
            wstart = wbyte
        else:
            pattern = [[-step, cols], [0, 1], [0, 1]]
            wstart = wbyte + step * (cols - 1) * size
        puts += put("sbuf", base, wbyte, wrow) + put("sbuf", base, xbyte, xrow)
        lw_extra, mm_extra = dict(groups, **extra), dict(groups, **extra)
        if perf:
            lw_extra["perf_opt"] = mm_extra["perf_opt"] = perf
        if out_code:
            mm_extra["out_dtype"] = out_code
        if wide:
            mm_extra["flags"] = 0x10 if i else 0
        flags = SINGLE if steps == 1 else START if i == 0 else END if i == steps - 1 else MID
        lw = ldweights(gen, wcode, base, wstart, rows, cols, mode=mode, extra=lw_extra, dims=pattern)
        mm = matmul(gen, xcode, base, xbyte + xlow * x.dtype.itemsize, rows, cols, n, first,
                    at + dlow * dkind.itemsize, flags=flags, mode=mode, extra=mm_extra,
                    src_dims=[list(d) for d in xdims], dst_dims=[list(d) for d in ddims])
        insts += [lw, mm]
        a, b = f32(w), f32(x)
        if mode == LOW:
            a, b = round_fp22(a), round_fp22(b)
        p = product(a, b)
        with np.errstate(all="ignore"):
            total = p if total is None else canonical(total + p)
        if narrow:
            total = f32(total.astype(ml_dtypes.bfloat16))
    want = old.copy()
    from indirect_common import walk
    places = [dlow + p for p in walk([d if d[1] > 1 else (0, 1) for d in ddims])]
    want[:, places] = total.astype(dkind)
    add(f"dense {gen} {wcode} x {xcode} mode {mode} perf {perf} steps {steps} #{seed}", gen, puts, insts,
        put("psum", first, at, want))


def quantised(seed):
    """UINT8 with zero points (v1, v2) and UINT16 (v1), summed as integers."""
    rng = pe.rng = np.random.default_rng(4200 + seed)
    gen = ["v1", "v1", "v2"][seed % 3]
    code = U16 if seed % 3 == 1 else U8
    rows, cols, groups, _, base, first = tile(rng, gen)
    n, steps = int(rng.integers(1, 12)), int(rng.integers(1, 3))
    zi, zw = int(rng.integers(0, 256)), int(rng.integers(0, 256)) if code == U8 else 0
    bits = np.int64 if code == U16 else np.int32
    puts, insts, total = [], [], np.zeros((cols, n), np.int64)
    for i in range(steps):
        w, x = values(code, (rows, cols)), values(code, (rows, n))
        puts += put("sbuf", base, 512 * i, w) + put("sbuf", base, 2048 + 512 * i, x)
        total += (w.astype(np.int64) - zw).T @ (x.astype(np.int64) - zi)
        v2 = gen == "v2"
        insts += [ldweights(gen, code, base, 512 * i, rows, cols,
                            extra=dict(groups, **({"quant_offset": zw} if v2 else {}))),
                  matmul(gen, code, base, 2048 + 512 * i, rows, cols, n, first, 64,
                         flags=SINGLE if steps == 1 else [START, END][i],
                         extra=dict(groups, quant_offset=zi if v2 or code == U16 else zi | zw << 8))]
    add(f"quantised {gen} {code} steps {steps} #{seed}", gen, puts, insts,
        put("psum", first, 64, total.astype(bits)))


def double_row(seed):
    """Two contraction rows in a partition: all of the first, then all of the second."""
    rng = pe.rng = np.random.default_rng(4300 + seed)
    gen = ["v3", "v4", "v4+"][seed % 3]
    wcode, xcode = pick(rng, [FP8E3, FP8E4, FP8E5]), pick(rng, [FP8E3, FP8E4, FP8E5])
    rows_max = pick(rng, [128, 64, 32])
    row_grp, base = pick(rng, ROWS[rows_max])
    rows, cols, n = int(rng.integers(1, 25)), int(rng.integers(1, 9)), int(rng.integers(1, 12))
    w, x = values(wcode, (rows, 2, cols)), values(xcode, (rows, 2, n))
    out = product(f32(w).reshape(2 * rows, cols), f32(x).reshape(2 * rows, n))
    inner = split(rng, n, 2)
    xdims, xlow, xspan = layout(rng, inner, backwards=False)
    plane = xspan + int(rng.integers(0, 5))
    xrow = np.concatenate([spread(rng, x[:, k], xdims, xlow, plane) for k in range(2)], 1)
    extra = {"perf_opt": 1, "row_grp": row_grp, "col_grp": 0xF}
    add(f"double row {gen} {wcode} x {xcode} #{seed}", gen,
        put("sbuf", base, 0, w[:, :, ::-1].reshape(rows, -1)) + put("sbuf", base, 256, xrow),
        [ldweights(gen, wcode, base, 0, rows, cols, extra=extra, dims=[[1, cols], [cols, 2], [0, 1]]),
         matmul(gen, xcode, base, 256 + xlow, rows, cols, n, 0, 0, extra=extra,
                src_dims=[list(d) for d in xdims] + [[plane, 2]])],
        put("psum", 0, 0, out))


def transpose(seed):
    """The moving operand selects a row by a one; that row's weights pass as bits."""
    rng = pe.rng = np.random.default_rng(4400 + seed)
    gen = ["v3", "v4", "v4+"][seed % 3]
    code = pick(rng, [BF16, FP16, FP32, FP8E4, FP8E5])
    rows, cols = int(rng.integers(1, 17)), int(rng.integers(1, 12))
    w = values(code, (rows, cols), special=rows * cols > 4)
    order = rng.permutation(rows)
    select = np.eye(rows)[:, order].astype(TYPES[code])
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[w.itemsize]
    raw = w.view(unsigned).astype(np.uint32 if code == FP32 else np.uint16)
    quiet = np.array(np.nan, F32).astype(TYPES[code]).reshape(1).view(unsigned)[0]
    raw[np.isnan(f32(w))] = quiet
    mode = pick(rng, [2, 3]) if code == FP32 else NONE
    add(f"transpose {gen} {code} #{seed}", gen, put("sbuf", 0, 0, w) + put("sbuf", 0, 512, select),
        [ldweights(gen, code, 0, 0, rows, cols, mode=mode),
         matmul(gen, code, 0, 512, rows, cols, rows, 0, 128, mode=mode, extra={"transpose_mode": 1})],
        put("psum", 0, 128, raw[order].T))


def loaded_transposed(seed):
    """A square tile loaded with rows and columns exchanged: the product is with its transpose."""
    rng = pe.rng = np.random.default_rng(4450 + seed)
    gen = ["v3", "v4", "v4+", "v5"][seed % 4]
    code = pick(rng, [BF16, FP16, FP32])
    size, n = int(rng.integers(1, 17)), int(rng.integers(1, 9))
    w, x = values(code, (size, size)), values(code, (size, n))
    mode = 2 if code == FP32 else NONE
    tile = {"tile_size": 0x77, "num_active_rows": size, "num_active_cols": size} if gen == "v5" else {}
    flag = {"flags": 1} if gen == "v5" else {"transpose_mode": 1}
    add(f"transposed load {gen} {code} #{seed}", gen, put("sbuf", 0, 0, w) + put("sbuf", 0, 1024, x),
        [ldweights(gen, code, 0, 0, size, size, mode=mode, extra=dict(tile, **flag)),
         matmul(gen, code, 0, 1024, size, size, n, 0, 64, mode=mode, extra=tile)],
        put("psum", 0, 64, product(f32(w).T, f32(x))))


def sparse(seed):
    """Each cell picks row group tag >> 2 and map tag & 3 of its row's position in the group."""
    rng = pe.rng = np.random.default_rng(4500 + seed)
    gen = ["v3", "v4", "v4+"][seed % 3]
    rows, row_grp, base, force = pick(rng, [(128, 0xF, 0, 0), (64, 0x3, 0, 0), (64, 0xC, 64, 8), (32, 0x1, 0, 0),
                                            (32, 0x2, 32, 4), (32, 0x4, 64, 8), (32, 0x8, 96, 12)])
    cols, n, maps = int(rng.integers(1, 7)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    code = pick(rng, [BF16, FP16])
    w, x = values(code, (rows, cols)), values(code, (rows, maps, n))
    one_word = gen != "v3" and seed % 2 == 1 and rows == 32 and base == 0
    top = rows // 32
    tags = (rng.integers(0, top, (rows, 128)) << 2) | rng.integers(0, maps, (rows, 128))
    seen = tags | force
    out = np.zeros((cols, n), F32)
    for c in range(cols):
        for r in range(rows):
            row = (base + r) % 32 + 32 * (seen[r, c] >> 2) - base
            out[c] = (out[c] + (f32(w)[r, c] * f32(x)[row, seen[r, c] & 3]).astype(F32)).astype(F32)
    old = (rng.integers(-9, 9, (cols, n))).astype(F32)
    fresh = seed % 4 != 3 or gen == "v3"
    flat = {"num_active_rows": rows, "row_grp": row_grp, "col_grp": 0xF}
    mm = {"op": "MATMUL_SPARSE", "fields": dict(flat, in_dtype=code, num_active_cols=cols,
                                                psum_accumulate_flags=SINGLE if fresh else END),
          "patterns": {"src": {"addr": sbuf(gen, base, 512), "dims": [[1, n], [0, 1], [0, 1], [n, maps]]},
                       "dst": {"addr": psum(gen, 0, 0), "dims": [[1, n], [0, 1], [0, 1]]}}}
    puts = put("sbuf", base, 512, x.reshape(rows, -1)) + put("psum", 0, 0, old)
    if one_word:
        words = w.view(np.uint16).astype(np.uint32) | (tags[:, :cols] << 16).astype(np.uint32)
        load = ldweights(gen, code, 0, 0, rows, cols, 0x1, extra={"flags": 1}, dims=[[-1, cols], [0, 1], [0, 1]])
        load["patterns"]["src"]["addr"] = 4 * (cols - 1)
        loads, puts = [load], puts + put("sbuf", 0, 0, words)
    else:
        packed = np.zeros((rows, 32), np.uint16)
        for i in range(32):
            for nibble in range(4):
                packed[:, i] |= (tags[:, 127 - (4 * i + nibble)] << (4 * nibble)).astype(np.uint16)
        loads = [ldweights(gen, code, base, 0, rows, cols, row_grp),
                 {"op": "LDTAGS", "fields": dict(flat, in_dtype=U16, force_tag_bits=force),
                  "patterns": {"src": {"addr": sbuf(gen, base, 2048), "dims": [[1, 32], [0, 1], [0, 1]]}}}]
        puts += put("sbuf", base, 0, w) + put("sbuf", base, 2048, packed)
    want = out if fresh else (old + out).astype(F32)
    add(f"sparse {gen} rows {rows} from {base} maps {maps} #{seed}", gen, puts, loads + [mm],
        put("psum", 0, 0, want))


def mx(seed):
    """Blocks of 8 rows by 4 elements share a scale byte; both operands drawn apart."""
    rng = pe.rng = np.random.default_rng(4600 + seed)
    gen = ["v4", "v4+"][seed % 2]
    formats = {FP8E4: (ml_dtypes.float8_e4m3fn, 4), FP8E5: (ml_dtypes.float8_e5m2, 4),
               FP8E3: (ml_dtypes.float8_e3m4, 4), 0x10: (ml_dtypes.float4_e2m1fn, 2)}
    wcode = pick(rng, [FP8E4, FP8E5, 0x10])
    xcode = 0x10 if wcode == 0x10 else pick(rng, [FP8E4, FP8E5])
    rows, row_grp, base = pick(rng, [(32, 0x1, 0), (32, 0x2, 32), (32, 0x4, 64), (64, 0x3, 0), (64, 0xC, 64)])
    cols, n, lane = int(rng.integers(1, 8)), int(rng.integers(1, 9)), pick(rng, [0, 4, 8, 12])
    flat = {"num_active_rows": rows, "num_active_cols": cols, "row_grp": row_grp, "col_grp": 0xF}
    steps = int(rng.integers(1, 3))
    out_code = pick(rng, [0, FP32, BF16])
    puts, insts, total = [], [], None
    for i in range(steps):
        operand = {}
        for name, code, width in (("w", wcode, cols), ("x", xcode, n)):
            kind, word = formats[code]
            e = (rng.standard_normal((rows, width, 4)) * 3).astype(F32).astype(kind)
            scale = rng.integers(110, 145, (rows // 8, width)).astype(np.uint8)
            if word == 4:
                packed = e.view(np.uint8).reshape(rows, -1)
            else:
                codes = e.view(np.uint8).reshape(rows, width, 2, 2)
                packed = (codes[..., 0] | codes[..., 1] << 4).astype(np.uint8).reshape(rows, -1)
            value = e.astype(F32) * 2.0 ** (scale.repeat(8, 0)[:, :, None].astype(float) - 127)
            operand[name] = (packed, scale, value.astype(F32), word)
        w, x = operand["w"], operand["x"]
        p = product(w[2].transpose(0, 2, 1).reshape(4 * rows, cols), x[2].transpose(0, 2, 1).reshape(4 * rows, n))
        total = p if total is None else (total + p).astype(F32)
        if out_code == BF16:
            total = f32(total.astype(ml_dtypes.bfloat16))
        at = 1024 * i
        puts += put("sbuf", base, at, w[0]) + put("sbuf", base, at + 256, x[0])
        for scales, byte in ((w[1], at + 512), (x[1], at + 768)):
            for g, row in enumerate(scales):
                puts += put("sbuf", base + g // 4 * 32 + g % 4 + lane, byte, [row])

        def pattern(data, scale, num, step):
            raw = np.zeros(16, np.uint8)
            raw[0:4], raw[4:8] = (np.array([a], np.uint32).view(np.uint8) for a in (data, scale))
            raw[8:10] = np.array([num], np.uint16).view(np.uint8)
            raw[10], raw[11] = step & 0xFF, lane
            return raw.tobytes().hex()

        back = bool(rng.integers(0, 2))
        puts_w = w[0] if back else w[0].reshape(rows, cols, -1)[:, ::-1].reshape(rows, -1)
        if not back:
            # forwards, the first word goes to the last column
            puts[-2 * (rows // 8) - 2] = put("sbuf", base, at, puts_w)[0]
            for g in range(rows // 8):
                spot = puts[-2 * (rows // 8) + g]
                spot["hex"] = w[1][g][::-1].tobytes().hex()
        last = cols - 1 if back else 0
        src = pattern(sbuf(gen, base, at + w[3] * last), sbuf(gen, base, at + 512 + last), 4 * cols, -1 if back else 1)
        insts.append({"op": "LDWEIGHTS_MX", "fields": dict(flat, in_dtype=wcode), "raw": {"src": src}})
        flags = SINGLE if steps == 1 else [START, END][i]
        fields = dict(flat, in_dtype=xcode, psum_accumulate_flags=flags)
        if out_code:
            fields["out_dtype"] = out_code
        insts.append({"op": "MATMUL_MX", "fields": fields,
                      "raw": {"src": pattern(sbuf(gen, base, at + 256), sbuf(gen, base, at + 768), 4 * n, 1)},
                      "patterns": {"dst": {"addr": psum(gen, 0, 64), "dims": [[1, n], [0, 1], [0, 1]]}}})
    want = total.astype(ml_dtypes.bfloat16) if out_code == BF16 else total
    add(f"MX {gen} {wcode} x {xcode} rows {rows} from {base} steps {steps} #{seed}", gen, puts, insts,
        put("psum", 0, 64, want))


def seeds(seed):
    """Loaded states round BF16 results up or down: 16 drawn bits are added below the kept ones."""
    rng = pe.rng = np.random.default_rng(4700 + seed)
    gen = ["v4", "v4+"][seed % 2]
    words = rng.integers(1, 2**32, (16, 128), dtype=np.uint64).astype(np.uint32)
    shape = {"num_active_rows": 16, "num_active_cols": 128, "identity_dtype": FP32}
    byte = 4 * int(rng.integers(0, 64))
    load = {"op": "PE_MANAGE_SEED", "fields": dict(shape, mode=1),
            "patterns": {"src_seed": {"addr": byte, "dims": [[1, 128], [0, 1]]}}}
    save = {"op": "PE_MANAGE_SEED", "fields": dict(shape, mode=2),
            "patterns": {"dst_seed": {"addr": 0x2000000, "dims": [[1, 2], [512, 8]]}}}
    rows, cols, n, bank = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 8)), seed % 8
    w, x = values(FP32, (rows, cols)), values(FP32, (rows, n))
    p = product(w, x)
    want, state = np.zeros((cols, n), np.uint16), words.astype(np.uint64).copy()
    for c in range(cols):
        for j in range(n):
            k = 2 * bank + (j & 1)
            s = int(state[k, c])
            bit = (s >> 31 ^ s >> 21 ^ s >> 1 ^ s) & 1
            s = (s << 1 | bit) & 0xFFFFFFFF
            state[k, c] = s
            want[c, j] = ((int(p[c, j].view(np.uint32)) + (s & 0xFFFF)) & 0xFFFFFFFF) >> 16
    insts = [load, ldweights(gen, FP32, 0, 1024, rows, cols, mode=2),
             matmul(gen, FP32, 0, 2048, rows, cols, n, 0, 2048 * bank + 64, mode=2, extra={"out_dtype": BF16})]
    expect = put("psum", 0, 2048 * bank + 64, want)
    if seed % 2 == 0:
        # the states as the draws left them
        insts.append(save)
        for q in (0, 1, cols - 1, 127):
            for k in range(16):
                expect += put("psum", q, 2048 * (k // 2) + 4 * (k % 2), [state[k, q:q + 1].astype(np.uint32)])
    add(f"seeds {gen} bank {bank} #{seed}", gen,
        put("sbuf", 0, byte, words) + put("sbuf", 0, 1024, w) + put("sbuf", 0, 2048, x), insts, expect)


def converter(seed):
    """The table is taken where it lies; what reads it is not published, so only that shows."""
    rng = pe.rng = np.random.default_rng(4800 + seed)
    gen = ["v4", "v4+", "v5"][seed % 3]
    fields = {"in_dtype": U16, "num_active_rows": 128, "num_active_cols": 128, "row_grp": 0xF, "col_grp": 0xF,
              "lut_dtype": pick(rng, [0, FP32])}
    dims = pick(rng, [[[1, 16], [0, 1]], [[int(rng.integers(1, 9)), 16], [0, 1]], [[-1, 16], [0, 1]]])
    error = None
    if seed >= 12:
        change, error = [({"block_size": 8}, "convlut_zero"), ({"in_dtype": FP32}, "convlut_dtype")][seed % 2]
        fields |= change
    load = {"op": "CONV_LUT_LOAD", "fields": fields,
            "patterns": {"src": {"addr": 64 + 2 * int(rng.integers(0, 40)), "dims": dims}}}
    table = rng.integers(0, 2**16, (1, 200)).astype(np.uint16)
    add(f"converter table {gen} #{seed}", gen, put("sbuf", 0, 0, table), [load], put("sbuf", 0, 0, table),
        **({"error": error} if error else {}))


def main():
    pe.cases.clear()
    with np.errstate(all="ignore"):
        for make, count in ((dense, 90), (quantised, 24), (double_row, 18), (transpose, 18), (loaded_transposed, 16), (sparse, 30), (mx, 24),
                            (seeds, 20), (converter, 12)):
            for seed in range(count):
                make(seed)
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in pe.cases) + "\n]\n")
    print(len(pe.cases), "cases", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
