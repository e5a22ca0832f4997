"""Oracle cases of the remaining vector opcodes: generators, selects, pooling, accumulators, batch
norm, cross-channel and wide integers."""

import numpy as np

import vector as v
from vector_numbers import *  # noqa: F403
from vector_numbers import DTYPES, GBITVEC, OPS, bitop, code, f32op, f32ops, fix, narrow, pair, size


def generator(rng):
    base = int(rng.integers(-50, 50))
    steps = [int(x) for x in rng.integers(-9, 9, 3)]
    return {"base": base & 0xFFFFFFFF, "steps": steps, "nums": [3, 2, 2]}, base, steps


def gen_values(base, steps, mult, c):
    out = []
    for z in range(2):
        for y in range(2):
            for x in range(3):
                out.append(base + mult * c + steps[0] * x + steps[1] * y + steps[2] * z)
    return out


def generate(rng):
    out = []
    for d in ["fp32", "bf16", "fp16", "i32", "u32", "i16", "u8", "i8"]:
        c = v.Case(rng, "IOTA", engine="pool", channels=3)
        dst = c.tensor(d, [4, 3], fill=False)
        c.start()
        g, base, steps = generator(rng)
        mult = int(rng.integers(-20, 20))
        c.inst(out_dtype=code(d), num_active_channels=3, src_data=g, dst=dst.pattern(),
               channel_multiplier=mult & 0xFFFFFFFF)
        for ch in range(3):
            values = gen_values(base, steps, mult, ch)
            if v.is_int(d):
                dst.put_ints(ch, values)
            else:
                dst.put_f(ch, np.array(values, np.float32))
        c.expect(dst)
        out.append(c.json(f"IOTA {d}"))
    for mode, cmp in enumerate(["gt", "ge", "eq", "ne"]):
        for d, do in [("fp32", "fp32"), ("bf16", "fp32"), ("i8", "fp16")]:
            c = v.Case(rng, "TENSOR_SCALAR_AFFINE_SELECT", engine="pool", channels=3)
            a = c.tensor(d, [4, 3])
            dst = c.tensor(do, [6, 2], fill=False)
            c.start()
            g, base, steps = generator(rng)
            mult = int(rng.integers(-20, 20))
            fill = np.float32(-3.5e38) if mode == 0 else np.float32(rng.standard_normal())
            c.registers["5"] = int(fill.view(np.uint32))
            c.inst(num_active_channels=3, in_out_dtype=pair(d, do), fill_mode=mode, fill_reg=5,
                   mask=g, src=a.pattern(), dst=dst.pattern(),
                   channel_multiplier=mult & 0xFFFFFFFF)
            for ch in range(3):
                m = gen_values(base, steps, mult, ch)
                keep = [{"gt": x > 0, "ge": x >= 0, "eq": x == 0, "ne": x != 0}[cmp] for x in m]
                dst.put_f(ch, np.where(keep, a.f(ch), fill))
            c.expect(dst)
            out.append(c.json(f"AFFINE_SELECT {cmp} {d}->{do}"))
    # The causal mask of the page: base 0, column step -1, multiplier +1, GE keeps column <= row.
    c = v.Case(rng, "TENSOR_SCALAR_AFFINE_SELECT", engine="pool", channels=8)
    a = c.tensor("fp32", [8])
    dst = c.tensor("fp32", [8], fill=False)
    c.start()
    c.registers["5"] = 0xFF800000
    c.inst(num_active_channels=8, in_out_dtype=pair("fp32", "fp32"), fill_mode=1, fill_reg=5,
           mask={"base": 0, "steps": [-1], "nums": [8]}, src=a.pattern(), dst=dst.pattern(),
           channel_multiplier=1)
    for ch in range(8):
        dst.put_f(ch, np.where(np.arange(8) <= ch, a.f(ch), -np.inf))
    c.expect(dst)
    out.append(c.json("AFFINE_SELECT causal mask"))
    return out


def accumulate(c, cmd, start, loaded):
    """Starting value of each channel for an accumulator command."""
    return {2: start, 3: None, 4: loaded}[cmd]


RESET = {"add": 0.0, "subtract": 0.0, "mult": 1.0, "max": -np.inf, "min": np.inf}


