#!/usr/bin/env python3
"""Generates tests/golden/vector/*.json: instructions, memory before, memory after.

A case is one or more instructions (fields by name) on a small memory. Regions of 96 bytes in a
partition hold one operand each. Run from the root of the repository.
"""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from vector_numbers import *  # noqa: E402,F403

OUT = pathlib.Path("tests/golden/vector")
REGION = 96
STRIDE = 0x40000  # SBUF partition stride of v2 to v4+
BASES = [0x100 + 0x80 * i for i in range(6)]  # regions do not touch


class Case:
    """Memory, instructions and the expected regions of one case."""

    def __init__(self, rng, op, gen="v3", engine="dve", channels=2, first=0, region=REGION):
        self.rng, self.op, self.gen, self.engine = rng, op, gen, engine
        self.n, self.first, self.region = channels, first, region
        self.mem, self.used, self.outputs = {}, 0, []
        self.insts, self.registers, self.ulp = [], {}, 0
        self.bases = [0x100 + (region + 32) * i for i in range(6)]

    def tensor(self, d, nums, steps=None, values=None, channels=None, fill=True):
        """A new operand of dtype d; random layout unless steps are given."""
        t = Tensor(self, d, nums, steps, channels or self.n)
        for c in range(t.channels):
            row = self.mem.setdefault((self.first + c, t.base), bytearray(self.region))
            row[:] = self.rng.integers(0, 256, self.region, np.uint8).tobytes()
            if fill:
                v = values(c, t.len) if callable(values) else draw(self.rng, d, t.len)
                t.put(c, v)
        return t

    def inst(self, **fields):
        self.insts.append({"opcode": self.op} | fields)

    def expect(self, t):
        self.outputs.append(t)

    def start(self):
        self.before = {k: bytes(v) for k, v in self.mem.items()}

    def json(self, name):
        put = [[p, b, v.hex()] for (p, b), v in self.before.items()]
        want = []
        for t in self.outputs:
            for c in range(t.channels):
                want.append([self.first + c, t.base, bytes(self.mem[self.first + c, t.base]).hex()])
        return {"name": name, "gen": self.gen, "engine": self.engine, "insts": self.insts,
                "registers": self.registers, "put": put, "expect": want, "ulp": self.ulp}


class Tensor:
    def __init__(self, case, d, nums, steps, channels):
        self.case, self.d, self.nums, self.channels = case, d, list(nums), channels
        self.base = case.bases[case.used]
        case.used += 1
        if steps is None:
            steps, room = [], case.region // size(d)
            count = int(np.prod(nums))
            pad = int(case.rng.integers(1, 3)) if 2 * count <= room else 1
            run = pad
            for k in nums:
                steps.append(run)
                run *= k
            if case.rng.integers(0, 2) and len(nums) > 1:  # a negative step
                steps[0] = -steps[0]
        self.steps = list(steps)
        low = sum(s * (k - 1) for s, k in zip(self.steps, self.nums) if s < 0)
        self.at = -low
        self.len = int(np.prod(self.nums))

    def addr(self):
        return self.case.first * STRIDE + self.base + self.at * size(self.d)

    def pattern(self):
        return {"addr": self.addr(), "steps": self.steps, "nums": self.nums}

    def row(self, c):
        return self.case.mem[self.case.first + c, self.base]

    def get(self, c):
        t = DTYPES[self.d][1]
        n = size(self.d)
        row = bytes(self.row(c))
        return np.concatenate([
            np.frombuffer(row[(self.at + o) * n:(self.at + o + 1) * n], t)
            for o in offsets(self.steps, self.nums)])

    def put(self, c, values, where=None):
        n = size(self.d)
        values = np.asarray(values, DTYPES[self.d][1])
        for k, o in enumerate(offsets(self.steps, self.nums)):
            if where is None or where[k]:
                at = (self.at + o) * n
                self.row(c)[at:at + n] = values[k:k + 1].tobytes()

    def f(self, c):
        return widen(self.get(c), self.d)

    def ints(self, c):
        return [int(v) for v in self.get(c)]

    def bits(self, c):
        u = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size(self.d)]
        return [int(v) for v in self.get(c).view(u)]

    def put_f(self, c, v):
        self.put(c, narrow(v, self.d))

    def put_ints(self, c, v, where=None):
        m = (1 << 8 * size(self.d)) - 1
        u = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size(self.d)]
        self.put(c, np.array([x & m for x in v], u).view(DTYPES[self.d][1]), where)


