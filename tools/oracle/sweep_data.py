"""Sweep of the other elementwise opcodes: copies, selects, generators, pooling, tiles of 32
channels, batch norm, integer addresses, the gather buffer and loaded scalars."""

import copy

import numpy as np

from sweep_arith import SUBDIM, fbits, fold, groups, raw, stage, types
from sweep_case import FLOATS, INTS, LATER, Trial, draw, narrow, own, pair, shapes
from vector_numbers import (GARITH, GBITVEC, OPS, bitop, code, f32op, f32ops, is_int,
                            offsets, size)

f = np.float32


def calm(d):
    """Values without extremes."""
    def values(rng, n):
        if is_int(d):
            return rng.integers(0 if d[0] == "u" else -100, 100, n)
        return narrow(rng.standard_normal(n) * 4, d)
    return values


def copies(rng):
    out = []

    def case(opcode, d, do, gen, engine):
        t = Trial(rng, gen, engine)
        n = int(rng.integers(1, 21))
        a = t.operand(d, n, 4, psum=t.chance(4))
        dst = t.operand(do, n, 4, "dst", psum=t.chance(4))
        if gen == "v1" and opcode == "COPY":
            t.inst(opcode, dtype=code(d), num_active_channels=t.n, src=a.pattern(),
                   dst=dst.pattern())
        else:
            t.inst(opcode, in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
                   src=a.pattern(), dst=dst.pattern())
        for c in range(t.n):
            if opcode == "RECIPROCAL":
                dst.put_f(c, f32ops("divide", [1.0] * n, a.f(c)))
            elif a.d == dst.d:
                dst.put_ints(c, a.bits(c))
            else:
                dst.put_f(c, a.f(c))
        t.outputs.append(dst)
        out.append(t.json(f"{opcode} {d}->{do}"))

    k = 0
    for gen in ["v1"] + LATER:
        names = types(gen)
        for d in names:
            engine = "pool" if gen == "v1" or k % 2 else "dve"
            case("COPY", d, d, gen, engine)
            case("RECIPROCAL", d, names[int(rng.integers(0, len(names)))], gen,
                 "pool" if gen == "v1" else "dve")
            for _ in range(2):
                case("CAST", d, names[int(rng.integers(0, len(names)))], gen, engine)
            k += 1
            t = Trial(rng, gen, engine)
            n = int(rng.integers(1, 21))
            dst = t.operand(d, n, 4, "dst", psum=t.chance(4))
            v = raw(draw(rng, dst.d, 1))
            t.inst("MEMSET", dtype=code(d), num_active_channels=t.n, dst=dst.pattern(),
                   set_value=v, dst_element_count=n)
            for c in range(t.n):
                dst.put_ints(c, [v] * n)
            t.outputs.append(dst)
            out.append(t.json(f"MEMSET {d}"))
    return out


def wrap(v):
    return (v + 2**31) % 2**32 - 2**31


