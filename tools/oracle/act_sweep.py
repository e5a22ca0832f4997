#!/usr/bin/env python3
"""Sweep of the activation opcodes over layouts, partitions, PSUM, types, scalar sources and
accumulator commands. Writes tests/golden/act/sweep.json in the format of act.py. Run from the root
of the repository."""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from act import ALU, FUNCTIONS, affine, func  # noqa: E402
from sweep_case import FLOATS, INTS, V1_TYPES, Trial, narrow, pair  # noqa: E402
from vector_numbers import code, f32op, f32ops  # noqa: E402

OUT = pathlib.Path("tests/golden/act/sweep.json")
EXACT = [n for n, (_, _, exact) in FUNCTIONS.items() if exact]
SMOOTH = ["Sigmoid", "Tanh", "Exp", "Softplus", "Erf", "Gelu", "Silu", "Gelu_apprx_tanh", "Mish"]
f = np.float32
cases = []


class Case(Trial):
    def __init__(self, rng, gen):
        super().__init__(rng, gen, "dve")  # reaches PSUM as the vector engine does

    def step(self, op, fields, floats=None, **patterns):
        self.inst(op, fields=fields, floats=floats or {}, patterns=patterns)
        i = self.insts.pop()
        self.insts.append({"op": op, "fields": i["fields"], "floats": i["floats"],
                           "registers": dict(self.registers), "patterns": i["patterns"]})

    def shape(self, t, dims):
        rest = [[0, 1]] * (dims - len(t.nums))
        return {"addr": t.addr(), "dims": [list(p) for p in zip(t.steps, t.nums)] + rest}

    def value(self, d, how, register, choose):
        """(source, field value or None, float or None, value of each channel)."""
        if how == 0:
            v = f(choose())
            return 0, None, float(v), [v] * self.n
        t = self.operand(d, 1, 1, nums=[1], steps=[1], values=lambda c, n: narrow([choose()], d))
        values = [t.f(c)[0] for c in range(self.n)]
        if how == 1:
            return 1, t.addr(), None, values
        self.registers[str(register)] = t.addr()
        return 2, register, None, values

    def finish(self, name, tolerance=0.0):
        def row(key, data):
            space, p, b = key
            return {"space": space, "partition": p, "byte": b, "count": 1, "hex": data.hex()}

        cases.append({"name": f"{name} {self.gen}", "gen": self.gen.replace("plus", "+"),
                      "put": [row(k, v) for k, v in self.before.items()], "insts": self.insts,
                      "expect": [row(k, bytes(self.mem[k])) for t in self.outputs
                                 for k in t.keys()], "tolerance": tolerance})


def put_scalars(fields, floats, **named):
    for key, (_, value, inline, _) in named.items():
        if inline is None:
            fields[key] = value
        else:
            floats[key] = inline


def apply(name, v, alpha):
    if name == "Is_finite":
        return f(np.isfinite(v))
    return func(name, v, alpha)


def read(t, acc, k):
    d = ["fp32", "bf16", "fp16"][k % 3]
    dst = t.operand(d, 1, 1, "dst", nums=[1], steps=[1], psum=k % 4 == 0)
    t.late()
    t.step("ACTIVATION_READ_ACCUMULATOR", {"dst_element_count": 1, "dtype": code(d),
                                           "num_active_channels": t.n}, dst=t.shape(dst, 1))
    for c in range(t.n):
        dst.put_f(c, [acc[c]])
    t.outputs.append(dst)