def draw(rng, d, n):
    """Random elements with edges: ties, extremes, subnormals, zeros of both signs."""
    t = DTYPES[d][1]
    if is_int(d):
        info = np.iinfo(t)
        edge = [0, 1, 2, 3, info.max, info.min, info.max - 1, 5]
        small = rng.integers(max(info.min, -100), min(info.max, 100), n)
        pick = rng.integers(0, 4, n)
        return np.array([edge[rng.integers(0, 8)] if p == 0 else int(s)
                         for p, s in zip(pick, small)], t)
    edge = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 1e-40, 240.0, -3e4], np.float32)
    v = (rng.standard_normal(n) * 4).astype(np.float32)
    for k in range(n):
        if rng.integers(0, 4) == 0:
            v[k] = edge[rng.integers(0, len(edge))]
    return narrow(v, d)


def nonzero(d):
    """Elements without 0, for divisors."""
    return lambda rng, n: np.array([int(x) for x in rng.integers(1, 90, n)], DTYPES[d][1])


FLOATS = ["fp32", "bf16", "fp16", "fp8e3", "fp8e4", "fp8e5"]
INTS = ["i8", "u8", "i16", "u16", "i32", "u32"]
SHAPES = [([12], ), ([4, 3], ), ([2, 3, 2], )]


def tensor_tensor(rng):
    out = []

    def case(op, d0, d1, do, engine="dve", gen="v3", kind="f", opcode="TENSOR_TENSOR_ARITH_OP"):
        c = Case(rng, opcode, gen, engine)
        nums = SHAPES[rng.integers(0, 3)][0]
        packed = opcode.endswith("BF16")  # pairs of elements next to each other
        a = c.tensor(d0, nums, [1, nums[0], 6][:len(nums)] if packed else None)
        div = None
        if "div" in op or "mod" in op:
            div = lambda ch, n: nonzero(d1)(rng, n)
        b = c.tensor(d1, nums, [1, nums[0], 6][:len(nums)] if packed else None, values=div)
        d = c.tensor(do, nums, fill=False)
        c.start()
        c.inst(in0_in1_dtype=pair(d0, d1), out_dtype=code(do), op=OPS[op],
               num_active_channels=c.n, src0=a.pattern(), src1=b.pattern(), dst=d.pattern())
        for ch in range(c.n):
            if kind == "f":
                d.put_f(ch, f32ops(op, a.f(ch), b.f(ch)))
            elif kind == "i":
                d.put_ints(ch, [intop(op, x, y, do) for x, y in zip(a.ints(ch), b.ints(ch))])
            else:
                w = 8 * size(do)
                d.put_ints(ch, [bitop(op, x, y, w) for x, y in zip(a.bits(ch), b.bits(ch))])
        c.expect(d)
        out.append(c.json(f"{opcode} {op} {d0},{d1}->{do} {engine} {gen}"))

    for op in GARITH_V4:
        gen = "v3" if op in GARITH else "v4"
        case(op, "fp32", "fp32", "fp32", gen=gen)
        for _ in range(2):
            pick = FLOATS + INTS
            d0, d1, do = (pick[rng.integers(0, len(pick))] for _ in range(3))
            case(op, d0, d1, do, gen=gen)
    for op in ["add", "subtract", "mult", "max", "min", "gt", "eq"]:
        for d in ["i32", "u32"]:
            case(op, d, d, d, engine="pool", kind="i")  # exact on POOL
            case(op, d, d, d, engine="dve", kind="f")  # through FP32 on DVE
    for ops, types in [(SIGNED, ["i8", "i16", "i32", "i64"]), (UNSIGNED, ["u8", "u16", "u32", "u64"])]:
        for op in ops:
            d = types[rng.integers(0, 4)]
            case(op, d, d, d, engine="pool", kind="i")
            case(op, types[3], types[3], types[3], engine="pool", kind="i")
    for op in GBITVEC:
        for d in ["u8", "u16", "u32", "i32"]:
            case(op, d, d, d, kind="b", opcode="TENSOR_TENSOR_BITVEC_OP")
        if op not in ("asl", "asr", "lsl", "lsr"):
            case(op, "u64", "u64", "u64", engine="pool", kind="b",
                 opcode="TENSOR_TENSOR_BITVEC_OP")
    for opcode, op in [("TENSOR_TENSOR_ADD_BF16", "add"), ("TENSOR_TENSOR_MULT_BF16", "mult"),
                       ("TENSOR_TENSOR_SUB_BF16", "subtract")]:
        case(op, "bf16", "bf16", "fp32", gen="v2", opcode=opcode)
    return out