def accumulators(rng):
    out = []

    def read(c, acc, d="fp32", negated=0):
        dst = c.tensor(d, [1], [1], fill=False)
        c.before.update({(c.first + ch, dst.base): bytes(dst.row(ch)) for ch in range(c.n)})
        op, c.op = c.op, "DVE_READ_ACCUMULATOR"
        c.inst(dst_element_count=1, dtype=code(d), negated=negated, num_active_channels=c.n,
               dst=dst.pattern())
        c.op = op
        for ch in range(c.n):
            dst.put_f(ch, fix([-acc[ch] if negated else acc[ch]]))
        c.expect(dst)

    def cached(opcode, op0, op1, d, do, cmds):
        c = v.Case(rng, opcode)
        a = c.tensor(d, [4, 3])
        s = v.scalar(c, "fp32", int(rng.integers(0, 3)), 4)
        dst = c.tensor(do, [12], fill=False)
        c.start()
        acc = [np.float32(0)] * c.n
        for cmd in cmds:
            load = np.float32(rng.standard_normal())
            c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, op0=OPS[op0],
                   op1=OPS[op1], accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1], imm1_src=0,
                   imm1=int(load.view(np.uint32)) if cmd == 4 else 0, src=a.pattern(),
                   dst=dst.pattern())
            for ch in range(c.n):
                r = {2: acc[ch], 3: np.float32(RESET[op1]), 4: load}[cmd]
                el, run = f32ops(op0, a.f(ch), [s[2][ch]] * 12), []
                for x in el:
                    r = f32op(op1, x, r)
                    run.append(r)
                acc[ch] = r
                dst.put_f(ch, run if "CUMULATIVE" in opcode else el)
        c.expect(dst)
        read(c, acc, negated=len(cmds) % 2)
        out.append(c.json(f"{opcode} {op0},{op1} {d}->{do} {cmds}"))

    for opcode in ["TENSOR_SCALAR_CACHE_REDUCE", "TENSOR_SCALAR_CACHE_CUMULATIVE"]:
        for op1 in RESET:
            for cmds in [[3], [4, 2], [3, 2, 2], [2]]:
                cached(opcode, ["add", "mult", "max", "subtract"][int(rng.integers(0, 4))], op1,
                       ["fp32", "bf16", "i16"][int(rng.integers(0, 3))],
                       ["fp32", "bf16"][int(rng.integers(0, 2))], cmds)

    def stt(op0, op1, d0, d1, do, how, rev, cmds):
        c = v.Case(rng, "SCALAR_TENSOR_TENSOR_ARITH")
        a, b = c.tensor(d0, [4, 3]), c.tensor(d1, [4, 3])
        s = v.scalar(c, "fp32", how, 4)
        dst = c.tensor(do, [12], fill=False)
        c.start()
        acc = [np.float32(0)] * c.n
        for cmd in cmds:
            c.inst(in0_in1_dtype=pair(d0, d1), out_dtype=code(do), num_active_channels=c.n,
                   op0=OPS[op0], op1=OPS[op1], reverse_operands=rev, accumulator_cmd=cmd,
                   imm0_src=s[0], imm0=s[1], imm0_dtype=code("fp32"), src0=a.pattern(),
                   src1=b.pattern(), dst=dst.pattern())
            for ch in range(c.n):
                t = [s[2][ch]] * 12
                u = f32ops(op0, t, a.f(ch)) if rev & 1 else f32ops(op0, a.f(ch), t)
                r = f32ops(op1, b.f(ch), u) if rev & 2 else f32ops(op1, u, b.f(ch))
                dst.put_f(ch, r)
                if cmd:
                    total = acc[ch] if cmd == 2 else np.float32(0)
                    for x in r:
                        total = f32op("add", total, x)
                    acc[ch] = total
        c.expect(dst)
        if any(cmds):
            read(c, acc)
        out.append(c.json(f"SCALAR_TENSOR_TENSOR {op0},{op1} {d0},{d1}->{do} {how} {rev} {cmds}"))

    for k, op0 in enumerate(["add", "subtract", "mult", "max", "bypass", "gt"]):
        for rev in range(4):
            stt(op0, ["subtract", "mult", "min", "bypass"][(k + rev) % 4],
                ["fp32", "bf16", "i32"][k % 3], ["bf16", "fp32"][rev % 2], ["fp32", "fp16"][k % 2],
                (k + rev) % 3, rev, [[0], [3], [3, 2]][k % 3])
    for k, op0 in enumerate(GBITVEC):
        d = ["u8", "u16", "i32", "u32"][k % 4]
        rev = k % 4
        op1 = ["xor", "and", "or"][k % 3]
        c = v.Case(rng, "SCALAR_TENSOR_TENSOR_BITVEC")
        a, b = c.tensor(d, [4, 3]), c.tensor(d, [4, 3])
        s = v.scalar(c, d, k % 3, 4)
        dst = c.tensor(d, [12], fill=False)
        c.start()
        c.inst(in0_in1_dtype=pair(d, d), out_dtype=code(d), num_active_channels=c.n, op0=OPS[op0],
               op1=OPS[op1], reverse_operands=rev, imm0_src=s[0], imm0=s[1], imm0_dtype=code(d),
               src0=a.pattern(), src1=b.pattern(), dst=dst.pattern())
        w = 8 * size(d)
        for ch in range(c.n):
            t = int.from_bytes(np.asarray(s[2][ch]).tobytes(), "little")
            u = [bitop(op0, t, x, w) if rev & 1 else bitop(op0, x, t, w) for x in a.bits(ch)]
            r = [bitop(op1, y, x, w) if rev & 2 else bitop(op1, x, y, w)
                 for x, y in zip(u, b.bits(ch))]
            dst.put_ints(ch, r)
        c.expect(dst)
        out.append(c.json(f"SCALAR_TENSOR_TENSOR_BITVEC {op0},{op1} {d} {rev}"))

    def maximum(c, acc, cmd, ch, r):
        if cmd:
            t = acc[ch] if cmd == 2 else np.float32(-np.inf)
            for x in r:
                t = f32op("max", t, x)
            acc[ch] = t

    for k in range(9):
        dp, d, do = ["u8", "i32", "u16"][k % 3], ["fp32", "bf16", "fp16"][k // 3], ["fp32", "bf16"][k % 2]
        cmds = [[0], [3], [3, 2]][k % 3]
        c = v.Case(rng, "SELECT_REDUCE")
        p = c.tensor(dp, [4, 3], values=lambda ch, n: rng.integers(0, 2, n) * 3)
        a = c.tensor(d, [12])
        s = v.scalar(c, "fp32", k % 3, 4)
        dst = c.tensor(do, [6, 2], fill=False)
        c.start()
        acc = [np.float32(0)] * c.n
        for cmd in cmds:
            c.inst(in0_in1_dtype=pair(dp, d), out_dtype=code(do), num_active_channels=c.n,
                   op0=OPS["bypass"], op1=OPS["max"], reverse_operands=k % 2, accumulator_cmd=cmd,
                   imm0_src=s[0], imm0=s[1], imm0_dtype=code("fp32"), src0=p.pattern(),
                   src1=a.pattern(), dst=dst.pattern())
            for ch in range(c.n):
                keep = [(x != 0) != (k % 2 == 1) for x in p.ints(ch)]
                r = np.where(keep, a.f(ch), s[2][ch])
                dst.put_f(ch, r)
                maximum(c, acc, cmd, ch, r)
        c.expect(dst)
        if any(cmds):
            read(c, acc)
        out.append(c.json(f"SELECT_REDUCE {dp},{d}->{do} {cmds}"))
    cmps = ["eq", "gt", "ge", "le", "lt"]
    for k in range(10):
        d, do = ["fp32", "bf16"][k % 2], ["fp32", "fp16", "bf16"][k % 3]
        cmd = [0, 3][k % 2]
        c = v.Case(rng, "RANGE_SELECT")
        a = c.tensor(d, [6, 2])
        low = v.scalar(c, "fp32", 0, 4)
        high = c.tensor("fp32", [1], [1], values=lambda ch, n: [106.0 + ch])
        dst = c.tensor(do, [12], fill=False)
        c.start()
        base, low = np.float32(100), np.float32(103)
        ops = ["ge", "gt", "eq", "ne", "le"][k % 5], cmps[(k + 4) % 5]
        ops = (cmps[k % 5], ops[1])
        c.inst(num_active_channels=c.n, in_out_dtype=pair(d, do), reduce_cmd=cmd,
               reduce_op=OPS["max"], base=int(base.view(np.uint32)), fill_val=0xFF7FFFFF,
               src=a.pattern(), comp_op0=OPS[ops[0]], comp_op1=OPS[ops[1]], bound0_src=0,
               bound1_src=1, bound0=int(low.view(np.uint32)), bound1=high.addr(),
               dst=dst.pattern())
        acc = [np.float32(0)] * c.n
        for ch in range(c.n):
            idx = [base + np.float32(i) for i in range(12)]
            keep = [f32op(ops[0], i, low) and f32op(ops[1], i, high.f(ch)[0]) for i in idx]
            fill = np.uint32(0xFF7FFFFF).view(np.float32)
            r = np.where(np.array(keep, bool), a.f(ch), fill)
            dst.put_f(ch, r)
            maximum(c, acc, cmd, ch, r)
        c.expect(dst)
        if cmd:
            read(c, acc)
        out.append(c.json(f"RANGE_SELECT {ops} {d}->{do} {cmd}"))
    for cmds in [[0], [3], [3, 2], [4]]:
        c = v.Case(rng, "EXPONENTIAL", gen="v4")
        a = c.tensor("fp32", [12])
        s = v.scalar(c, "fp32", 1, 4)
        dst = c.tensor("fp32", [12], fill=False)
        c.start()
        c.ulp = 1
        acc = [np.float32(0)] * c.n
        for cmd in cmds:
            load = np.float32(2.5) if cmd == 4 else np.float32(0)
            c.inst(in_dtype=code("fp32"), out_dtype=code("fp32"), num_active_channels=c.n, op0=0,
                   op1=0, accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1], imm1_src=0,
                   imm1=int(load.view(np.uint32)), src=a.pattern(), dst=dst.pattern())
            for ch in range(c.n):
                r = np.exp((a.f(ch) - s[2][ch]).astype(np.float64)).astype(np.float32)
                dst.put_f(ch, r)
                if cmd:
                    t = {2: acc[ch], 3: np.float32(0), 4: load}[cmd]
                    for x in r:
                        t = f32op("add", t, x)
                    acc[ch] = t
        c.expect(dst)
        if any(cmds):
            read(c, acc)
        out.append(c.json(f"EXPONENTIAL {cmds}"))
    return out


