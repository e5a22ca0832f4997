"""Sweep of the ALU opcodes: tensor-tensor, tensor-scalar, scalar-tensor-tensor, reductions, scans
and the accumulating forms."""

import numpy as np

from sweep_case import FLOATS, INTS, LATER, V1_TYPES, Trial, narrow, own, pair
from vector_numbers import (DTYPES, GARITH, GARITH_V4, GBITVEC, OPS, SIGNED, UNSIGNED, bitop, fold, groups,
                            code, f32op, f32ops, fix, intop, is_int, size)

SUBDIM = {1: 2, 2: 3, 3: 4, 4: 5}
RESET = {"add": 0.0, "subtract": 0.0, "mult": 1.0, "max": -np.inf, "min": np.inf}
SHIFTS = ["asl", "asr", "lsl", "lsr"]


def garith(gen):
    return GARITH_V4 if gen >= "v4" else GARITH


def types(gen):
    return V1_TYPES if gen == "v1" else FLOATS + INTS


def fbits(x):
    return int(np.float32(x).view(np.uint32))


def element_count(t, limit=16):
    return int(t.rng.integers(1, limit + 1))


def widest(d0, d1, do):
    """The integer type that holds all three, signed as the sources."""
    bits = 8 * max(size(d) for d in (d0, d1, do))
    return ("i" if d0[0] == "i" else "u") + str(bits)