def scalar(c, d, how, which):
    """An immediate: (source code, field value, value per channel as bits)."""
    if how == 0:
        v = draw(c.rng, d, 1)
        raw = int.from_bytes(v.tobytes(), "little")
        return 0, raw, [v[0]] * c.n
    t = c.tensor(d, [1], [1])
    values = [t.get(ch)[0] for ch in range(c.n)]
    if how == 1:
        return 1, t.addr(), values
    c.registers[str(which)] = t.addr()
    return 2, which, values


def stage(op, x, s, swap):
    return f32ops(op, [s] * len(x), x) if swap else f32ops(op, x, [s] * len(x))


def tensor_scalar(rng):
    out = []

    def case(op0, op1, d, do, how, rev, bits=False, gen="v3", opcode=None, force=None):
        opcode = opcode or ("TENSOR_SCALAR_BITVEC_OP" if bits else "TENSOR_SCALAR_ARITH_OP")
        c = Case(rng, opcode, gen)
        nums = SHAPES[rng.integers(0, 3)][0]
        a = c.tensor(d, nums)
        sd = d if bits else "fp32"
        s0 = scalar(c, sd, how, 7)
        s1 = scalar(c, sd, how, 9)
        dst = c.tensor(do, nums, fill=False)
        c.start()
        src = [0, 0] if force else [s0[0], s1[0]]
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern(), op0=OPS[op0], op1=OPS[op1], reverse_operands=rev,
               imm0_src=src[0], imm1_src=src[1], imm0=s0[1], imm1=s1[1])
        for ch in range(c.n):
            if bits:
                w = 8 * size(d)
                u = [int.from_bytes(np.asarray(s[2][ch]).tobytes(), "little") for s in (s0, s1)]
                x = a.bits(ch)
                x = [bitop(op0, u[0], v, w) if rev & 1 else bitop(op0, v, u[0], w) for v in x]
                if op1 != "bypass":
                    x = [bitop(op1, u[1], v, w) if rev & 2 else bitop(op1, v, u[1], w) for v in x]
                dst.put_ints(ch, x)
            else:
                x = stage(op0, a.f(ch), s0[2][ch], rev & 1)
                if op1 != "bypass":
                    x = stage(op1, x, s1[2][ch], rev & 2)
                dst.put_f(ch, x)
        c.expect(dst)
        out.append(c.json(f"{opcode} {op0},{op1} {d}->{do} imm {how} rev {rev} {gen}"))

    ops = [o for o in GARITH if o != "bypass"]
    for k, op0 in enumerate(ops):
        op1 = GARITH[rng.integers(0, len(GARITH))]
        pick = FLOATS + INTS
        case(op0, op1, "fp32", "fp32", k % 3, k % 4)
        case(op0, op1, pick[rng.integers(0, 12)], pick[rng.integers(0, 12)], (k + 1) % 3,
             int(rng.integers(0, 4)))
    for op0 in ["square", "relu", "absmax", "absmin"]:
        case(op0, "add", "fp32", "bf16", 0, 0, gen="v4")
    for how in range(3):
        for rev in range(4):
            case("subtract", "mult", "bf16", "fp32", how, rev)
            case("subtract", "subtract", "fp32", "fp32", how, rev)
    for k, op0 in enumerate(GBITVEC[1:]):
        op1 = ["bypass", "xor", "and", "or"][k % 4]
        case(op0, op1, "i32", "i32", k % 3, k % 4, bits=True)
        if op0 != "asr":
            case(op0, op1, "u8", "u8", (k + 1) % 3, 0, bits=True)
            case(op0, op1, "u16", "u16", (k + 2) % 3, 2, bits=True)
    case("add", "mult", "fp32", "fp32", 1, 0, opcode="TENSOR_SCALAR_PTR_ARITH_OP", force=True)
    case("and", "or", "u16", "u16", 1, 0, bits=True, opcode="TENSOR_SCALAR_PTR_BITVEC_OP", force=True)
    return out