def predicated(rng):
    out = []
    for k in range(12):
        dp = ["u8", "i16", "u32"][k % 3]
        d, do = [("fp32", "fp32"), ("bf16", "bf16"), ("i8", "i8"), ("fp32", "bf16"),
                 ("i16", "fp16"), ("u8", "i32")][k % 6]
        opcode = "COPY_PREDICATED" if d == do and k < 6 else "CAST_PREDICATED"
        c = v.Case(rng, opcode)
        p = c.tensor(dp, [4, 3], values=lambda ch, n: rng.integers(0, 2, n) * 2)
        a, dst = c.tensor(d, [12]), c.tensor(do, [6, 2])
        c.start()
        c.inst(in0_in1_dtype=pair(dp, d), out_dtype=code(do), num_active_channels=c.n,
               src0=p.pattern(), src1=a.pattern(), dst=dst.pattern(), op=0)
        for ch in range(c.n):
            keep = [x != 0 for x in p.ints(ch)]
            value = a.get(ch) if d == do else narrow(a.f(ch), do)
            dst.put(ch, value, keep)
        c.expect(dst)
        out.append(c.json(f"{opcode} {dp},{d}->{do}"))
    for k in range(6):
        d, rev = ["fp32", "bf16", "u8"][k % 3], k % 2
        c = v.Case(rng, "COPY_PREDICATED_SCALAR")
        p = c.tensor("u16", [12], values=lambda ch, n: rng.integers(0, 2, n) * 9)
        s = v.scalar(c, d, k % 3, 4)
        dst = c.tensor(d, [4, 3])
        c.start()
        c.inst(pred=p.pattern(), pred_dtype=code("u16"), reversed_pred=rev,
               num_active_channels=c.n, in_dtype=code(d), out_dtype=code(d), src0_imm_src=s[0],
               src0_imm=s[1], dst=dst.pattern())
        for ch in range(c.n):
            keep = [(x != 0) == (rev != 0) for x in p.ints(ch)]
            dst.put(ch, np.array([s[2][ch]] * 12), keep)
        c.expect(dst)
        out.append(c.json(f"COPY_PREDICATED_SCALAR {d} reversed {rev}"))
    for k in range(8):
        d, dp = [("fp32", "u32"), ("bf16", "u16"), ("u8", "i8"), ("i32", "i32")][k % 4]
        rev, how = k // 4, [0, 1][k % 2]
        c = v.Case(rng, "TENSOR_SCALAR_SELECT")
        a = c.tensor(d, [4, 3])
        s = v.scalar(c, d, (k + 1) % 3, 4)
        if how:
            t = c.tensor(dp, [1], [1], values=lambda ch, n: [ch])
            ps = (1, t.addr(), [0, 1])
        else:
            ps = (0, k // 2 % 2, [k // 2 % 2] * 2)
        dst = c.tensor(d, [12], fill=False)
        c.start()
        c.inst(src0=a.pattern(), reversed_pred=rev, num_active_channels=c.n, dtype=code(d),
               pred_imm_dtype=code(dp), src1_imm_src=s[0], pred_imm_src=ps[0], src1_imm=s[1],
               pred_imm=ps[1], dst=dst.pattern())
        for ch in range(c.n):
            take = (ps[2][ch] != 0) != (rev != 0)
            dst.put(ch, a.get(ch) if take else np.array([s[2][ch]] * 12))
        c.expect(dst)
        out.append(c.json(f"TENSOR_SCALAR_SELECT {d} reversed {rev} pred {ps[2]}"))
    return out


def pooling(rng):
    out = []
    for k in range(8):
        d, do = ["fp32", "bf16", "u8", "i32", "i64"][k % 5], ["fp32", "bf16", "u8"][k % 3]
        func = 1 + k % 2
        c = v.Case(rng, "POOL", engine="pool")
        # A 3 x 4 map, windows of 2 x 2 that overlap along rows.
        c.region = 96
        values = lambda ch, n: np.arange(n) if d == "i64" else v.draw(rng, d, n)
        a = c.tensor(d, [12], [1], values=values)
        dst = c.tensor(do, [6], fill=False)
        c.start()
        scale = np.float32(0.25 if func == 2 else 1.0)
        steps, nums = [1, 4, 1, 4], [2, 2, 3, 2]
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, pool_func=func,
               pool_dim=3, pool_scale=int(scale.view(np.uint32)), dst=dst.pattern(),
               src={"addr": a.addr(), "steps": steps, "nums": nums})
        for ch in range(c.n):
            x = [a.f(ch)[o] for o in v.offsets(steps, nums)]
            r = []
            for g in v.groups(x, 4):
                t = v.fold("max" if func == 1 else "add", g)
                r.append(t if func == 1 else f32op("mult", t, scale))
            dst.put_f(ch, r)
        c.expect(dst)
        out.append(c.json(f"POOL {'MAX' if func == 1 else 'AVG'} {d}->{do}"))
    for do in ["u8", "u16", "u32"]:
        c = v.Case(rng, "MAX_POOL_SELECT")
        a = c.tensor("fp32", [4, 3])
        dst = c.tensor(do, [3], fill=False)
        c.start()
        c.inst(in_dtype=code("fp32"), out_dtype=code(do), num_active_channels=c.n, pool_func=0,
               pool_dim=2, pool_scale=0x3F800000, src=a.pattern(), dst=dst.pattern())
        for ch in range(c.n):
            dst.put_ints(ch, [int(np.argmax(g)) for g in v.groups(list(a.f(ch)), 4)])
        c.expect(dst)
        out.append(c.json(f"MAX_POOL_SELECT {do}"))
    return out