def tensor_tensor(rng):
    out = []

    def case(op, d0, d1, do, engine="dve", gen="v3", kind="f",
             opcode="TENSOR_TENSOR_ARITH_OP", packed=False, values=None):
        t = Trial(rng, gen, engine)
        n = element_count(t)
        if packed:  # rows of pairs: an even number, next to each other
            n = 2 * max(1, n // 2)
            first = t.chance(5)
            a, b = (t.operand(d, n, 1, psum=p, nums=[n], steps=[1])
                    for d, p in ((d0, first), (d1, not first and t.chance(5))))
        else:
            a = t.operand(d0, n, 3, psum=t.chance(5))
            b = t.operand(d1, n, 3, values=values and (lambda c, k: values(rng, k)))
        d = t.operand(do, n, 3, "dst", psum=t.chance(5))
        t.inst(opcode, in0_in1_dtype=pair(d0, d1), out_dtype=code(do), op=OPS[op],
               num_active_channels=t.n, src0=a.pattern(), src1=b.pattern(), dst=d.pattern())
        for c in range(t.n):
            if kind == "f":
                d.put_f(c, f32ops(op, a.f(c), b.f(c)))
            elif kind == "i":
                wide = widest(d0, d1, do)
                d.put_ints(c, [intop(op, x, y, wide) for x, y in zip(a.ints(c), b.ints(c))])
            else:
                w = 8 * size(do)
                d.put_ints(c, [bitop(op, x, y, w) for x, y in zip(a.bits(c), b.bits(c))])
        t.outputs.append(d)
        out.append(t.json(f"{opcode} {op} {d0},{d1}->{do}"))

    k = 0
    for gen in ["v1"] + LATER:
        for op in garith(gen):
            d0, d1, do = (types(gen)[int(i)] for i in rng.integers(0, len(types(gen)), 3))
            engine = "pool" if gen == "v1" or k % 3 == 2 else "dve"
            if engine == "pool" and gen != "v1" and all(
                    d in ("i32", "u32") for d in (d0, d1, do)):
                do = "fp32"
            case(op, d0, d1, do, engine, gen)
            k += 1
        for op in GBITVEC:
            d = "i32" if gen == "v1" else INTS[k % 6]
            case(op, d, d, d, "pool" if gen == "v1" or k % 3 == 2 else "dve", gen, "b",
                 "TENSOR_TENSOR_BITVEC_OP",
                 values=(lambda r, n, d=d: r.integers(0, 8 * size(d), n))
                 if op in SHIFTS and k % 2 else None)
            k += 1
    for gen in ["v3", "v4", "v4plus", "v5"]:
        for ops, names in [(SIGNED, ["i8", "i16", "i32", "i64"]),
                           (UNSIGNED, ["u8", "u16", "u32", "u64"])]:
            for op in ops + ["mod"]:
                if rng.integers(0, 2):
                    wide = int(rng.integers(0, 4)) == 3
                    d0, d1, do = ((names[3],) * 3 if wide else
                                  tuple(names[int(i)] for i in rng.integers(0, 3, 3)))
                    case(op, d0, d1, do, "pool", gen, "i")
    for gen in LATER:
        case("pow", "fp32", "fp32", "fp32", "pool", gen)
        case("pow", "bf16", "i8", "fp32", "pool", gen)
    for opcode, op in [("TENSOR_TENSOR_ADD_BF16", "add"), ("TENSOR_TENSOR_MULT_BF16", "mult"),
                       ("TENSOR_TENSOR_SUB_BF16", "subtract")]:
        for k in range(24):
            do = (FLOATS + INTS)[k % 12]
            case(op, "bf16", "bf16", do, ["dve", "dve", "pool"][k % 3], "v2", opcode=opcode,
                 packed=True)
    return out


def stage(op, x, s, swap):
    return f32ops(op, [s] * len(x), x) if swap else f32ops(op, x, [s] * len(x))


def raw(value):
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def tensor_scalar(rng):
    out = []

    def finish(t, opcode, d, do, op0, op1, rev, how, a, dst, s0, s1, force, bits):
        fields = dict(in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
                      src=a.pattern(), dst=dst.pattern(), op0=OPS[op0], op1=OPS[op1],
                      reverse_operands=rev, imm0_src=0 if force else s0[0],
                      imm1_src=0 if force else s1[0], imm0=s0[1], imm1=s1[1])
        t.inst(opcode, **fields)
        for c in range(t.n):
            if bits:
                w, x = 8 * size(d), a.bits(c)
                u = [raw(s[2][c]) for s in (s0, s1)]
                x = [bitop(op0, u[0], v, w) if rev & 1 else bitop(op0, v, u[0], w) for v in x]
                if op1 != "bypass":
                    x = [bitop(op1, u[1], v, w) if rev & 2 else bitop(op1, v, u[1], w) for v in x]
                dst.put_ints(c, x)
            else:
                x = stage(op0, a.f(c), s0[2][c], rev & 1)
                if op1 != "bypass":
                    x = stage(op1, x, s1[2][c], rev & 2)
                dst.put_f(c, x)
        t.outputs.append(dst)
        out.append(t.json(f"{opcode} {op0},{op1} {d}->{do} imm {how} rev {rev}"))

    def case(op0, op1, d, do, how, rev, gen="v3", engine="dve", bits=False, opcode=None):
        opcode = opcode or f"TENSOR_SCALAR_{'BITVEC' if bits else 'ARITH'}_OP"
        force = "PTR" in opcode
        t = Trial(rng, gen, engine)
        n = element_count(t)
        a = t.operand(d, n, 3, psum=t.chance(5))
        small = bits and (op0 in SHIFTS or op1 in SHIFTS)
        s0, s1 = ((t.scalar(d if bits else "fp32", how, r) for r in (7, 9)) if not small else
                  (shift_scalar(t, d, how, r) for r in (7, 9)))
        dst = t.operand(do, n, 3, "dst", psum=t.chance(5))
        finish(t, opcode, d, do, op0, op1, rev, how, a, dst, s0, s1, force, bits)

    def shift_scalar(t, d, how, register):
        v = int(t.rng.integers(0, 8 * size(d)))
        if how == 0:
            return 0, v, [DTYPES[d][1](v)] * t.n
        p = t.operand(d, 1, 1, nums=[1], steps=[1], values=lambda c, n: [(v + c) % (8 * size(d))])
        values = [p.get(c)[0] for c in range(t.n)]
        if how == 1:
            return 1, p.addr(), values
        t.registers[str(register)] = p.addr()
        return 2, register, values

    k = 0
    for gen in ["v1"] + LATER:
        ops = garith(gen)
        for op0 in ops[1:]:
            op1 = ops[int(rng.integers(0, len(ops)))] if k % 3 else "bypass"
            d, do = (types(gen)[int(i)] for i in rng.integers(0, len(types(gen)), 2))
            case(op0, op1, d, do, k % (2 if gen == "v1" else 3), int(rng.integers(0, 4)), gen,
                 "pool" if gen == "v1" or (gen == "v2" and k % 2) else "dve")
            k += 1
        for op0 in GBITVEC[1:]:
            op1 = ["bypass", "xor", "and", "or", "not", "lsl"][int(rng.integers(0, 6))]
            d = "i32" if gen == "v1" or "asr" in (op0, op1) or (op0, op1) == ("lsr", "lsl") \
                else INTS[k % 6]
            case(op0, op1, d, d, k % (2 if gen == "v1" else 3), int(rng.integers(0, 4)), gen,
                 "pool" if gen == "v1" else "dve", bits=True)
            k += 1
    for k in range(36):
        gen = (["v1"] + LATER)[k % 6]
        engine = "pool" if gen == "v1" else "dve"
        ops = garith(gen)
        op0, op1 = ops[1 + k % (len(ops) - 1)], ops[(5 * k) % len(ops)]
        d, do = (types(gen)[int(i)] for i in rng.integers(0, len(types(gen)), 2))
        case(op0, op1, d, do, 1, int(rng.integers(0, 4)), gen, engine,
             opcode="TENSOR_SCALAR_PTR_ARITH_OP")
        op0 = GBITVEC[1 + k % 8]
        op1 = ["bypass", "xor", "and", "or"][k % 4]
        d = "i32" if gen == "v1" or op0 == "asr" else INTS[k % 6]
        case(op0, op1, d, d, 1, int(rng.integers(0, 4)), gen, engine, bits=True,
             opcode="TENSOR_SCALAR_PTR_BITVEC_OP")
    # RSQRT exists on POOL, alone
    for gen in LATER:
        for d in ["fp32", "bf16", "u8"]:
            t = Trial(rng, gen, "pool")
            n = element_count(t)
            a = t.operand(d, n, 3)
            dst = t.operand("fp32", n, 3, "dst")
            s = (0, 0, [np.float32(0)] * t.n)
            finish(t, "TENSOR_SCALAR_ARITH_OP", d, "fp32", "rsqrt", "bypass", 0, 0, a, dst, s, s,
                   False, False)
    # v5 has native integers here; scalars are 32-bit integers of the tensor's sign
    dve = ["add_int", "mult_int", "sub_int", "max_int", "min_int", "absmax_int", "absmin_int",
           "absdiff_int", "eq_int", "gt_int", "ge_int", "le_int", "lt_int", "ne_int"]
    for k, op0 in enumerate(dve * 2):
        t = Trial(rng, "v5", "dve")
        n = element_count(t)
        names = ["i8", "i16", "i32"] if k % 2 else ["u8", "u16", "u32"]
        d, do = names[int(rng.integers(0, 3))], names[int(rng.integers(0, 3))]
        op1 = dve[int(rng.integers(0, len(dve)))] if k % 3 else "bypass"
        how, rev = k % 3, int(rng.integers(0, 4))
        a = t.operand(d, n, 3)
        s0, s1 = t.scalar(names[2], how, 7), t.scalar(names[2], how, 9)
        dst = t.operand(do, n, 3, "dst")
        t.inst("TENSOR_SCALAR_ARITH_OP", in_dtype=code(d), out_dtype=code(do),
               num_active_channels=t.n, src=a.pattern(), dst=dst.pattern(), op0=OPS[op0],
               op1=OPS[op1], reverse_operands=rev, imm0_src=s0[0], imm1_src=s1[0], imm0=s0[1],
               imm1=s1[1])
        wide = widest(d, d, do)
        for c in range(t.n):
            u = [int(s[2][c]) for s in (s0, s1)]
            x = [intop(op0, u[0], v, wide) if rev & 1 else intop(op0, v, u[0], wide)
                 for v in a.ints(c)]
            if op1 != "bypass":
                x = [intop(op1, u[1], v, wide) if rev & 2 else intop(op1, v, u[1], wide)
                     for v in x]
            dst.put_ints(c, x)
        t.outputs.append(dst)
        out.append(t.json(f"TENSOR_SCALAR_ARITH_OP native {op0},{op1} {d}->{do} {how} rev {rev}"))
    return out


def reduce(rng):
    out = []

    def case(op, d, do, dims, kind="f", neg=0, engine="dve", gen="v3", opcode=None, packed=False):
        opcode = opcode or f"TENSOR_REDUCE_{'BITVEC' if kind == 'b' else 'ARITH'}_OP"
        t = Trial(rng, gen, engine)
        nums = [int(x) for x in rng.integers(1, 5, 4)]
        nums = nums[:max(dims, int(rng.integers(1, 5)))]
        steps = None
        if packed:
            nums[0] *= 2
            steps = [1]
            for x in nums[:-1]:
                steps.append(steps[-1] * x)
        a = t.operand(d, 0, 4, nums=nums, steps=steps, psum=t.chance(5) and not packed,
                      special=not t.chance(2), guard=0 if packed else None)
        n = int(np.prod(nums[:dims]))
        dst = t.operand(do, a.len // n, 4, "dst", psum=t.chance(5))
        sub = dims if gen == "v1" else SUBDIM[dims]
        t.inst(opcode, in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
               src=a.pattern(), dst=dst.pattern(), op=OPS[op], op_dim=sub, negated=neg)
        for c in range(t.n):
            if kind == "f":
                r = [fold(op, g) for g in groups(list(a.f(c)), n)]
                dst.put_f(c, fix([-x for x in r]) if neg else r)
                continue
            r = []
            for g in groups(a.ints(c) if kind == "i" else a.bits(c), n):
                if op.startswith("amax") or op.startswith("amin"):
                    r.append(g.index(max(g) if "max" in op else min(g)))
                    continue
                acc = g[0]
                for x in g[1:]:
                    acc = (intop(op, acc, x, widest(d, d, do)) if kind == "i"
                           else bitop(op, acc, x, 8 * size(d)))
                r.append(acc)
            dst.put_ints(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"{opcode} {op} {d}->{do} dims {dims} neg {neg}"))

    k = 0
    for gen in ["v1"] + LATER:
        engine = "pool" if gen == "v1" else "dve"
        for op in garith(gen):
            d, do = (types(gen)[int(i)] for i in rng.integers(0, len(types(gen)), 2))
            case(op, d, do, 1 + k % 4, neg=0 if gen == "v1" else k % 2, gen=gen, engine=engine)
            k += 1
        for op in GBITVEC:
            d = "i32" if gen == "v1" else ["u8", "u16", "u32", "i32"][k % 4]
            case(op, d, d, 1 + k % 4, "b", gen=gen, engine=engine)
            k += 1
    for gen in ["v3", "v4", "v5"]:
        for op, d in [("amax_int", "i32"), ("amin_int", "i64"), ("amax_uint", "u32"),
                      ("amin_uint", "u64"), ("amin_int", "i32"), ("amax_uint", "u64")]:
            case(op, d, "u32", 1 + k % 4, "i", engine="pool", gen=gen)
            k += 1
        for op in ["add_int", "mult_int", "sub_int", "max_int", "min_int"]:
            d = ["i32", "i64"][k % 2]
            case(op, d, d, 1 + k % 4, "i", engine="pool", gen=gen)
            k += 1
        for op in ["add_int", "mult_uint", "max_uint", "min_uint"]:
            d = ["u32", "u64"][k % 2]
            case(op, d, d, 1 + k % 4, "i", engine="pool", gen=gen)
            k += 1
    for opcode, op in [("TENSOR_REDUCE_ADD_BF16", "add"), ("TENSOR_REDUCE_MAX_BF16", "max")]:
        for k in range(24):
            case(op, "bf16", (FLOATS + INTS)[k % 12], 1 + k % 4, neg=k // 12,
                 engine=["dve", "dve", "pool"][k % 3], gen="v2", opcode=opcode, packed=True)
    return out


def scans(rng):
    out = []

    def cumulative(op, d, do, dims, gen, bits=False):
        opcode = f"TENSOR_CUMULATIVE_{'BITVEC' if bits else 'ARITH'}_OP"
        t = Trial(rng, gen, "pool" if gen == "v1" else "dve")
        nums = [int(x) for x in rng.integers(1, 5, max(dims, int(rng.integers(1, 5))))]
        a = t.operand(d, 0, 4, nums=nums, psum=t.chance(5), special=not t.chance(2))
        dst = t.operand(do, a.len, 4, "dst", psum=t.chance(5))
        t.inst(opcode, in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
               src=a.pattern(), dst=dst.pattern(), op=OPS[op],
               op_dim=dims if gen == "v1" else SUBDIM[dims])
        n = int(np.prod(nums[:dims]))
        for c in range(t.n):
            r = []
            for g in groups(a.bits(c) if bits else list(a.f(c)), n):
                for k, x in enumerate(g):
                    if k:
                        x = bitop(op, r[-1], x, 8 * size(d)) if bits else f32op(op, r[-1], x)
                    r.append(x)
            dst.put_ints(c, r) if bits else dst.put_f(c, r)
        t.outputs.append(dst)
        out.append(t.json(f"{opcode} {op} {d}->{do} dims {dims}"))

    k = 0
    for gen in ["v1"] + LATER:
        for op in garith(gen):
            d, do = (types(gen)[int(i)] for i in rng.integers(0, len(types(gen)), 2))
            cumulative(op, d, do, 1 + k % 4, gen)
            k += 1
        for op in ["and", "or", "xor", "not", "bypass", "lsl", "asl"]:
            d = "i32" if gen == "v1" else ["u8", "u16", "u32", "i32"][k % 4]
            cumulative(op, d, d, 1 + k % 4, gen, bits=True)
            k += 1
        cumulative("lsr", "i32", "i32", 1, gen, bits=True)

    def tt_scan(op0, op1, d0, d1, do, rev, gen):
        t = Trial(rng, gen)
        n = element_count(t)
        a, b = t.operand(d0, n, 2, psum=t.chance(5)), t.operand(d1, n, 2)
        s = t.scalar("fp32")
        dst = t.operand(do, n, 2, "dst", psum=t.chance(5))
        t.inst("TENSOR_TENSOR_SCAN_ARITH", in0_in1_dtype=pair(d0, d1), out_dtype=code(do),
               num_active_channels=t.n, src0=a.pattern(), src1=b.pattern(), dst=dst.pattern(),
               op0=OPS[op0], op1=OPS[op1], reverse_operands=rev, imm0_src=s[0], imm0=s[1],
               imm0_dtype=code("fp32"))
        for c in range(t.n):
            r, res = s[2][c], []
            for x, y in zip(a.f(c), b.f(c)):
                u = f32op(op0, r, x) if rev & 1 else f32op(op0, x, r)
                r = f32op(op1, y, u) if rev & 2 else f32op(op1, u, y)
                res.append(r)
            dst.put_f(c, res)
        t.outputs.append(dst)
        out.append(t.json(f"TENSOR_TENSOR_SCAN_ARITH {op0},{op1} {d0},{d1}->{do} rev {rev}"))

    for gen in LATER:
        ops = garith(gen)
        for k, op0 in enumerate(ops):
            op1 = ops[int(rng.integers(0, len(ops)))]
            d0, d1, do = (types(gen)[int(i)] for i in rng.integers(0, 12, 3))
            tt_scan(op0, op1, d0, d1, do, k % 4, gen)
    return out


def read(t, acc, d="fp32", negated=0):
    """DVE_READ_ACCUMULATOR behind the rest."""
    dst = t.operand(d, 1, 1, "dst", nums=[1], steps=[1])
    t.late()
    t.inst("DVE_READ_ACCUMULATOR", dst_element_count=1, dtype=code(d), negated=negated,
           num_active_channels=t.n, dst=dst.pattern())
    for c in range(t.n):
        dst.put_f(c, fix([-acc[c] if negated else acc[c]]))
    t.outputs.append(dst)


def accumulators(rng):
    out = []
    cache_in = FLOATS + ["i8", "u8", "i16", "u16"]

    def cached(opcode, op0, op1, d, do, cmds, gen, k):
        t = Trial(rng, gen)
        n = element_count(t, 10)
        a = t.operand(d, n, 3, psum=t.chance(5), special=not t.chance(2))
        s = t.scalar("fp32", special=False)
        dst = t.operand(do, n, 3, "dst", psum=t.chance(5))
        load = t.scalar("fp32", k % 3, 5, special=False)
        acc = [np.float32(0)] * t.n
        for cmd in cmds:
            t.inst(opcode, in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
                   op0=OPS[op0], op1=OPS[op1], accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1],
                   imm1_src=load[0] if cmd == 4 else 0, imm1=load[1] if cmd == 4 else 0,
                   src=a.pattern(), dst=dst.pattern())
            for c in range(t.n):
                r = {2: acc[c], 3: np.float32(RESET[op1]), 4: load[2][c]}[cmd]
                el, run = f32ops(op0, a.f(c), [s[2][c]] * n), []
                for x in el:
                    r = f32op(op1, x, r)
                    run.append(r)
                acc[c] = r
                dst.put_f(c, run if "CUMULATIVE" in opcode else el)
        t.outputs.append(dst)
        read(t, acc, FLOATS[k % 6], k % 2)
        out.append(t.json(f"{opcode} {op0},{op1} {d}->{do} {cmds}"))

    k = 0
    for opcode in ["TENSOR_SCALAR_CACHE_REDUCE", "TENSOR_SCALAR_CACHE_CUMULATIVE"]:
        for gen in LATER:
            for op1 in RESET:
                ops = garith(gen)
                cached(opcode, ops[k % len(ops)], op1, cache_in[k % 10],
                       (FLOATS + INTS)[(5 * k) % 12],
                       [[3], [4, 2], [3, 2, 4], [2], [4], [3, 3]][k % 6], gen, k)
                k += 1

    def stt(op0, op1, d0, d1, do, rev, cmds, gen, k):
        t = Trial(rng, gen)
        n = element_count(t, 10)
        a, b = t.operand(d0, n, 2, psum=t.chance(5)), t.operand(d1, n, 2)
        sd = "fp32" if k % 3 == 0 else (FLOATS + INTS)[k % 12]
        s = t.scalar(sd, 0 if k % 3 == 0 else k % 3, 4)
        dst = t.operand(do, n, 2, "dst", psum=t.chance(5))
        acc = [np.float32(0)] * t.n
        for cmd in cmds:
            t.inst("SCALAR_TENSOR_TENSOR_ARITH", in0_in1_dtype=pair(d0, d1), out_dtype=code(do),
                   num_active_channels=t.n, op0=OPS[op0], op1=OPS[op1], reverse_operands=rev,
                   accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1], imm0_dtype=code(sd),
                   src0=a.pattern(), src1=b.pattern(), dst=dst.pattern())
            for c in range(t.n):
                x = [np.float32(s[2][c])] * n
                u = f32ops(op0, x, a.f(c)) if rev & 1 else f32ops(op0, a.f(c), x)
                r = f32ops(op1, b.f(c), u) if rev & 2 else f32ops(op1, u, b.f(c))
                dst.put_f(c, r)
                if cmd:
                    total = acc[c] if cmd == 2 else np.float32(0)
                    for y in r:
                        total = f32op("add", total, y)
                    acc[c] = total
        t.outputs.append(dst)
        if any(cmds):
            read(t, acc, FLOATS[k % 6], k % 2)
        out.append(t.json(f"SCALAR_TENSOR_TENSOR {op0},{op1} {d0},{d1}->{do} {sd} {rev} {cmds}"))

    k = 0
    for gen in LATER:
        ops = garith(gen)
        for op0 in ops:
            op1 = ops[int(rng.integers(0, len(ops)))]
            d0, d1, do = (types(gen)[int(i)] for i in rng.integers(0, 12, 3))
            stt(op0, op1, d0, d1, do, k % 4, [[0], [3], [3, 2]][k % 3], gen, k)
            k += 1
        for op0 in GBITVEC:
            d, rev, op1 = INTS[k % 6], k % 4, GBITVEC[(7 * k) % 9]
            if "asr" in (op0, op1) or size(d) < 4 and op1 in ("lsr", "asr"):
                d = "i32"
            t = Trial(rng, gen)
            n = element_count(t, 10)
            a, b = t.operand(d, n, 2, psum=t.chance(5)), t.operand(d, n, 2)
            s = t.scalar(d)
            dst = t.operand(d, n, 2, "dst", psum=t.chance(5))
            t.inst("SCALAR_TENSOR_TENSOR_BITVEC", in0_in1_dtype=pair(d, d), out_dtype=code(d),
                   num_active_channels=t.n, op0=OPS[op0], op1=OPS[op1], reverse_operands=rev,
                   imm0_src=s[0], imm0=s[1], imm0_dtype=code(d), src0=a.pattern(),
                   src1=b.pattern(), dst=dst.pattern())
            w = 8 * size(d)
            for c in range(t.n):
                v = raw(s[2][c])
                u = [bitop(op0, v, x, w) if rev & 1 else bitop(op0, x, v, w) for x in a.bits(c)]
                dst.put_ints(c, [bitop(op1, y, x, w) if rev & 2 else bitop(op1, x, y, w)
                                 for x, y in zip(u, b.bits(c))])
            t.outputs.append(dst)
            out.append(t.json(f"SCALAR_TENSOR_TENSOR_BITVEC {op0},{op1} {d} {rev}"))
            k += 1

    def maximum(acc, cmd, c, r):
        if cmd:
            m = acc[c] if cmd == 2 else np.float32(-np.inf)
            for x in r:
                m = f32op("max", m, x)
            acc[c] = m

    for k in range(30):
        gen = LATER[k % 5]
        dp, d = INTS[k % 6], (FLOATS + ["i8", "u8", "i16", "u16"])[k % 10]
        do, cmds, rev = (FLOATS + INTS)[(7 * k) % 12], [[0], [3], [3, 2]][k % 3], k % 2
        t = Trial(rng, gen)
        n = element_count(t, 12)
        p = t.operand(dp, n, 2, values=lambda c, m: rng.integers(0, 2, m) * 3)
        a = t.operand(d, n, 2, psum=t.chance(5))
        s = t.scalar("fp32")
        dst = t.operand(do, n, 2, "dst", psum=t.chance(5))
        acc = [np.float32(0)] * t.n
        for cmd in cmds:
            t.inst("SELECT_REDUCE", in0_in1_dtype=pair(dp, d), out_dtype=code(do),
                   num_active_channels=t.n, op0=OPS["bypass"], op1=OPS["max"],
                   reverse_operands=rev, accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1],
                   imm0_dtype=code("fp32"), src0=p.pattern(), src1=a.pattern(),
                   dst=dst.pattern())
            for c in range(t.n):
                keep = [(x != 0) != (rev == 1) for x in p.ints(c)]
                r = np.where(keep, a.f(c), np.float32(s[2][c])).astype(np.float32)
                dst.put_f(c, r)
                maximum(acc, cmd, c, r)
        t.outputs.append(dst)
        if any(cmds):
            read(t, acc, FLOATS[k % 6], k % 2)
        out.append(t.json(f"SELECT_REDUCE {dp},{d}->{do} {cmds}"))
    cmps = ["eq", "gt", "ge", "le", "lt"]
    for k in range(30):
        gen = LATER[1 + k % 4]
        d, do, cmds = FLOATS[k % 6], FLOATS[(k // 2) % 6], [[0], [3], [3, 2]][k % 3]
        t = Trial(rng, gen)
        n = element_count(t, 12)
        base = np.float32([100, 0, -4, 16777200][k % 4])
        a = t.operand(d, n, 2, psum=t.chance(5))
        bounds = []
        for register in (4, 6):
            how = int(rng.integers(0, 3))
            value = base + np.float32(rng.integers(0, 12))
            if how == 0:
                bounds.append((0, fbits(value), [value] * t.n))
                continue
            b = t.operand("fp32", 1, 1, nums=[1], steps=[1],
                          values=lambda c, m: [value + np.float32(c)])
            at = b.addr() if how == 1 else register
            if how == 2:
                t.registers[str(register)] = b.addr()
            bounds.append((how, at, [b.f(c)[0] for c in range(t.n)]))
        dst = t.operand(do, n, 2, "dst", psum=t.chance(5))
        ops = cmps[k % 5], cmps[(k // 5) % 5]
        acc = [np.float32(0)] * t.n
        for cmd in cmds:
            t.inst("RANGE_SELECT", num_active_channels=t.n, in_out_dtype=pair(d, do),
                   reduce_cmd=cmd, reduce_op=OPS["max"], base=fbits(base), fill_val=0xFF7FFFFF,
                   src=a.pattern(), comp_op0=OPS[ops[0]], comp_op1=OPS[ops[1]],
                   bound0_src=bounds[0][0], bound1_src=bounds[1][0], bound0=bounds[0][1],
                   bound1=bounds[1][1], dst=dst.pattern())
            for c in range(t.n):
                index = [base + np.float32(i) for i in range(n)]
                keep = [f32op(ops[0], i, bounds[0][2][c]) and f32op(ops[1], i, bounds[1][2][c])
                        for i in index]
                fill = np.uint32(0xFF7FFFFF).view(np.float32)
                r = np.where(np.array(keep, bool), a.f(c), fill)
                dst.put_f(c, r)
                maximum(acc, cmd, c, r)
        t.outputs.append(dst)
        if any(cmds):
            read(t, acc, FLOATS[k % 6], k % 2)
        out.append(t.json(f"RANGE_SELECT {ops} {d}->{do} {cmds}"))
    for k in range(36):
        gen = ["v4", "v4plus", "v5"][k % 3]
        cmds = [[0], [3], [3, 2], [4]][k % 4]
        d, do = (FLOATS + INTS)[(5 * k) % 12], (FLOATS + INTS)[(7 * k) % 12]
        if k < 12:
            d, do = ["fp32", "bf16", "fp16"][k % 3], "fp32"
        t = Trial(rng, gen)
        n = 2 * element_count(t, 6) if any(cmds) else element_count(t, 12)
        # an accumulating form wants an even count in X
        a = t.operand(d, n, 3, values=lambda c, m: narrow(rng.standard_normal(m) * 3, own(t.gen, d))
                      if not is_int(d) else rng.integers(0, 9, m),
                      **(dict(nums=[n], steps=[1]) if any(cmds) else {}))
        s = t.scalar("fp32", special=False)
        dst = t.operand(do, n, 3, "dst", psum=t.chance(5))
        t.ulp = 1 if do == "fp32" else 0
        acc = [np.float32(0)] * t.n
        load = np.float32(2.5)
        for cmd in cmds:
            t.inst("EXPONENTIAL", in_dtype=code(d), out_dtype=code(do), num_active_channels=t.n,
                   op0=0, op1=0, accumulator_cmd=cmd, imm0_src=s[0], imm0=s[1], imm1_src=0,
                   imm1=fbits(load) if cmd == 4 else 0, src=a.pattern(), dst=dst.pattern())
            for c in range(t.n):
                x = (a.f(c) - np.float32(s[2][c])).astype(np.float32)
                r = np.exp(x.astype(np.float64)).astype(np.float32)
                dst.put_f(c, r)
                if cmd:
                    m = {2: acc[c], 3: np.float32(0), 4: load}[cmd]
                    for y in r:
                        m = f32op("add", m, y)
                    acc[c] = m
        t.outputs.append(dst)
        if any(cmds):
            read(t, acc)
        out.append(t.json(f"EXPONENTIAL {d}->{do} {cmds}"))
    return out


ARITH = {"sweep_tensor_tensor": tensor_tensor, "sweep_tensor_scalar": tensor_scalar,
         "sweep_reduce": reduce, "sweep_scans": scans, "sweep_accumulators": accumulators}