SUBDIM = {1: 2, 2: 3, 3: 4, 4: 5}


def reduce(rng):
    out = []

    def case(op, d, do, dims, nums, kind="f", neg=0, engine="dve", gen="v3", opcode=None):
        opcode = opcode or ("TENSOR_REDUCE_BITVEC_OP" if kind == "b" else "TENSOR_REDUCE_ARITH_OP")
        c = Case(rng, opcode, gen, engine)
        a = c.tensor(d, nums)
        n = int(np.prod(nums[:dims]))
        dst = c.tensor(do, [a.len // n], fill=False)
        c.start()
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern(), op=OPS[op], op_dim=SUBDIM[dims], negated=neg)
        for ch in range(c.n):
            if kind == "f":
                r = [fold(op, g) for g in groups(a.f(ch), n)]
                dst.put_f(ch, fix([-x for x in r]) if neg else r)
            else:
                r = []
                for g in groups(a.ints(ch) if kind == "i" else a.bits(ch), n):
                    if op.startswith("amax") or op.startswith("amin"):
                        best = max(g) if "max" in op else min(g)
                        r.append(g.index(best))
                        continue
                    acc = g[0]
                    for x in g[1:]:
                        acc = (intop(op, acc, x, d) if kind == "i"
                               else bitop(op, acc, x, 8 * size(d)))
                    r.append(acc)
                dst.put_ints(ch, r)
        c.expect(dst)
        out.append(c.json(f"{opcode} {op} {d}->{do} dims {dims} neg {neg} {engine}"))

    pick = FLOATS + INTS
    for k, op in enumerate(GARITH):
        case(op, "fp32", "fp32", 1 + k % 3, [2, 3, 2], neg=k % 2)
        case(op, pick[rng.integers(0, 12)], pick[rng.integers(0, 12)], 1 + (k + 1) % 3, [3, 2, 2])
    case("add", "bf16", "fp32", 4, [2, 2, 2, 1])
    for op in ["and", "or", "xor", "bypass", "not", "lsl"]:
        for d in ["u8", "u16", "u32", "i32"]:
            case(op, d, d, 1, [4, 3], kind="b")
    for op, d in [("amax_int", "i32"), ("amin_int", "i32"), ("amax_uint", "u32"),
                  ("amin_uint", "u32")]:
        case(op, d, "u32", 1, [5, 2], kind="i", engine="pool")
    for op, d in [("add_int", "i32"), ("max_uint", "u32"), ("min_int", "i64"), ("mult_int", "i64")]:
        case(op, d, d, 1, [3, 2], kind="i", engine="pool")
    case("add", "bf16", "fp32", 1, [4, 2], gen="v2", opcode="TENSOR_REDUCE_ADD_BF16")
    case("max", "bf16", "bf16", 1, [4, 2], neg=1, gen="v2", opcode="TENSOR_REDUCE_MAX_BF16")
    return out


def scans(rng):
    out = []

    def cumulative(op, d, do, dims, bits=False):
        c = Case(rng, "TENSOR_CUMULATIVE_BITVEC_OP" if bits else "TENSOR_CUMULATIVE_ARITH_OP")
        nums = [3, 2, 2]
        a = c.tensor(d, nums)
        dst = c.tensor(do, nums, fill=False)
        c.start()
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern(), op=OPS[op], op_dim=SUBDIM[dims])
        n = int(np.prod(nums[:dims]))
        for ch in range(c.n):
            r = []
            for g in groups(a.bits(ch) if bits else a.f(ch), n):
                for k, x in enumerate(g):
                    if k:
                        x = bitop(op, r[-1], x, 8 * size(d)) if bits else f32op(op, r[-1], x)
                    r.append(x)
            dst.put_ints(ch, r) if bits else dst.put_f(ch, r)
        c.expect(dst)
        out.append(c.json(f"{c.op} {op} {d}->{do} dims {dims}"))

    for k, op in enumerate(GARITH):
        cumulative(op, ["fp32", "bf16", "i16"][k % 3], ["fp32", "bf16", "i32"][(k + 1) % 3], 1 + k % 3)
    for op in ["and", "or", "xor", "not"]:
        cumulative(op, "u16", "u16", 2, bits=True)

    def tt_scan(op0, op1, d0, d1, do, how, rev):
        c = Case(rng, "TENSOR_TENSOR_SCAN_ARITH")
        nums = [6, 2]
        a, b = c.tensor(d0, nums), c.tensor(d1, nums)
        s = scalar(c, "fp32", how, 3)
        dst = c.tensor(do, nums, fill=False)
        c.start()
        c.inst(in0_in1_dtype=pair(d0, d1), out_dtype=code(do), num_active_channels=c.n,
               src0=a.pattern(), src1=b.pattern(), dst=dst.pattern(), op0=OPS[op0], op1=OPS[op1],
               reverse_operands=rev, imm0_src=s[0], imm0=s[1], imm0_dtype=code("fp32"))
        for ch in range(c.n):
            r, res = s[2][ch], []
            for x, y in zip(a.f(ch), b.f(ch)):
                u = f32op(op0, r, x) if rev & 1 else f32op(op0, x, r)
                r = f32op(op1, y, u) if rev & 2 else f32op(op1, u, y)
                res.append(r)
            dst.put_f(ch, res)
        c.expect(dst)
        out.append(c.json(f"TENSOR_TENSOR_SCAN_ARITH {op0},{op1} {d0},{d1}->{do} imm {how} rev {rev}"))

    for k, (op0, op1) in enumerate([("mult", "add"), ("add", "max"), ("subtract", "mult"),
                                    ("max", "min"), ("mult", "subtract"), ("bypass", "add")]):
        for rev in range(4):
            tt_scan(op0, op1, ["fp32", "bf16", "i32"][k % 3], ["bf16", "fp32"][k % 2],
                    ["fp32", "fp16"][k % 2], (k + rev) % 3, rev)
    return out