def cross_channel(rng):
    out = []
    for op, name in enumerate(["add", "average", "max", "or", "and", "xor"]):
        for axis in (0, 1):
            bits = op >= 3
            d, do = (("u16", "u16") if axis else ("u8", "u8")) if bits else \
                [("fp32", "fp32"), ("bf16", "fp32"), ("i16", "bf16")][(op + axis) % 3]
            c = v.Case(rng, f"CROSS_LANE_REDUCE_{'BITVEC' if bits else 'ARITH'}", engine="pool",
                       channels=5)
            a = c.tensor(d, [3, 2])
            dst = c.tensor(do, [6] if axis else [1], channels=1, fill=False)
            c.start()
            scale = np.float32(0.3)
            c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=5, reduce_op=op,
                   reduce_axis=axis, scale=int(scale.view(np.uint32)), src=a.pattern(),
                   dst=dst.pattern())
            rows = []
            for ch in range(5):
                x = a.bits(ch) if bits else list(a.f(ch))
                rows.append(f32ops("mult", x, [scale] * 6) if name == "average" else x)
            cols = [list(col) for col in zip(*rows)] if axis else [[x for r in rows for x in r]]
            if bits:
                r = []
                for col in cols:
                    t = col[0]
                    for x in col[1:]:
                        t = bitop(name, t, x, 8 * size(d))
                    r.append(t)
                dst.put_ints(0, r)
            else:
                dst.put_f(0, [v.fold("add" if name == "average" else name, col) for col in cols])
            c.expect(dst)
            out.append(c.json(f"CROSS_LANE_REDUCE {name} axis {axis} {d}->{do}"))

    def block(opcode, d, do, count, channels, run, region, **fields):
        c = v.Case(rng, opcode, channels=channels, region=region)
        a = c.tensor(d, [32], [1])
        dst = c.tensor(do, [count], [1])
        c.start()
        run(c, a, dst, fields)
        c.expect(dst)
        out.append(c.json(f"{opcode} {d}->{do}"))

    def transposed(a, ch):
        return np.concatenate([a.get(32 * (ch // 32) + e)[ch % 32:ch % 32 + 1] for e in range(32)])

    def transpose(c, a, dst, fields):
        c.inst(in_dtype=code(a.d), out_dtype=code(dst.d), num_active_channels=c.n,
               src=a.pattern(), dst=dst.pattern())
        for ch in range(c.n):
            dst.put(ch, transposed(a, ch))

    block("STREAM_TRANSPOSE", "u8", "u8", 32, 64, transpose, 32)
    block("STREAM_TRANSPOSE", "bf16", "bf16", 32, 32, transpose, 64)

    def t_scalar(c, a, dst, fields):
        s = np.float32(1.5)
        c.inst(in_dtype=code(a.d), out_dtype=code(dst.d), num_active_channels=c.n,
               src=a.pattern(), dst=dst.pattern(), op0=OPS["mult"], op1=OPS["bypass"],
               imm0=int(s.view(np.uint32)))
        for ch in range(c.n):
            dst.put_f(ch, f32ops("mult", narrow_f(transposed(a, ch)), [s] * 32))

    narrow_f = lambda x: np.asarray(x).astype(np.float32)
    block("TRANSPOSE_TENSOR_SCALAR_ARITH_OP", "u8", "u8", 32, 32, t_scalar, 32)

    def t_reduce(c, a, dst, fields):
        bits = "BITVEC" in c.op
        op = "xor" if bits else "add"
        c.inst(in_dtype=code(a.d), out_dtype=code(dst.d), num_active_channels=c.n,
               src=a.pattern(), dst=dst.pattern(), op=OPS[op], op_dim=2)
        for ch in range(c.n):
            x = transposed(a, ch)
            if bits:
                t = 0
                for y in x:
                    t ^= int(y)
                dst.put_ints(ch, [t])
            else:
                dst.put_f(ch, [v.fold("add", list(narrow_f(x)))])

    block("TRANSPOSE_TENSOR_REDUCE_ARITH_OP", "u8", "i16", 1, 32, t_reduce, 32)
    block("TRANSPOSE_TENSOR_REDUCE_BITVEC_OP", "u8", "u8", 1, 32, t_reduce, 32)

    mask = [int(x) for x in rng.permutation(32)]
    mask[3] = mask[17] = 255

    def shuffle(c, a, dst, fields):
        op, c.op = c.op, "LOAD_MASK_SELECT"
        c.inst(immediate=bytes(mask).hex())
        c.op = op
        c.inst(in_dtype=code(a.d), out_dtype=code(dst.d), num_active_channels=c.n,
               src=a.pattern(), dst=dst.pattern())
        for ch in range(c.n):
            if mask[ch % 32] != 255:
                dst.put(ch, a.get(32 * (ch // 32) + mask[ch % 32]))

    block("STREAM_SHUFFLE", "u8", "u8", 32, 64, shuffle, 32)

    def t_stats(c, a, dst, fields):
        c.inst(in_dtype=code(a.d), out_dtype=code(dst.d), num_active_channels=c.n,
               src=a.pattern(), dst=dst.pattern(), even_count=0x41800000, odd_count=0x41800000)
        for ch in range(c.n):
            dst.put_f(ch, stats(narrow_f(transposed(a, ch)), 2, [16.0, 16.0]))

    block("TRANSPOSE_BATCH_NORM_STATS2", "u8", "fp32", 6, 32, t_stats, 32)
    return out


def stats(x, lanes, counts):
    """Welford statistics in FP32, one rounding per operation."""
    f = np.float32
    out = []
    for lane in range(lanes):
        mean, m2 = f(0), f(0)
        for n, value in enumerate(x[lane::lanes], 1):
            r = f(1) / f(n)
            new = f(f(f(1) - r) * mean) + f(r * value)
            m2 = f(m2 + f(f(value - new) * f(value - mean)))
            mean = f(new)
        out += [f(counts[lane]), mean, m2]
    return np.array(out, np.float32)


def f32bits(x):
    return int(np.float32(x).view(np.uint32))


def batch_norm(rng):
    out = []
    for k in range(6):
        lanes = 2 if k < 4 else 1
        d, do = ["fp32", "bf16", "i16"][k % 3], ["fp32", "bf16"][k % 2]
        c = v.Case(rng, "BATCH_NORM_STATS2" if lanes == 2 else "BATCH_NORM_STATS")
        a = c.tensor(d, [4, 3] if k else [11])
        dst = c.tensor(do, [3 * lanes], fill=False)
        c.start()
        counts = [(a.len + 1) // 2, a.len // 2] if lanes == 2 else [a.len, 0]
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern(), even_count=f32bits(counts[0]), odd_count=f32bits(counts[1]))
        for ch in range(c.n):
            dst.put_f(ch, stats(a.f(ch), lanes, counts))
        c.expect(dst)
        out.append(c.json(f"{c.op} {d}->{do}"))
    for d in ["fp32", "bf16"]:
        c = v.Case(rng, "BATCH_NORM_AGGREGATE")
        a = c.tensor(d, [12], values=lambda ch, n: [3, 1.5, 2, 4, -2, 8, 2, 0.25, 1, 7, 3, 5])
        dst = c.tensor(d, [2], fill=False)
        c.start()
        c.inst(in_dtype=code(d), out_dtype=code(d), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern())
        f = np.float32
        for ch in range(c.n):
            na, ma, va = f(0), f(0), f(0)
            for n, m, m2 in a.f(ch).reshape(-1, 3):
                r = f(1) / f(n + na)
                dd = f(ma - m)
                mean = f(f(f(ma * na) + f(n * m)) * r)
                extra = f(f(f(f(f(n * na) * dd) * dd) * r) * r)
                va = f(f(f(f(va * na) + m2) * r) + extra)
                ma, na = mean, f(na + n)
            dst.put_f(ch, [ma, va])
        c.expect(dst)
        out.append(c.json(f"BATCH_NORM_AGGREGATE {d}"))
    for k in range(4):
        two = k >= 2
        c = v.Case(rng, "BATCH_NORM_GRAD_ACCUMULATE2" if two else "BATCH_NORM_GRAD_ACCUMULATE")
        d0, d1, do = ["fp32", "bf16"][k % 2], ["bf16", "fp32"][k % 2], ["fp32", "bf16"][k % 2]
        a, b = c.tensor(d0, [4, 3]), c.tensor(d1, [12])
        mean = c.tensor("fp32", [1], [1])
        std = c.tensor("fp32", [1], [1])
        dst = c.tensor(do, [3], fill=False)
        c.start()
        fields = dict(imm0=mean.addr(), imm1=std.addr(), src0=a.pattern(), src1=b.pattern(),
                      dst=dst.pattern(), in0_in1_dtype=pair(d0, d1), num_active_channels=c.n)
        if two:
            c.registers["11"] = std.addr()
            fields |= dict(immediate_out_dtype=pair("fp32", do), imm0_imm1_src=0x21, imm1=11)
        else:
            fields |= dict(immediate_dtype=0, out_dtype=code(do))
        c.inst(**fields)
        f = np.float32
        for ch in range(c.n):
            m, vf, r = mean.f(ch)[0], std.f(ch)[0], [f(0)] * 3
            for x, dy in zip(a.f(ch), b.f(ch)):
                t = f(f(f(x - m) * dy) * vf)
                r = [f(r[0] + dy), f(r[1] + f(t * vf)), f(r[2] + t)]
            dst.put_f(ch, r)
        c.expect(dst)
        out.append(c.json(f"{c.op} {d0},{d1}->{do}"))
    for two in (False, True):
        c = v.Case(rng, "BATCH_NORM_PARAM_LOAD2" if two else "BATCH_NORM_PARAM_LOAD")
        par = c.tensor("fp32", [2] if two else [3], [1])
        mean = c.tensor("fp32", [1], [1])
        sa = c.tensor("fp32", [1], [1])
        x, dy = c.tensor("fp32", [12]), c.tensor("bf16", [4, 3])
        dst = c.tensor("fp32", [12], fill=False)
        c.start()
        if two:
            c.inst(src=par.pattern(), element_count=f32bits(12), src_dtype=code("fp32"),
                   immediate_dtype=code("fp32"), num_active_channels=c.n, imm0_ptr=mean.addr(),
                   imm1_ptr=sa.addr(), imm0_src=1, imm1_src=1)
        else:
            c.inst(src=par.pattern(), imm1=f32bits(12), dtype=code("fp32"),
                   num_active_channels=c.n, imm0_ptr=mean.addr(), imm0_src=1)
        c.op = "BATCH_NORM_BACK_PROP"
        c.inst(in0_in1_dtype=pair("fp32", "bf16"), out_dtype=code("fp32"), op=0,
               num_active_channels=c.n, src0=x.pattern(), src1=dy.pattern(), dst=dst.pattern())
        f = np.float32
        for ch in range(c.n):
            p = list(par.f(ch))
            a, b, cc = (sa.f(ch)[0], *p) if two else p
            m, n = mean.f(ch)[0], f(12)
            r = [f(f(f(g * n) - f(f(f(y - m) * cc) + b)) * a) for y, g in zip(x.f(ch), dy.f(ch))]
            dst.put_f(ch, r)
        c.expect(dst)
        out.append(c.json(f"BATCH_NORM_BACK_PROP with {'2' if two else '1'}"))
    # A table entry that LOAD_PARAMETER_RAM replaces shows in the statistics.
    c = v.Case(rng, "LOAD_PARAMETER_RAM")
    a = c.tensor("fp32", [4], values=lambda ch, n: [2, 4, 6, 8])
    dst = c.tensor("fp32", [6], fill=False)
    c.start()
    table = np.array([1, 0.25] + [0.5] * 6, np.float32)
    c.inst(param_ram_offset=0, immediate=table.tobytes().hex())
    c.op = "BATCH_NORM_STATS2"
    c.inst(in_dtype=code("fp32"), out_dtype=code("fp32"), num_active_channels=c.n,
           src=a.pattern(), dst=dst.pattern(), even_count=f32bits(2), odd_count=f32bits(2))
    for ch in range(c.n):
        # means 0.75*2 + 0.25*6 = 3 and 0.75*4 + 0.25*8 = 5; M2 = (6-3)*(6-2) and (8-5)*(8-4)
        dst.put_f(ch, [2, 3, 12, 2, 5, 12])
    c.expect(dst)
    out.append(c.json("LOAD_PARAMETER_RAM then BATCH_NORM_STATS2"))
    return out


def integers(rng):
    out = []

    def address(op0, op1, d, do, d0, d1, how0, how1):
        c = v.Case(rng, "TENSOR_SCALAR_ADDR", engine="pool")
        values = lambda ch, n: rng.integers(1, 1000, n)
        a = c.tensor(d, [3, 2], values=values)

        def imm(d, how, fixed):
            if not how:
                return 0, fixed & ((1 << 8 * size(d)) - 1), [fixed] * c.n
            t = c.tensor(d, [1], [1], values=lambda ch, n: [fixed + ch])
            return 1, t.addr(), [fixed + ch for ch in range(c.n)]

        i0 = imm(d0, how0, 0x1FFFFFFFF if size(d0) == 8 else 77777)
        if op0 == "subtract":
            i0 = imm(d0, how0, 400)
        i1 = imm(d1, how1, 0x300000000 if size(d1) == 8 and op0 != "subtract" else 250)
        dst = c.tensor(do, [6], fill=False)
        c.start()
        c.inst(src=a.pattern(), imm0=i0[1], imm1=i1[1], imm0_imm1_dtype=pair(d0, d1),
               in_out_dtype=pair(d, do), imm0_is_ptr=i0[0], imm1_is_ptr=i1[0], op0=OPS[op0],
               op1=OPS[op1], num_active_channels=c.n, dst=dst.pattern())
        w = 1 << 8 * size(d if op0 == "subtract" else do)
        for ch in range(c.n):
            r = []
            for x in a.ints(ch):
                u = {"mult": x * i0[2][ch], "add": x + i0[2][ch],
                     "subtract": (x - i0[2][ch]) % w}[op0]
                y = {"add": u + i1[2][ch], "bypass": u, "lt": int(u < i1[2][ch])}[op1]
                r.append(y)
            dst.put_ints(ch, r)
        c.expect(dst)
        out.append(c.json(f"TENSOR_SCALAR_ADDR {op0},{op1} {d}->{do}"))

    for how in range(4):
        h = (how & 1, how >> 1)
        address("mult", "add", "i32", "u64", "i32", "u64", *h)
        address("add", "bypass", "i32", "u64", "u64", "u64", h[0], 0)
        address("mult", "bypass", "i32", "i32", "i32", "i32", h[0], 0)
        address("mult", "add", "i32", "i32", "i32", "i32", *h)
        address("subtract", "lt", "u64", "u8", "u64", "u64", *h)
        address("subtract", "lt", "u32", "i32", "u32", "u32", *h)

    def wide(op, d, do0, do1, scalar_form, shift=False):
        c = v.Case(rng, "TENSOR_SCALAR_INT_WIDE" if scalar_form else "TENSOR_TENSOR_INT_WIDE",
                   gen="v5", engine="dve" if scalar_form else "pool")
        a = c.tensor(d, [6])
        second = (lambda ch, n: rng.integers(0, 32, n)) if shift else None
        d1 = "u32" if shift else d
        if scalar_form:
            b = c.tensor(d1, [1], [1], values=second)
        else:
            b = c.tensor(d1, [6], values=second)
        lo, hi = c.tensor(do0, [6], fill=False), c.tensor(do1, [6], fill=False)
        c.start()
        fields = dict(out0_out1_dtype=pair(do0, do1), op=OPS[op], num_active_channels=c.n,
                      dst0=lo.pattern(), dst1=hi.pattern())
        if scalar_form:
            fields |= dict(in_imm_dtype=pair(d, d1), src=a.pattern(), imm_src=1, imm=b.addr())
        else:
            fields |= dict(in0_in1_dtype=pair(d, d1), src0=a.pattern(), src1=b.pattern())
        c.inst(**fields)
        for ch in range(c.n):
            ys = b.ints(ch) * (6 if scalar_form else 1)
            full = []
            for x, y in zip(a.ints(ch), ys):
                base = op.split("_")[0]
                r = {"add": lambda: x + y, "sub": lambda: x - y, "mult": lambda: x * y,
                     "asl": lambda: x << y, "lsl": lambda: x << y, "asr": lambda: x >> y,
                     "lsr": lambda: (x & (2**64 - 1)) >> y}[base]()
                full.append(r & (2**64 - 1))
            lo.put_ints(ch, [f & 0xFFFFFFFF for f in full])
            hi.put_ints(ch, [f >> 32 for f in full])
        c.expect(lo)
        c.expect(hi)
        out.append(c.json(f"{c.op} {op} {d}"))

    for form in (False, True):
        wide("add_int", "u32", "u32", "u32", form)
        wide("sub_int", "u32", "u32", "u32", form)
        wide("mult_int", "i32", "i32", "i32", form)
        wide("mult_uint", "u32", "u32", "u32", form)
        for op in ["asl", "lsl", "asr", "lsr"]:
            wide(op, "i32" if op == "asr" and not form else "u32", "u32", "u32", form, shift=True)

    # Scalars loaded ahead, one for each slice of W.
    for dual in (False, True):
        for rev in (0, 3):
            for bits in (False, True):
                if dual and bits:
                    continue
                gen = "v2" if dual else "v3"
                c = v.Case(rng, f"TENSOR_SCALAR_IMM_LD_{'BITVEC' if bits else 'ARITH'}", gen=gen)
                d = "u16" if bits else "fp32"
                s = c.tensor(d, [8], [1])
                a = c.tensor(d, [2, 1, 2, 3])
                dst = c.tensor(d, [2, 1, 2, 3], fill=False)
                c.start()
                c.inst(src=s.pattern(), dtype=code(d), num_active_channels=c.n)
                kind = "BITVEC" if bits else "ARITH"
                c.op = f"TENSOR_SCALAR_PTR_MULTI_{'DUAL_' if dual else ''}{kind}"
                op = "xor" if bits else "subtract"
                c.inst(src=a.pattern(), in_dtype=code(d), out_dtype=code(d),
                       num_active_channels=c.n, op=OPS[op], op_dim=4, reverse_operands=rev,
                       dst=dst.pattern())
                for ch in range(c.n):
                    r = []
                    for w, g in enumerate(v.groups(a.bits(ch) if bits else list(a.f(ch)), 4)):
                        f = s.bits(ch) if bits else list(s.f(ch))
                        for x in g:
                            if bits:
                                r.append(bitop(op, x, f[w], 16))
                                continue
                            u = f32op(op, f[w], x) if rev & 1 else f32op(op, x, f[w])
                            r.append(f32op("mult", u, f[4 + w]) if dual else u)
                    dst.put_ints(ch, r) if bits else dst.put_f(ch, r)
                c.expect(dst)
                out.append(c.json(f"{c.op} {op} reverse {rev}"))

    # 0xF0: all 128 partitions of ports 0, or 16 for each port.
    for op in ["add", "mult"]:
        c = v.Case(rng, "EXTENDED_INST", engine="pool", channels=16)
        a, b = c.tensor("fp32", [2]), c.tensor("bf16", [2])
        dst = c.tensor("fp32", [2], fill=False)
        c.start()
        c.inst(extended_opcode=2, completion_info=0b1101, in0_in1_dtype=pair("fp32", "bf16"),
               out_dtype=code("fp32"), op=OPS[op], src0=a.pattern(), src1=b.pattern(),
               dst=dst.pattern())
        for ch in range(16):
            dst.put_f(ch, f32ops(op, a.f(ch), b.f(ch)))
        c.expect(dst)
        out.append(c.json(f"EXTENDED_INST spec 2 {op}"))
    return out


MORE = {"generate": generate, "accumulators": accumulators, "predicated": predicated,
        "pooling": pooling, "cross_channel": cross_channel, "batch_norm": batch_norm,
        "integers": integers}