def activate(rng):
    gens = ["v1", "v2", "v3", "v4", "v4plus"]
    for k in range(150):
        gen = gens[k % 5]
        smooth = k % 5 == 4 or k % 7 == 6
        name = SMOOTH[k % len(SMOOTH)] if smooth else EXACT[k % len(EXACT)]
        names = V1_TYPES if gen == "v1" else FLOATS + INTS
        d, do = names[(5 * k) % len(names)], names[(7 * k + 1) % len(names)]
        if smooth:
            d, do = ["fp32", "bf16", "fp16"][k % 3], "fp32"
        db = ["fp32", "bf16", "fp16"][k // 3 % 3]
        cmds = [[0], [3], [3, 2], [4], [3, 1, 2], [3, 0]][k % 6] if gen != "v1" else [0]
        t = Case(rng, gen)
        n = int(rng.integers(1, 13))
        calm = lambda c, m: narrow(rng.standard_normal(m) * 2, d)
        a = t.operand(d, n, 3, values=calm if smooth or any(cmds) and d in FLOATS else None,
                      psum=t.chance(4), special=False)
        number = lambda: rng.standard_normal()
        how = lambda: int(rng.integers(0, 2 if gen == "v1" else 3))
        scale, bias = t.value("fp32", how(), 3, number), t.value(db, how(), 4, number)
        imm = t.value("fp32", how(), 5, number)
        # LOAD_ACCUMULATE starts from the immediate
        fields = {"in_bias_dtype": pair(a.d, db), "out_dtype": code(do),
                  "num_active_channels": t.n, "activation_func": FUNCTIONS[name][0],
                  "imm_src": imm[0], "scale_src": scale[0], "bias_src_n": [1, 0, 2][bias[0]]}
        floats = {}
        put_scalars(fields, floats, scale_value=scale, bias=bias, imm=imm)
        dst = t.operand(do, n, 3, "dst", psum=t.chance(4))
        acc = [f(0)] * t.n
        for cmd in cmds:
            t.step("ACTIVATE", fields | {"accumulator_cmd": cmd}, floats, src=t.shape(a, 3),
                   dst=t.shape(dst, 3))
            for c in range(t.n):
                r = [apply(name, affine(x, scale[3][c], bias[3][c]), imm[3][c]) for x in a.f(c)]
                dst.put_f(c, r)
                if cmd == 0:
                    continue
                total = {1: f(0), 2: acc[c], 3: f(0), 4: imm[3][c]}[cmd]
                for y in r if cmd > 1 else []:
                    total = f32op("add", total, y)
                acc[c] = total
        t.outputs.append(dst)
        if any(cmds) and not smooth:
            read(t, acc, k)
        t.finish(f"ACTIVATE {name} {d}->{do} bias {db} {cmds}", 3e-7 if smooth else 0.0)


def quantize(rng):
    for k in range(32):
        gen = ["v1", "v2", "v3", "v4"][k % 4]
        name = ["Relu", "Identity", "Abs", "Square", "Sign", "Lrelu"][k % 6]
        d, db = ["fp32", "i32"][k // 2 % 2], ["fp32", "bf16", "fp16"][k % 3]
        t = Case(rng, gen)
        n = int(rng.integers(1, 13))
        a = t.operand(d, n, 3, psum=t.chance(4), special=False)
        bias = t.value(db, 1, 0, lambda: rng.standard_normal())
        dequant, quant, zero = (f(x) for x in (rng.uniform(0.01, 1), rng.uniform(1, 40),
                                               rng.integers(0, 128)))
        dst = t.operand("u8", n, 3, "dst")
        t.step("ACTIVATE_QUANTIZE", {
            "in_bias_dtype": pair(d, db), "out_dtype": code("u8"), "num_active_channels": t.n,
            "activation_func": FUNCTIONS[name][0], "bias_addr": bias[1]},
            {"quant_scale_value": float(quant), "dequant_scale_value": float(dequant),
             "quant_zero_value": float(zero)}, src=t.shape(a, 3), dst=t.shape(dst, 3))
        for c in range(t.n):
            dst.put_f(c, [affine(apply(name, affine(x, dequant, bias[3][c]), f(0)), quant, zero)
                          for x in a.f(c)])
        t.outputs.append(dst)
        t.finish(f"ACTIVATE_QUANTIZE {name} {d} bias {db}")


def activate2(rng):
    pairs = [("mult", "add"), ("mult", "subtract"), ("mult", "bypass"), ("add", "bypass"),
             ("subtract", "bypass"), ("bypass", "bypass")]
    names = {"add": "ADD", "subtract": "SUBTRACT", "mult": "MULT", "bypass": "BYPASS",
             "max": "MAX", "min": "MIN", "absmax": "ABS_MAX"}
    start = {"add": 0.0, "max": -np.inf, "min": np.inf, "absmax": 0.0}
    for k in range(90):
        gen = ["v4", "v4plus", "v5"][k % 3]
        name = EXACT[k % len(EXACT)]
        d, do = (FLOATS + INTS)[(5 * k) % 12], (FLOATS + INTS)[(7 * k + 1) % 12]
        op0, op1 = pairs[k % 6]
        rev, red = k // 6 % 4, ["add", "max", "min", "absmax"][k % 4]
        if op0 == "bypass":
            rev &= 2  # a reversed bypass would pass the scalar
        if op1 == "bypass":
            rev &= 1
        cmds = [[0], [3], [3, 2], [1, 2], [3, 3], [3, 0]][k // 3 % 6]
        t = Case(rng, gen)
        n = int(rng.integers(1, 13))
        a = t.operand(d, n, 2, psum=t.chance(4), special=False)
        di = ["fp32", "bf16", "fp16"][k // 2 % 3]
        how = (lambda: int(rng.integers(0, 3))) if di == "fp32" else \
            (lambda: int(rng.integers(1, 3)))
        number = lambda: rng.standard_normal()
        s0, s1, slope = (t.value(di, how(), r, number) for r in (3, 4, 5))
        dst = t.operand(do, n, 2, "dst", psum=t.chance(4))
        fields = {"imm0_src": s0[0], "imm1_src": s1[0], "relu_param_src": slope[0],
                  "imm_dtype": code(di), "op0": ALU[names[op0]], "op1": ALU[names[op1]],
                  "in_dtype": code(a.d), "out_dtype": code(do), "num_active_channels": t.n,
                  "activation_func": FUNCTIONS[name][0], "reverse_operands": rev}
        floats = {}
        put_scalars(fields, floats, imm0=s0, imm1=s1, relu_param=slope)
        acc = [f(0)] * t.n
        for cmd in cmds:
            t.step("ACTIVATE2", fields | {"reduce_cmd": cmd,
                                          "reduce_op": ALU[names[red]] if cmd else 0}, floats,
                   src=t.shape(a, 2), dst=t.shape(dst, 2))
            for c in range(t.n):
                v = list(a.f(c))
                for op, s, r in ((op0, s0[3][c], rev & 1), (op1, s1[3][c], rev & 2)):
                    if op != "bypass":
                        x = [s] * n
                        v = f32ops(op, x, v) if r else f32ops(op, v, x)
                y = [apply(name, x, slope[3][c]) for x in v]
                dst.put_f(c, y)
                if cmd == 0:
                    continue
                total = f(start[red]) if cmd in (1, 3) else acc[c]
                for x in y if cmd > 1 else []:
                    total = f32op(red, total, x)
                acc[c] = total
        t.outputs.append(dst)
        if any(cmds) and gen != "v5":
            read(t, acc, k)
        t.finish(f"ACTIVATE2 {op0},{op1} {name} {d}->{do} rev {rev} {red} {cmds}")


activate(np.random.default_rng(7001))
quantize(np.random.default_rng(7002))
activate2(np.random.default_rng(7003))
OUT.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases", OUT.stat().st_size, "bytes")