def copies(rng):
    out = []
    types = FLOATS + INTS

    def case(opcode, d, do, f, **extra):
        c = Case(rng, opcode)
        nums = SHAPES[rng.integers(0, 3)][0]
        a = c.tensor(d, nums)
        dst = c.tensor(do, nums, fill=False)
        c.start()
        c.inst(in_dtype=code(d), out_dtype=code(do), num_active_channels=c.n, src=a.pattern(),
               dst=dst.pattern(), **extra)
        for ch in range(c.n):
            f(a, dst, ch)
        c.expect(dst)
        out.append(c.json(f"{opcode} {d}->{do}"))

    def move(a, dst, ch):
        dst.put_ints(ch, a.bits(ch))

    def cast(a, dst, ch):
        dst.put_ints(ch, a.bits(ch)) if a.d == dst.d else dst.put_f(ch, a.f(ch))

    def recip(a, dst, ch):
        dst.put_f(ch, f32ops("divide", [1.0] * a.len, a.f(ch)))

    for d in types:
        case("COPY", d, d, move)
        for do in types:
            case("CAST", d, do, cast)
    for d in types:
        case("RECIPROCAL", d, "fp32", recip)
    case("RECIPROCAL", "fp32", "bf16", recip)
    for d in types[:1] + ["bf16", "u8", "fp8e4", "i32"]:
        c = Case(rng, "MEMSET")
        dst = c.tensor(d, [4, 3], fill=False)
        c.start()
        v = int.from_bytes(draw(rng, d, 1).tobytes(), "little")
        c.inst(dtype=code(d), num_active_channels=c.n, dst=dst.pattern(), set_value=v,
               dst_element_count=12)
        for ch in range(c.n):
            dst.put_ints(ch, [v] * 12)
        c.expect(dst)
        out.append(c.json(f"MEMSET {d}"))
    return out


def write(name, cases):
    with open(OUT / f"{name}.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(name, len(cases))


if __name__ == "__main__":
    from vector_more import MORE

    OUT.mkdir(parents=True, exist_ok=True)
    families = {"tensor_tensor": tensor_tensor, "tensor_scalar": tensor_scalar, "reduce": reduce,
                "scans": scans, "copies": copies} | MORE
    for i, (name, make) in enumerate(families.items()):
        write(name, make(np.random.default_rng(1000 + i)))