def generate(rng):
    out = []

    def generator(nums, dims):
        big = rng.integers(0, 4) == 0
        base = int(rng.integers(2**31 - 400, 2**31)) if big else int(rng.integers(-50, 50))
        steps = [int(x) for x in rng.integers(-90 if big else -9, 90 if big else 9, len(nums))]
        mult = int(rng.integers(-20, 20))
        index = offsets(steps, nums)
        return ({"base": base & 0xFFFFFFFF, "steps": steps, "nums": nums}, mult,
                lambda c: [wrap(base + mult * c + i) for i in index])

    for k in range(60):
        gen, d = LATER[k % 5], (FLOATS + INTS)[k % 12]
        t = Trial(rng, gen, "pool")
        n = int(rng.integers(1, 21))
        nums = shapes(rng, n, 4)
        dst = t.operand(d, n, 4, "dst")
        g, mult, values = generator(nums, 4)
        t.inst("IOTA", out_dtype=code(d), num_active_channels=t.n, src_data=g, dst=dst.pattern(),
               channel_multiplier=mult & 0xFFFFFFFF)
        for c in range(t.n):
            if is_int(d):
                dst.put_ints(c, values(c))
            else:
                dst.put_f(c, np.array(values(c), np.float64).astype(f))
        t.outputs.append(dst)
        out.append(t.json(f"IOTA {d}"))
    for k in range(48):
        gen, mode = LATER[k % 5], k % 4
        d, do = (FLOATS + INTS)[k % 12], (FLOATS + INTS)[(5 * k + k // 12) % 12]
        t = Trial(rng, gen, "pool")
        n = int(rng.integers(1, 21))
        a = t.operand(d, n, 2)
        dst = t.operand(do, n, 2, "dst")
        g, mult, values = generator(shapes(rng, n, 4), 4)
        fill = draw(rng, "fp32", 1)[0]
        t.registers["5"] = fbits(fill)
        t.inst("TENSOR_SCALAR_AFFINE_SELECT", num_active_channels=t.n, in_out_dtype=pair(d, do),
               fill_mode=mode, fill_reg=5, mask=g, src=a.pattern(), dst=dst.pattern(),
               channel_multiplier=mult & 0xFFFFFFFF)
        for c in range(t.n):
            keep = [[m > 0, m >= 0, m == 0, m != 0][mode] for m in values(c)]
            dst.put_f(c, np.where(keep, a.f(c), fill).astype(f))
        t.outputs.append(dst)
        out.append(t.json(f"AFFINE_SELECT {mode} {d}->{do}"))
    return out


def predicated(rng):
    out = []
    names = FLOATS + INTS

    def truth(dp):
        return lambda c, m: [int(x) for x in draw(rng, dp, m)]

    for k in range(60):
        gen = LATER[k % 5]
        opcode = ["COPY_PREDICATED", "CAST_PREDICATED"][k // 5 % 2]
        dp, d = INTS[k % 6], names[(7 * k) % 12]
        do = d if opcode[1] == "O" or k % 7 == 0 else names[(5 * k + 1) % 12]
        t = Trial(rng, gen)
        n = int(rng.integers(1, 17))
        p = t.operand(dp, n, 3, values=truth(dp))
        a = t.operand(d, n, 3, psum=t.chance(4))
        dst = t.operand(do, n, 3, "dst", psum=t.chance(4))
        t.inst(opcode, in0_in1_dtype=pair(dp, d), out_dtype=code(do), num_active_channels=t.n,
               src0=p.pattern(), src1=a.pattern(), dst=dst.pattern(), op=0)
        for c in range(t.n):
            keep = [x != 0 for x in p.ints(c)]
            if d == do:
                dst.put_ints(c, a.bits(c), keep)
            else:
                dst.put_f(c, a.f(c), keep)
        t.outputs.append(dst)
        out.append(t.json(f"{opcode} {dp},{d}->{do}"))
    for k in range(36):
        gen, d, rev, dp = LATER[k % 5], names[k % 12], k // 2 % 2, INTS[(5 * k) % 6]
        t = Trial(rng, gen)
        n = int(rng.integers(1, 17))
        p = t.operand(dp, n, 3, values=truth(dp), psum=t.chance(4))
        s = t.scalar(d)
        dst = t.operand(d, n, 3, "dst", psum=t.chance(4))
        t.inst("COPY_PREDICATED_SCALAR", pred=p.pattern(), pred_dtype=code(dp), reversed_pred=rev,
               num_active_channels=t.n, in_dtype=code(d), out_dtype=code(d), src0_imm_src=s[0],
               src0_imm=s[1], dst=dst.pattern())
        for c in range(t.n):
            keep = [(x != 0) == (rev != 0) for x in p.ints(c)]
            dst.put_ints(c, [raw(s[2][c])] * n, keep)
        t.outputs.append(dst)
        out.append(t.json(f"COPY_PREDICATED_SCALAR {dp} {d} reversed {rev}"))
    for k in range(36):
        gen, d, rev = LATER[k % 5], names[k % 12], k // 3 % 2
        dp = {1: ["i8", "u8"], 2: ["i16", "u16"], 4: ["i32", "u32"]}[size(d)][k % 2]
        t = Trial(rng, gen)
        n = int(rng.integers(1, 17))
        a = t.operand(d, n, 3, psum=t.chance(4))
        s = t.scalar(d)
        how = k // 2 % 3
        if how:
            q = t.operand(dp, 1, 1, nums=[1], steps=[1],
                          values=lambda c, m: [(k + c) % 2 * int(rng.integers(1, 100))])
            if how == 2:
                t.registers["9"] = q.addr()
            ps = how, (q.addr() if how == 1 else 9), [q.ints(c)[0] for c in range(t.n)]
        else:
            ps = 0, k % 2, [k % 2] * t.n
        dst = t.operand(d, n, 3, "dst", psum=t.chance(4))
        t.inst("TENSOR_SCALAR_SELECT", src0=a.pattern(), reversed_pred=rev,
               num_active_channels=t.n, dtype=code(d), pred_imm_dtype=code(dp), src1_imm_src=s[0],
               pred_imm_src=ps[0], src1_imm=s[1], pred_imm=ps[1], dst=dst.pattern())
        for c in range(t.n):
            take = (ps[2][c] != 0) != (rev != 0)
            dst.put_ints(c, a.bits(c) if take else [raw(s[2][c])] * n)
        t.outputs.append(dst)
        out.append(t.json(f"TENSOR_SCALAR_SELECT {d} {dp} reversed {rev} {how}"))
    return out


def pooling(rng):
    out = []

    def windows(t, d, gen):
        """A map and its windows: overlapping when the strides are below the window's sides."""
        w, h = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        ox, oy = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        sx, sy = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        width = w + sx * (ox - 1)
        return [w, h, ox, oy], [1, width, sx, sy * width]

    for k in range(60):
        gen = (["v1"] + LATER)[k % 6]
        d = ["fp32", "bf16", "u8", "i32", "fp16", "i64"][(k // 6 + k) % 6]
        do = ["fp32", "bf16", "u8", "fp16", "i32"][k % 5]
        engine = "dve" if gen == "v2" or k % 4 == 3 and gen != "v1" else "pool"
        if engine == "dve" and d == "i64":
            d = "fp32"
        func = 1 + k // 6 % 2
        t = Trial(rng, gen, engine)
        nums, steps = windows(t, d, gen)
        dims = 1 + k % 4 if gen != "v1" else 1 + k // 6 % 4
        a = t.operand(d, 0, 4, nums=nums, steps=steps,
                      values=(lambda c, m: rng.integers(-2**40, 2**40, m)) if d == "i64" else None)
        n = int(np.prod(nums[:dims]))
        dst = t.operand(do, a.len // n, 4, "dst")
        scale = f(1 / n if func == 2 else 1.0)
        t.inst("POOL", in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
               pool_func=func, pool_dim=dims if gen == "v1" else SUBDIM[dims],
               pool_scale=fbits(scale), src=a.pattern(), dst=dst.pattern())
        for c in range(t.n):
            r = []
            for g in groups(list(a.f(c)), n):
                x = fold("max" if func == 1 else "add", g)
                r.append(x if func == 1 else f32op("mult", x, scale))
            dst.put_f(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"POOL {'MAX' if func == 1 else 'AVG'} {d}->{do} dims {dims}"))

    def first_largest(g):
        best = 0
        for i, x in enumerate(g):
            if x > g[best] or np.isnan(g[best]) and not np.isnan(x):
                best = i
        return best

    for k in range(30):
        gen, d, do = LATER[k % 5], ["fp32", "bf16", "u8", "i32", "fp16"][k // 5 % 5], \
            ["u8", "u16", "u32"][k % 3]
        t = Trial(rng, gen)
        nums, steps = windows(t, d, gen)
        dims = 1 + k % 4
        a = t.operand(d, 0, 4, nums=nums, steps=steps)
        n = int(np.prod(nums[:dims]))
        dst = t.operand(do, a.len // n, 4, "dst", psum=t.chance(4))
        t.inst("MAX_POOL_SELECT", in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
               pool_func=0, pool_dim=SUBDIM[dims], pool_scale=0x3F800000, src=a.pattern(),
               dst=dst.pattern())
        for c in range(t.n):
            dst.put_ints(c, [first_largest(g) for g in groups(list(a.f(c)), n)])
        t.outputs.append(dst)
        out.append(t.json(f"MAX_POOL_SELECT {d}->{do} dims {dims}"))
    return out


def tiled(a, c):
    """Row c of the source with every 32 x 32 tile transposed."""
    first, e = c // 32 * 32, c % 32
    rows = [a.get(first + i) for i in range(32)]
    return np.concatenate([[rows[i][32 * t + e] for i in range(32)]
                           for t in range(a.len // 32)]).astype(rows[0].dtype)


def cross_channel(rng):
    out = []
    for k in range(72):
        gen, axis, op = LATER[k % 5], k // 6 % 2, k % 6
        name = ["add", "average", "max", "or", "and", "xor"][op]
        bits = op >= 3
        d = ["u8", "u16", "u32"][k // 12 % 3] if bits else (FLOATS + INTS)[(k // 3) % 12]
        do = d if bits else (FLOATS + INTS)[(5 * k) % 12]
        t = Trial(rng, gen, "pool", channels=int(rng.integers(1, 9)))
        n = int(rng.integers(1, 9))
        a = t.operand(d, n, 4)
        dst = t.operand(do, n if axis else 1, 4, "dst", channels=1,
                        nums=None if axis else [1], steps=None if axis else [1])
        scale = f([0.3, 0.125, 1.0][k % 3])
        t.inst(f"CROSS_LANE_REDUCE_{'BITVEC' if bits else 'ARITH'}", in_dtype=code(d),
               out_dtype=code(do), num_active_channels=t.n, reduce_op=op, reduce_axis=axis,
               scale=fbits(scale), src=a.pattern(), dst=dst.pattern())
        rows = []
        for c in range(t.n):
            x = a.bits(c) if bits else list(a.f(c))
            rows.append(list(f32ops("mult", x, [scale] * n)) if name == "average" else x)
        cols = [list(col) for col in zip(*rows)] if axis else [[x for r in rows for x in r]]
        if bits:
            r = []
            for col in cols:
                v = col[0]
                for x in col[1:]:
                    v = bitop(name, v, x, 8 * size(d))
                r.append(v)
            dst.put_ints(0, r)
        else:
            dst.put_f(0, [fold("add" if name == "average" else name, col) for col in cols])
        t.outputs.append(dst)
        out.append(t.json(f"CROSS_LANE_REDUCE {name} axis {axis} {d}->{do}"))
    for k in range(30):
        gen, d = LATER[k % 5], ["u8", "fp16", "i8", "u16", "fp8e5", "fp32", "bf16", "u8"][k % 8]
        channels, n = [32, 64, 96, 128][k // 4 % 4], int(rng.integers(1, 5))
        t = Trial(rng, gen, channels=channels)
        a = t.operand(d, n, 4)
        dst = t.operand(d, n, 4, "dst")
        mask = [int(x) for x in rng.integers(0, 32, 32)] if k % 2 else \
            [int(x) for x in rng.permutation(32)]
        for i in rng.integers(0, 32, 4):
            mask[int(i)] = 255
        t.inst("LOAD_MASK_SELECT", immediate=bytes(mask).hex())
        t.inst("STREAM_SHUFFLE", in_dtype=code(d), out_dtype=code(d), num_active_channels=t.n,
               src=a.pattern(), dst=dst.pattern())
        for c in range(t.n):
            if mask[c % 32] != 255:
                dst.put_ints(c, a.bits(c // 32 * 32 + mask[c % 32]))
        t.outputs.append(dst)
        out.append(t.json(f"STREAM_SHUFFLE {d} {channels}"))
    return out


def tiles(rng):
    """Opcodes that transpose tiles of 32 channels by 32 elements."""
    out = []

    def start(k, d, dims):
        gen = LATER[k % 5]
        channels = 64 if k % 6 == 5 else 32
        n = 64 if k % 4 == 3 else 32
        t = Trial(rng, gen, channels=channels)
        values = calm(own(gen, d))
        a = t.operand(d, n, dims, values=lambda c, m: values(rng, m))
        return t, a, n

    kinds = ["u8", "i8", "fp8e4", "bf16", "u8", "i16", "fp8e5", "fp32"]
    for k in range(24):
        d = kinds[k % 8]
        t, a, n = start(k, d, 4)
        count = n - 32 if n == 64 and k % 8 == 3 else n
        dst = t.operand(d, count, 4, "dst")
        t.inst("STREAM_TRANSPOSE", in_dtype=code(d), out_dtype=code(d), num_active_channels=t.n,
               src=a.pattern(), dst=dst.pattern(), mask_enable=k // 2 % 2)
        for c in range(t.n):
            dst.put(c, tiled(a, c)[:count])
        t.outputs.append(dst)
        out.append(t.json(f"STREAM_TRANSPOSE {d} {t.n} x {n}"))
    for k in range(24):
        d, do = kinds[k % 8], ["u8", "i8", "bf16", "fp8e4"][k // 2 % 4]
        t, a, n = start(k, d, 3)
        op0, op1, rev = GARITH[1 + k % 16], GARITH[(5 * k) % 17], k % 4
        s0, s1 = t.scalar("fp32", register=7), t.scalar("fp32", register=9)
        dst = t.operand(do, n, 3, "dst")
        t.inst("TRANSPOSE_TENSOR_SCALAR_ARITH_OP", in_dtype=code(d), out_dtype=code(do),
               num_active_channels=t.n, src=a.pattern(), dst=dst.pattern(), op0=OPS[op0],
               op1=OPS[op1], reverse_operands=rev, imm0_src=s0[0], imm1_src=s1[0], imm0=s0[1],
               imm1=s1[1])
        for c in range(t.n):
            x = stage(op0, tiled(a, c).astype(f), s0[2][c], rev & 1)
            dst.put_f(c, x if op1 == "bypass" else stage(op1, x, s1[2][c], rev & 2))
        t.outputs.append(dst)
        out.append(t.json(f"TRANSPOSE_TENSOR_SCALAR {op0},{op1} {d}->{do} rev {rev}"))
    for k in range(48):
        bits = k >= 24
        d = ["u8", "u16", "u8", "u32", "i32"][k % 5] if bits else kinds[k % 8]
        t, a, n = start(k, d, 4)
        dims = 1 + k % len(a.nums)
        group = int(np.prod(a.nums[:dims]))
        do = d if bits else (FLOATS + INTS)[k % 12]
        op = GBITVEC[k % 9] if bits else GARITH[k % 17]
        neg = 0 if bits else k % 2
        dst = t.operand(do, n // group, 4, "dst")
        t.inst(f"TRANSPOSE_TENSOR_REDUCE_{'BITVEC' if bits else 'ARITH'}_OP", in_dtype=code(d),
               out_dtype=code(do), num_active_channels=t.n, src=a.pattern(), dst=dst.pattern(),
               op=OPS[op], op_dim=SUBDIM[dims], negated=neg)
        for c in range(t.n):
            x = tiled(a, c)
            if bits:
                r = []
                for g in groups([raw(y) for y in x], group):
                    v = g[0]
                    for y in g[1:]:
                        v = bitop(op, v, y, 8 * size(d))
                    r.append(v)
                dst.put_ints(c, r)
            else:
                r = [fold(op, g) for g in groups(list(x.astype(f)), group)]
                dst.put_f(c, [-y for y in r] if neg else r)
        t.outputs.append(dst)
        out.append(t.json(f"TRANSPOSE_TENSOR_REDUCE {op} {d}->{do} dims {dims} neg {neg}"))
    for k in range(20):
        d, do = kinds[k % 8], ["fp32", "bf16", "fp16"][k % 3]
        t, a, n = start(k, d, 4)
        dst = t.operand(do, 6, 2, "dst")
        counts = [n // 2, 3.5]
        t.inst("TRANSPOSE_BATCH_NORM_STATS2", in_dtype=code(d), out_dtype=code(do),
               num_active_channels=t.n, src=a.pattern(), dst=dst.pattern(),
               even_count=fbits(counts[0]), odd_count=fbits(counts[1]))
        for c in range(t.n):
            dst.put_f(c, stats(tiled(a, c).astype(f), 2, counts))
        t.outputs.append(dst)
        out.append(t.json(f"TRANSPOSE_BATCH_NORM_STATS2 {d}->{do}"))
    return out


def stats(x, lanes, counts, table=None):
    """Running mean and sum of squared deviations in FP32, one rounding per operation."""
    out = []
    for lane in range(lanes):
        mean, m2 = f(0), f(0)
        for n, value in enumerate(x[lane::lanes], 1):
            r = table[n - 1] if table is not None else f(1) / f(n)
            new = f(f(f(1) - r) * mean) + f(r * value)
            m2 = f(m2 + f(f(value - new) * f(value - mean)))
            mean = f(new)
        out += [f(counts[lane]), mean, m2]
    return np.array(out, f)


def batch_norm(rng):
    out = []
    for k in range(48):
        lanes, gen = 2 if k < 24 else 1, LATER[k % 5]
        d, do = (FLOATS + INTS)[k % 12], ["fp32", "bf16", "fp16"][k % 3]
        t = Trial(rng, gen)
        n = int(rng.integers(1, 25)) if k % 12 else 200
        if n == 200:
            t.n = 1
        values = calm(own(gen, d))
        a = t.operand(d, n, 4, values=lambda c, m: values(rng, m), psum=t.chance(4) and n < 50)
        dst = t.operand(do, 3 * lanes, 2, "dst")
        counts = [(n + 1) // 2, n // 2] if lanes == 2 else [n, 0]
        table = None
        if k % 2 == 1:  # other reciprocals in the table
            table = [f(1) / f(i) for i in range(1, 257)]
            at = int(rng.integers(0, 10))
            part = [f(x) for x in rng.uniform(0.1, 1, 8)]
            table[at:at + 8] = part
            t.inst("LOAD_PARAMETER_RAM", param_ram_offset=at,
                   immediate=np.array(part, f).tobytes().hex())
        t.inst("BATCH_NORM_STATS2" if lanes == 2 else "BATCH_NORM_STATS", in_dtype=code(d),
               out_dtype=code(do), num_active_channels=t.n, src=a.pattern(), dst=dst.pattern(),
               even_count=fbits(counts[0]), odd_count=fbits(counts[1]))
        for c in range(t.n):
            dst.put_f(c, stats(a.f(c), lanes, counts, table))
        t.outputs.append(dst)
        out.append(t.json(f"{t.insts[-1]['opcode']} {d}->{do} of {n}"))
    for k in range(18):
        gen, d = LATER[k % 5], ["fp32", "bf16", "fp16"][k % 3]
        t = Trial(rng, gen)
        tuples = int(rng.integers(1, 9))

        def triples(c, m):
            rows = [[int(rng.integers(1, 40)), rng.standard_normal(), abs(rng.standard_normal())]
                    for _ in range(m // 3)]
            return narrow(np.array(rows, f).reshape(-1), d)

        a = t.operand(d, 3 * tuples, 4, values=triples, psum=t.chance(4),
                      nums=[3 * tuples] if k % 2 else [3, tuples],
                      steps=[1] if k % 2 else [1, -4])
        dst = t.operand(d, 2, 2, "dst")
        t.inst("BATCH_NORM_AGGREGATE", in_dtype=code(d), out_dtype=code(d),
               num_active_channels=t.n, src=a.pattern(), dst=dst.pattern())
        for c in range(t.n):
            na, ma, va = f(0), f(0), f(0)
            for n, m, m2 in a.f(c).reshape(-1, 3):
                r = f(1) / f(n + na)
                dd = f(ma - m)
                mean = f(f(f(ma * na) + f(n * m)) * r)
                extra = f(f(f(f(f(n * na) * dd) * dd) * r) * r)
                va = f(f(f(f(va * na) + m2) * r) + extra)
                ma, na = mean, f(na + n)
            dst.put_f(c, [ma, va])
        t.outputs.append(dst)
        out.append(t.json(f"BATCH_NORM_AGGREGATE {d} of {tuples}"))
    sources = ["fp32", "bf16", "fp16", "i32"]
    for k in range(48):
        two, gen = k >= 24, LATER[k % 5]
        d0, d1 = sources[k % 4], sources[k // 4 % 4]
        do, di = ["fp32", "bf16", "fp16"][k % 3], ["fp32", "bf16", "fp16"][k // 3 % 3]
        t = Trial(rng, gen)
        n = int(rng.integers(1, 17))
        x, y = calm(d0), calm(d1)
        a = t.operand(d0, n, 3, values=lambda c, m: x(rng, m), psum=t.chance(4))
        b = t.operand(d1, n, 3, values=lambda c, m: y(rng, m))
        mean = t.operand(di, 1, 1, nums=[1], steps=[1], special=False)
        std = t.operand(di, 1, 1, nums=[1], steps=[1], values=lambda c, m: narrow([0.75 + c], di))
        mean_values = [mean.f(c)[0] for c in range(t.n)]
        dst = t.operand(do, 3, 1, "dst", nums=[3], steps=[1 + k % 2], psum=t.chance(4))
        fields = dict(imm0=mean.addr(), imm1=std.addr(), src0=a.pattern(), src1=b.pattern(),
                      dst=dst.pattern(), in0_in1_dtype=pair(d0, d1), num_active_channels=t.n)
        if two:
            how = [0x11, 0x21, 0x12, 0x22][k % 4]
            fields |= dict(immediate_out_dtype=pair(di, do), imm0_imm1_src=how)
            if how & 15 == 2:
                t.registers["10"] = mean.addr()
                fields["imm0"] = 10
            if how >> 4 == 2:
                t.registers["11"] = std.addr()
                fields["imm1"] = 11
        else:
            fields |= dict(immediate_dtype=0 if di == "fp32" and k % 2 else code(di),
                           out_dtype=code(do))
        t.inst("BATCH_NORM_GRAD_ACCUMULATE" + ("2" if two else ""), **fields)
        for c in range(t.n):
            m, v, r = mean_values[c], std.f(c)[0], [f(0)] * 3
            for p, dy in zip(a.f(c), b.f(c)):
                w = f(f(f(p - m) * dy) * v)
                r = [f(r[0] + dy), f(r[1] + f(w * v)), f(r[2] + w)]
            dst.put_f(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"{t.insts[0]['opcode']} {d0},{d1}->{do} immediates {di}"))
    for k in range(48):
        two, gen = k >= 24, LATER[k % 5]
        dp, di = ["fp32", "bf16", "fp16"][k % 3], ["fp32", "bf16", "fp16"][k // 3 % 3]
        if not two:
            di = "fp32"  # the mean of the first form
        d0, d1, do = ((FLOATS + INTS)[i % 12] for i in (k, 5 * k + 1, 7 * k))
        t = Trial(rng, gen)
        n = int(rng.integers(1, 17))
        count = f(int(rng.integers(1, 100)))
        small = lambda d: (lambda c, m: narrow(rng.standard_normal(m) * 0.5, d))
        par = t.operand(dp, 2 if two else 3, 2, values=small(dp),
                        nums=[2] if two else [3], steps=[[1, 2, -1][k % 3]])
        mean = t.operand(di, 1, 1, nums=[1], steps=[1], values=small(di))
        scale = t.operand(di, 1, 1, nums=[1], steps=[1], values=small(di))
        vx, vy = calm(own(gen, d0)), calm(own(gen, d1))
        x = t.operand(d0, n, 3, values=lambda c, m: vx(rng, m), psum=t.chance(4))
        y = t.operand(d1, n, 3, values=lambda c, m: vy(rng, m))
        dst = t.operand(do, n, 3, "dst", psum=t.chance(4))
        how = [1, 2][k // 2 % 2]
        t.registers |= {"12": mean.addr(), "13": scale.addr()}
        at = lambda o, r: o.addr() if how == 1 else r
        if two:
            t.inst("BATCH_NORM_PARAM_LOAD2", src=par.pattern(), element_count=fbits(count),
                   src_dtype=code(dp), immediate_dtype=code(di), num_active_channels=t.n,
                   imm0_ptr=at(mean, 12), imm1_ptr=at(scale, 13), imm0_src=how, imm1_src=how)
        else:
            t.inst("BATCH_NORM_PARAM_LOAD", src=par.pattern(), imm1=fbits(count), dtype=code(dp),
                   num_active_channels=t.n, imm0_ptr=at(mean, 12), imm0_src=how)
        t.inst("BATCH_NORM_BACK_PROP", in0_in1_dtype=pair(d0, d1), out_dtype=code(do), op=0,
               num_active_channels=t.n, src0=x.pattern(), src1=y.pattern(), dst=dst.pattern())
        for c in range(t.n):
            p = list(par.f(c))
            a, b, cc = (scale.f(c)[0], *p) if two else p
            m = mean.f(c)[0]
            dst.put_f(c, [f(f(f(g * count) - f(f(f(v - m) * cc) + b)) * a)
                          for v, g in zip(x.f(c), y.f(c))])
        t.outputs.append(dst)
        out.append(t.json(f"BATCH_NORM_BACK_PROP {d0},{d1}->{do} {'2' if two else '1'} {dp} {di}"))
    return out


def integers(rng):
    out = []

    def immediate(t, d, how, register, low, high):
        v = int(rng.integers(low, high, dtype=np.int64 if d != "u64" else np.uint64))
        mask = (1 << 8 * size(d)) - 1
        if how == 0:
            return 0, v & mask, [v] * t.n
        p = t.operand(d, 1, 1, nums=[1], steps=[1], values=lambda c, m: [v - c])
        if how == 2:
            t.registers[str(register)] = p.addr()
        return how, (p.addr() if how == 1 else register), [v - c for c in range(t.n)]

    for k in range(60):
        kind, gen = k % 5, LATER[k // 5 % 5]
        t = Trial(rng, gen, "pool")
        n = int(rng.integers(1, 13))
        how = [int(x) for x in rng.integers(0, 3, 2)]
        wide = [(5, 2**31), (5, 2**62), (5, 2**31), (5, 2**40), (5, 2**31)][kind]
        op0, op1, d, do, d0, d1 = [
            ("mult", "add", "i32", "u64", "i32", "u64"),
            ("add", "bypass", "i32", "u64", "u64", "u64"),
            ("mult", ["bypass", "add"][k // 5 % 2], "i32", "i32", "i32", "i32"),
            ("subtract", "lt", "u64", INTS[k % 6], "u64", "u64"),
            ("subtract", "lt", "u32", INTS[k // 2 % 6], "u32", "u32")][kind]
        if op1 == "bypass":
            how[1] = 0
        i0 = immediate(t, d0, how[0], 10, 5, wide[1])
        i1 = immediate(t, d1, how[1], 11, 5, 2**31)
        rev = [0, 1, 2, 3][k // 5 % 4] & (1 if op1 == "bypass" else 3)
        near = lambda c, m: [max(0, i0[2][c] + int(x)) for x in rng.integers(-5, 9, m)]
        a = t.operand(d, n, 2, values=near if kind >= 3 and k % 3 else None)
        dst = t.operand(do, n, 2, "dst")
        t.inst("TENSOR_SCALAR_ADDR", src=a.pattern(), imm0=i0[1], imm1=i1[1],
               imm0_imm1_dtype=pair(d0, d1), in_out_dtype=pair(d, do), imm0_is_ptr=i0[0],
               imm1_is_ptr=i1[0], op0=OPS[op0], op1=OPS[op1], num_active_channels=t.n,
               reverse_operands=rev, dst=dst.pattern())
        w = 1 << 8 * size(d if op0 == "subtract" else do)
        for c in range(t.n):
            r = []
            for x in a.ints(c):
                s = i0[2][c]
                u = {"mult": x * s, "add": x + s,
                     "subtract": (s - x if rev & 1 else x - s) % w}[op0]
                s = i1[2][c]
                r.append({"add": u + s, "bypass": u,
                          "lt": int(s < u if rev & 2 else u < s)}[op1])
            dst.put_ints(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"TENSOR_SCALAR_ADDR {op0},{op1} {d}->{do} {how} rev {rev}"))

    wide_ops = ["add_int", "sub_int", "mult_int", "mult_uint", "asl", "lsl", "asr", "lsr"]
    for k in range(48):
        form, op = k % 2, wide_ops[k // 2 % 8]
        shift = op in ("asl", "lsl", "asr", "lsr")
        # a scalar has the sign of the tensor, and counts have none
        signed = op == "mult_int" or shift and k % 3 == 0 and not form
        names = ["i8", "i16", "i32"] if signed else ["u8", "u16", "u32"]
        d = names[int(rng.integers(0, 3))]
        d1 = (["u8", "u16", "u32"] if shift else names)[int(rng.integers(0, 3))]
        t = Trial(rng, "v5", "dve" if form else "pool")
        n = int(rng.integers(1, 13))
        a = t.operand(d, n, 2)
        counts = (lambda c, m: rng.integers(0, 32, m)) if shift else None
        do0 = names[2] if not shift else ["u32", "i32"][k % 2]
        do1 = names[2]
        fields = dict(out0_out1_dtype=pair(do0, do1), op=OPS[op], num_active_channels=t.n)
        if form:
            if k // 16 % 2:
                v = int(counts(0, 1)[0]) if shift else raw(draw(rng, d1, 1))
                fields |= dict(imm_src=0, imm=v)
                v = int(np.array([v]).astype(np.uint32).view(np.int32)[0]) if d1 == "i32" else v
                v = v - (1 << 8 * size(d1)) if d1[0] == "i" and v >> (8 * size(d1) - 1) == 1 \
                    else v
                ys = [[v] * n] * t.n
            else:
                b = t.operand(d1, 1, 1, nums=[1], steps=[1], values=counts)
                fields |= dict(imm_src=1, imm=b.addr())
                ys = [b.ints(c) * n for c in range(t.n)]
            fields |= dict(in_imm_dtype=pair(d, d1), src=a.pattern())
        else:
            b = t.operand(d1, n, 2, values=counts)
            ys = [b.ints(c) for c in range(t.n)]
            fields |= dict(in0_in1_dtype=pair(d, d1), src0=a.pattern(), src1=b.pattern())
        lo, hi = t.operand(do0, n, 2, "dst"), t.operand(do1, n, 2, "dst")
        t.inst("TENSOR_SCALAR_INT_WIDE" if form else "TENSOR_TENSOR_INT_WIDE",
               **fields, dst0=lo.pattern(), dst1=hi.pattern())
        m = 2**64 - 1
        for c in range(t.n):
            full = [{"add": lambda: x + y, "sub": lambda: x - y, "mult": lambda: x * y,
                     "asl": lambda: x << y, "lsl": lambda: x << y, "asr": lambda: x >> y,
                     "lsr": lambda: (x & m) >> y}[op.split("_")[0]]() & m
                    for x, y in zip(a.ints(c), ys[c])]
            lo.put_ints(c, [v & 0xFFFFFFFF for v in full])
            hi.put_ints(c, [v >> 32 for v in full])
        t.outputs += [lo, hi]
        out.append(t.json(f"INT_WIDE {form} {op} {d},{d1}->{do0},{do1}"))
    for k in range(24):
        gen, op = ["v3", "v4", "v4plus"][k % 3], ["add", "mult"][k // 3 % 2]
        names = FLOATS + INTS
        d0, d1, do = names[k % 12], names[(5 * k + 2) % 12], names[(7 * k + 1) % 12]
        t = Trial(rng, gen, "pool", channels=16)
        t.sources = t.target = 0
        n = int(rng.integers(1, 5))
        a, b = t.operand(d0, n, 2), t.operand(d1, n, 2)
        dst = t.operand(do, n, 2, "dst")
        t.inst("EXTENDED_INST", extended_opcode=2, completion_info=0b1101,
               in0_in1_dtype=pair(d0, d1), out_dtype=code(do), op=OPS[op], src0=a.pattern(),
               src1=b.pattern(), dst=dst.pattern())
        for c in range(16):
            dst.put_f(c, f32ops(op, a.f(c), b.f(c)))
        t.outputs.append(dst)
        out.append(t.json(f"EXTENDED_INST spec 2 {op} {d0},{d1}->{do}"))
    return out


def loaded(rng):
    """Operands loaded ahead: scalars, the gather buffer, search values."""
    out = []
    for k in range(96):
        dual, bits = k >= 72, k % 2 == 1 and k < 72
        gen = "v2" if dual else LATER[k // 2 % 5]
        t = Trial(rng, gen)
        width = int(rng.integers(1, 5 if dual else 9))
        kinds = ["u8", "u16", "u32", "i32"] if bits else FLOATS + INTS
        d = kinds[k // 2 % len(kinds)]
        ds = d if bits else kinds[(5 * k) % 12]
        do = d if bits else kinds[(7 * k + 1) % 12]
        rev = [0, 3][k // 4 % 2] if not dual else k % 4
        ops = GBITVEC if bits else [o for o in GARITH if o != "bypass"]
        op = ops[(k // 2 if not dual else k) % len(ops)]
        count = 8 if dual else width
        s = t.operand(ds, count, 2, nums=[count] if count == 1 or k % 3 else shapes(rng, count, 2))
        inner = [int(x) for x in rng.integers(1, 4, 3)]
        a = t.operand(d, 0, 4, nums=inner + [width], psum=t.chance(4))
        dst = t.operand(do, a.len, 4, "dst", nums=inner + [width], psum=t.chance(4))
        t.inst(f"TENSOR_SCALAR_IMM_LD_{'BITVEC' if bits else 'ARITH'}", src=s.pattern(),
               dtype=code(ds), num_active_channels=t.n)
        t.inst(f"TENSOR_SCALAR_PTR_MULTI_{'DUAL_' if dual else ''}{'BITVEC' if bits else 'ARITH'}",
               src=a.pattern(), in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
               op=OPS[op], op_dim=4, reverse_operands=rev, dst=dst.pattern())
        for c in range(t.n):
            flops = s.bits(c) if bits else list(s.f(c))
            r = []
            for w, g in enumerate(groups(a.bits(c) if bits else list(a.f(c)), a.len // width)):
                for x in g:
                    y = flops[w]
                    if bits:
                        r.append(bitop(op, y, x, 8 * size(d)) if rev else
                                 bitop(op, x, y, 8 * size(d)))
                        continue
                    u = f32op(op, y, x) if rev & 1 else f32op(op, x, y)
                    r.append(f32op("mult", u, flops[4 + w]) if dual else u)
            dst.put_ints(c, r) if bits else dst.put_f(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"{t.insts[1]['opcode']} {op} {ds} {d}->{do} rev {rev} of {width}"))
    for k in range(40):
        gen = LATER[k % 5]
        d = ["fp16", "bf16", "u8", "u16", "fp32", "u32", "i32"][k % 7]
        di = ["u8", "u16", "u32"][k // 2 % 3]
        t = Trial(rng, gen, "pool")
        bits = int(rng.integers(1, 5))
        mask, start = (1 << bits) - 1, int(rng.integers(0, 8)) << bits
        held = int(rng.integers(1, mask + 2))
        table = t.operand(d, held, 4)
        n, miss = int(rng.integers(1, 13)), k // 3 % 2

        def index(c, m):
            return [max(0, start + int(x)) for x in rng.integers(-2, mask + 4, m)]

        at = t.operand(di, n, 4, values=index)
        dst = t.operand(d, n, 4, "dst")
        fill = raw(draw(rng, d, 1)) if miss == 0 else 0
        t.inst("POOL_BUFFER_LOAD", src=table.pattern(), in_dtype=code(d), num_active_channels=t.n,
               start_index=start, mask=mask)
        t.inst("GATHER", src=at.pattern(), in_dtype=code(di), out_dtype=code(d),
               num_active_channels=t.n, index_miss_behavior=miss, free_pool_buffer=k % 2,
               immediate=fill, dst=dst.pattern())
        for c in range(t.n):
            values, held_bits, hit = [], table.bits(c), []
            for i in at.ints(c):
                ok = i & ~mask == start and i & mask < held
                values.append(held_bits[i & mask] if ok else fill)
                hit.append(ok or miss == 0)
            dst.put_ints(c, values, hit)
        t.outputs.append(dst)
        out.append(t.json(f"GATHER {di} of {d} miss {miss}"))
    for k in range(24):
        gen, d = LATER[1 + k % 4], FLOATS[k % 3]
        do, di = ["fp32", "bf16"][k % 2], ["u16", "u32"][k // 2 % 2]
        t = Trial(rng, gen)
        n = int(rng.integers(8, 20))
        pool = lambda c, m: narrow(rng.integers(0, 10, m), d)
        values = t.operand(d, 8, 2, values=pool, nums=[8], steps=[[1, 2, -1][k % 3]])
        a = t.operand(d, n, 4, values=pool)
        dst = t.operand(do, n, 4, "dst")
        places = t.operand(di, 8, 4, "dst", nums=[8], steps=[1 + k % 2])
        t.inst("MATCH_VALUE_LOAD", src=values.pattern(), dtype=code(d), num_active_channels=t.n)
        t.inst("MATCH_REPLACE8", src=a.pattern(), in_dtype=code(d), out_dtype=code(do),
               num_active_channels=t.n, dst=dst.pattern())
        t.inst("DVE_READ_INDICES", dtype=code(di), num_active_channels=t.n, dst_element_count=8,
               dst=places.pattern())
        for c in range(t.n):
            keys = list(values.f(c))[::-1]
            found, r = [None] * 8, []
            for i, x in enumerate(a.f(c)):
                which = next((j for j in range(8) if found[j] is None and keys[j] == x), None)
                if which is not None:
                    found[which] = i
                r.append(x if which is None else f(0))
            dst.put_f(c, r)
            places.put_ints(c, [0xFFFFFFFF if p is None else p for p in found])
        t.outputs += [dst, places]
        out.append(t.json(f"DVE_READ_INDICES {d} as {di}"))
    return out


def overlap(rng):
    """Results over their own sources: a channel reads everything before it writes."""
    out = []

    def over(t, a, count, shift):
        """`count` elements one after the other over the row of `a`, from element `shift` on."""
        dst = copy.copy(a)
        dst.nums, dst.steps, dst.len, dst.at = [count], [1], count, shift
        return dst

    for k in range(60):
        gen, kind = LATER[k % 5], k % 6
        d = (FLOATS + INTS)[(5 * k) % 12]
        t = Trial(rng, gen)
        t.target = t.sources
        n = int(rng.integers(4, 17))
        a = t.operand(d, n, 3 if kind != 2 else 2, "both", dense=k // 6 % 2 == 0)
        room = len(t.mem[a.key(0)]) // size(a.d)
        exact = k // 6 % 3 == 0 and kind != 5
        if exact:
            dst = a
        else:
            count = n if kind != 5 else n // a.nums[0]
            dst = over(t, a, count, int(rng.integers(0, room - count + 1)))
        if kind in (0, 2):
            b = t.operand(d, n, 2)
        s = t.scalar("fp32")
        op = GARITH[1 + k % 16]
        common = dict(num_active_channels=t.n, dst=dst.pattern())
        types1 = dict(in_dtype=code(d), out_dtype=code(d))
        if kind == 0:
            t.inst("TENSOR_TENSOR_ARITH_OP", in0_in1_dtype=pair(d, d), out_dtype=code(d),
                   op=OPS[op], src0=a.pattern(), src1=b.pattern(), **common)
            results = [f32ops(op, a.f(c), b.f(c)) for c in range(t.n)]
        elif kind == 1:
            t.inst("TENSOR_SCALAR_ARITH_OP", op0=OPS[op], op1=0, imm0_src=s[0], imm0=s[1],
                   src=a.pattern(), **types1, **common)
            results = [stage(op, a.f(c), s[2][c], 0) for c in range(t.n)]
        elif kind == 2:
            t.inst("SCALAR_TENSOR_TENSOR_ARITH", in0_in1_dtype=pair(d, d), out_dtype=code(d),
                   op0=OPS[op], op1=OPS["max"], imm0_src=s[0], imm0=s[1],
                   imm0_dtype=code("fp32"), src0=a.pattern(), src1=b.pattern(), **common)
            results = [f32ops("max", stage(op, a.f(c), s[2][c], 0), b.f(c)) for c in range(t.n)]
        elif kind == 3:
            t.inst("COPY", src=a.pattern(), **types1, **common)
            results = None
            bits = [a.bits(c) for c in range(t.n)]
        elif kind == 4:
            t.inst("TENSOR_CUMULATIVE_ARITH_OP", op=OPS[op], op_dim=5, src=a.pattern(), **types1,
                   **common)
            results = []
            for c in range(t.n):
                r = []
                for x in a.f(c):
                    r.append(f32op(op, r[-1], x) if r else x)
                results.append(r)
        else:
            t.inst("TENSOR_REDUCE_ARITH_OP", op=OPS[op], op_dim=2, src=a.pattern(), **types1,
                   **common)
            results = [[fold(op, g) for g in groups(list(a.f(c)), a.nums[0])]
                       for c in range(t.n)]
        for c in range(t.n):
            dst.put_ints(c, bits[c]) if results is None else dst.put_f(c, results[c])
        t.outputs.append(dst)
        out.append(t.json(f"{t.insts[0]['opcode']} {op} {d} over its source"))
    return out


DATA = {"sweep_copies": copies, "sweep_generate": generate, "sweep_predicated": predicated,
        "sweep_pooling": pooling, "sweep_cross_channel": cross_channel, "sweep_tiles": tiles,
        "sweep_batch_norm": batch_norm, "sweep_integers": integers, "sweep_loaded": loaded,
        "sweep_overlap": overlap}
