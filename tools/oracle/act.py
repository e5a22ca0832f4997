#!/usr/bin/env python3
"""Vectors for the activation engine, computed from the specification alone.

Writes tests/golden/act/vectors.json. Needs numpy and ml_dtypes.

out = func(scale * x + bias): the affine stage is exact and rounded once to FP32, the function is
computed in double precision and rounded to FP32, the result converts to the output type by
rounding to nearest even. The accumulator adds the FP32 results in element order.
"""

import json
import math
import pathlib
from fractions import Fraction

import ml_dtypes
import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/act/vectors.json"
U8, BF16, FP16, I32, FP32, FP8E4, FP8E5 = 3, 6, 7, 8, 10, 14, 15
TYPES = {
    U8: np.uint8, BF16: ml_dtypes.bfloat16, FP16: np.float16, I32: np.int32, FP32: np.float32,
    FP8E4: ml_dtypes.float8_e4m3, FP8E5: ml_dtypes.float8_e5m2,
}
INLINE, POINTER, REGISTER = range(3)
IDLE, ZERO, ACCUMULATE, ZERO_ACCUMULATE, LOAD_ACCUMULATE = range(5)
PSUM = 0x2000000
# Codes of ALU_OP (wiki: firmware/kernels/alu-op-matrix).
ALU = {"BYPASS": 0x00, "ADD": 0x04, "SUBTRACT": 0x05, "MULT": 0x06, "MAX": 0x08, "MIN": 0x09,
       "ABS_MAX": 0x20}
rng = np.random.default_rng(21)
cases = []
NAN = np.uint32(0x7FC00000).view(np.float32)


def sbuf(gen, partition, byte):
    return partition * ((128 if gen == "v1" else 256) << 10) + byte


def hexed(a):
    return np.ascontiguousarray(a).tobytes().hex()


def put(space, partition, byte, rows):
    """One row of bytes for each of some consecutive partitions."""
    return [{"space": space, "partition": partition, "byte": byte, "count": len(rows),
             "hex": "".join(hexed(r) for r in rows)}]


def to_f32(fraction):
    """Nearest FP32 of an exact fraction: round to odd in double precision first."""
    d = float(fraction)
    if math.isinf(d) or Fraction(d) == fraction:
        with np.errstate(over="ignore"):
            return np.float32(d)
    bits = np.float64(d).view(np.int64)
    if bits & 1 == 0:
        up = fraction > Fraction(d)
        d = np.nextafter(d, math.inf if up else -math.inf)
    with np.errstate(over="ignore"):
        return np.float32(d)


def affine(x, scale, bias):
    x, scale, bias = np.float32(x), np.float32(scale), np.float32(bias)
    if not all(np.isfinite(v) for v in (x, scale, bias)):
        with np.errstate(all="ignore"):
            y = np.float32(np.float64(x) * np.float64(scale) + np.float64(bias))
        return NAN if np.isnan(y) else y
    exact = Fraction(float(x)) * Fraction(float(scale)) + Fraction(float(bias))
    if exact == 0:
        with np.errstate(all="ignore"):
            return np.float32(np.float64(x) * np.float64(scale) + np.float64(bias))
    return to_f32(exact)


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + (0 if x <= 0 else x)


def silu_slope(x):
    e = math.exp(x)
    return (x * e + e + e * e) / (1 + e) ** 2


# name: (number in the word, exact function, whether the result has one defined bit pattern)
FUNCTIONS = {
    "Identity": (1, lambda x, a: x, True), "Copy": (128, lambda x, a: x, True),
    "Relu": (2, lambda x, a: max(x, 0.0), True),
    "Lrelu": (3, lambda x, a: float(np.float32(x) * np.float32(0.01)) if x <= 0 else x, True),
    "Prelu": (4, lambda x, a: float(np.float32(x) * np.float32(a)) if x <= 0 else x, True),
    "Square": (30, lambda x, a: float(np.float32(x) * np.float32(x)), True),
    "Abs": (33, lambda x, a: abs(x), True), "Sign": (31, lambda x, a: float((x > 0) - (x < 0)), True),
    "Is_finite": (35, lambda x, a: 1.0, True),
    "Sigmoid": (5, lambda x, a: sigmoid(x), False), "Tanh": (6, lambda x, a: math.tanh(x), False),
    "Exp": (7, lambda x, a: math.exp(x), False), "Softplus": (9, lambda x, a: softplus(x), False),
    "Sqrt": (8, lambda x, a: math.sqrt(x) if x >= 0 else math.nan, False),
    "Rsqrt": (29, lambda x, a: 1 / math.sqrt(x) if x > 0 else math.nan, False),
    "Ln": (10, lambda x, a: math.log(x) if x > 0 else math.nan, False),
    "Erf": (21, lambda x, a: math.erf(x), False), "Arctan": (28, lambda x, a: math.atan(x), False),
    "Sin": (19, lambda x, a: math.sin(x), False),
    "Gelu": (23, lambda x, a: 0.5 * x * (math.erf(x / math.sqrt(2)) + 1), False),
    "Gelu_apprx_tanh": (25, lambda x, a: 0.5 * x * (1 + math.tanh(
        0.7978845608028654 * (x + 0.044715 * x ** 3))), False),
    "Gelu_apprx_sigmoid": (26, lambda x, a: x * sigmoid(1.702 * x), False),
    "Mish": (24, lambda x, a: x * math.tanh(softplus(x)), False),
    "Silu": (36, lambda x, a: x * sigmoid(x), False),
    "Derivative_silu": (37, lambda x, a: silu_slope(x), False),
    "Reciprocal": (129, lambda x, a: 1 / x, False),
    "Derivative_Erf": (22, lambda x, a: 2 / math.sqrt(math.pi) * math.exp(-x * x), False),
}


def func(name, v, alpha=0.0):
    if np.isnan(v):
        return NAN
    y = FUNCTIONS[name][1](float(v), alpha)
    y = np.float32(y)
    return NAN if np.isnan(y) else y


def narrow(values, code):
    values = np.asarray(values, np.float32)
    if code == U8:
        return np.clip(np.rint(np.nan_to_num(values, nan=255.0)), 0, 255).astype(np.uint8)
    if code == I32:
        return np.clip(np.rint(values.astype(np.float64)), -2**31, 2**31 - 1).astype(np.int32)
    if code in (FP8E4, FP8E5):
        top = float(ml_dtypes.finfo(TYPES[code]).max)
        values = np.clip(values, -top, top)
    return values.astype(TYPES[code])


def inst(gen, name, channels, n, in_code=FP32, out_code=FP32, src=None, dst=None, **more):
    fields = {
        "in_bias_dtype": in_code | more.get("bias_code", FP32) << 4, "out_dtype": out_code,
        "num_active_channels": channels, "activation_func": FUNCTIONS[name][0],
        "accumulator_cmd": more.get("cmd", IDLE), "imm_src": more.get("imm_src", INLINE),
        "scale_src": more.get("scale_src", INLINE), "bias_src_n": more.get("bias_src_n", 1),
    }
    floats = {}
    for key, default in (("scale_value", 1.0), ("bias", 0.0), ("imm", 0.0)):
        v = more.get(key, default)
        if isinstance(v, int):
            fields[key] = v
        else:
            floats[key] = float(v)
    flat = [[1, n], [0, 1], [0, 1]]
    return {"op": "ACTIVATE", "fields": fields, "floats": floats,
            "registers": more.get("registers", {}), "patterns": {
                "src": {"addr": src if src is not None else 0, "dims": more.get("src_dims", flat)},
                "dst": {"addr": dst if dst is not None else 4096, "dims": more.get("dst_dims", flat)}}}


def read(gen, channels, dtype, dst):
    return {"op": "ACTIVATION_READ_ACCUMULATOR",
            "fields": {"dst_element_count": 1, "dtype": dtype, "num_active_channels": channels},
            "patterns": {"dst": {"addr": dst, "dims": [[1, 1]]}}}


def add(name, gen, puts, insts, expect, **more):
    cases.append({"name": name, "gen": gen, "put": puts, "insts": insts, "expect": expect, **more})


GRID = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.1, -3.0, 2.25, 3.0, -1e-3, 1e-8, 1.7, -2.6],
                np.float32)

for name, (_, _, exact) in FUNCTIONS.items():
    x = GRID
    if name in ("Sqrt", "Rsqrt", "Ln", "Reciprocal"):
        x = np.abs(GRID) + np.float32(0.25)
    if name == "Arctan":
        x = np.clip(GRID, -1.5, 1.5).astype(np.float32)
    y = np.array([func(name, v, 0.25) for v in x], np.float32)
    # A function of +0 or -0 keeps or loses the sign as the formula says; the affine stage gives +0.
    y = np.array([func(name, affine(v, 1.0, 0.0), 0.25) for v in x], np.float32)
    add(f"function {name}", "v3", put("sbuf", 0, 0, [x]),
        [inst("v3", name, 1, len(x), imm=0.25)], put("sbuf", 0, 4096, [y]),
        tolerance=0.0 if exact else 3e-7)

special = np.array([np.nan, np.inf, -np.inf], np.float32)
for name, want in (("Identity", [NAN, np.inf, -np.inf]), ("Relu", [0.0, np.inf, 0.0]),
                   ("Exp", [NAN, np.inf, 0.0]), ("Tanh", [NAN, 1.0, -1.0]),
                   ("Is_finite", [0.0, 0.0, 0.0]), ("Sigmoid", [NAN, 1.0, 0.0])):
    add(f"special values of {name}", "v3", put("sbuf", 0, 0, [special]),
        [inst("v3", name, 1, 3)], put("sbuf", 0, 4096, [np.array(want, np.float32)]))


def affine_cases():
    channels, n = 5, 7
    for gen in ("v1", "v2", "v3", "v4"):
        x = rng.standard_normal((channels, n)).astype(np.float32)
        s, b = np.float32(1.7), np.float32(-0.3)
        y = [[affine(v, s, b) for v in r] for r in x]
        add(f"{gen} inline scale and bias", gen, put("sbuf", 0, 0, x),
            [inst(gen, "Identity", channels, n, scale_value=s, bias=b)],
            put("sbuf", 0, 4096, np.array(y, np.float32)))
    for code in (FP32, BF16, FP16):
        x = rng.standard_normal((channels, n)).astype(np.float32)
        s = rng.standard_normal((channels, 1)).astype(np.float32)
        b = rng.standard_normal((channels, 1)).astype(TYPES[code])
        y = [[affine(v, s[p, 0], np.float32(b[p, 0])) for v in r] for p, r in enumerate(x)]
        puts = put("sbuf", 32, 0, x) + put("sbuf", 32, 512, s) + put("psum", 64, 640, b)
        base = inst("v3", "Identity", channels, n, src=sbuf("v3", 32, 0), dst=sbuf("v3", 0, 64),
                    scale_src=POINTER, scale_value=sbuf("v3", 32, 512), bias_src_n=0,
                    bias_code=code, bias=PSUM + 64 * 32768 + 640)
        add(f"scale and bias pointers, bias {code}", "v3", puts, [base],
            put("sbuf", 0, 64, np.array(y, np.float32)))
        reg = inst("v3", "Identity", channels, n, src=sbuf("v3", 32, 0), dst=sbuf("v3", 0, 64),
                   scale_src=REGISTER, scale_value=7, bias_src_n=2, bias_code=code, bias=8,
                   registers={"7": sbuf("v3", 32, 512), "8": PSUM + 64 * 32768 + 640})
        add(f"scale and bias through registers, bias {code}", "v3", puts, [reg],
            put("sbuf", 0, 64, np.array(y, np.float32)))
    # One rounding: 1 + 2^-24 in two roundings would lose the tail.
    e = np.float32(1 + 2.0 ** -12)
    x = np.array([[e, -e, 2.0 ** -100, 3.0e38]], np.float32)
    y = [[affine(v, e, np.float32(-1 - 2.0 ** -11)) for v in x[0]]]
    add("affine rounds once", "v3", put("sbuf", 0, 0, x),
        [inst("v3", "Identity", 1, 4, scale_value=float(e), bias=float(-1 - 2.0 ** -11))],
        put("sbuf", 0, 4096, np.array(y, np.float32)))


affine_cases()


def dtypes():
    channels, n = 3, 16
    for i in (U8, BF16, FP16, I32, FP8E4, FP8E5, FP32):
        for o in (U8, BF16, FP16, I32, FP8E4, FP8E5):
            if i in (U8, I32):
                x = rng.integers(0, 200, (channels, n)).astype(TYPES[i])
            else:
                x = (rng.standard_normal((channels, n)) * 30).astype(np.float32).astype(TYPES[i])
            y = [[func("Relu", affine(np.float32(v), 1.5, -20.0)) for v in r] for r in x]
            add(f"{i} to {o}", "v3", put("sbuf", 0, 0, x),
                [inst("v3", "Relu", channels, n, i, o, scale_value=1.5, bias=-20.0)],
                put("sbuf", 0, 4096, narrow(y, o)))


dtypes()


def accumulators():
    channels, n = 4, 6
    x = [rng.standard_normal((channels, n)).astype(np.float32) for _ in range(3)]
    puts = sum((put("sbuf", 0, 64 * i, a) for i, a in enumerate(x)), [])

    def total(start, *parts):
        acc = np.full(channels, start, np.float32)
        for part in parts:
            for j in range(n):
                acc = (acc + part[:, j]).astype(np.float32)
        return acc

    def act(i, cmd, **more):
        return inst("v3", "Identity", channels, n, src=64 * i, dst=1024 + 64 * i, cmd=cmd, **more)

    rd = read("v3", channels, FP32, 512)
    sequences = {
        "zero then add": ([(0, ZERO_ACCUMULATE), (1, ACCUMULATE)], total(0, x[0], x[1])),
        "idle changes nothing": ([(0, ZERO_ACCUMULATE), (1, IDLE)], total(0, x[0])),
        "zero clears": ([(0, ZERO_ACCUMULATE), (1, ZERO), (2, ACCUMULATE)], total(0, x[2])),
        "restart": ([(0, ZERO_ACCUMULATE), (1, ZERO_ACCUMULATE)], total(0, x[1])),
    }
    for name, (steps, want) in sequences.items():
        add(name, "v3", puts, [act(i, c) for i, c in steps] + [rd],
            put("sbuf", 0, 512, want[:, None])
            + put("sbuf", 0, 1024 + 64 * steps[-1][0], x[steps[-1][0]]))
    add("load then add", "v3", puts, [act(0, LOAD_ACCUMULATE, imm=2.5), act(1, ACCUMULATE), rd],
        put("sbuf", 0, 512, total(2.5, x[0], x[1])[:, None]))
    p = rng.standard_normal((channels, 1)).astype(np.float32)
    add("load from a pointer", "v3", puts + put("sbuf", 0, 800, p),
        [act(0, LOAD_ACCUMULATE, imm_src=POINTER, imm=800), rd],
        put("sbuf", 0, 512, np.array([[np.float32(v)] for v in
                                      [total(p[c, 0], x[0])[c] for c in range(channels)]])))
    for code in (BF16, FP16):
        add(f"read as {code}", "v3", puts,
            [act(0, ZERO_ACCUMULATE), read("v3", channels, code, 512)],
            put("sbuf", 0, 512, total(0, x[0])[:, None].astype(TYPES[code])))
    add("read into psum", "v3", puts,
        [act(0, ZERO_ACCUMULATE), read("v3", channels, FP32, PSUM + 16)],
        put("psum", 0, 16, total(0, x[0])[:, None]))
    # The read-out may land on the output of the activation and survives there.
    want = x[0].copy()
    want[:, 0] = total(0, x[0])
    add("result over the destination", "v3", puts,
        [act(0, ZERO_ACCUMULATE), read("v3", channels, FP32, 1024)], put("sbuf", 0, 1024, want))


accumulators()


def patterns():
    x = rng.standard_normal((3, 40)).astype(np.float32)
    order = [2 * i + 7 * j for j in range(2) for i in range(4)]
    places = [3 * i + 1 * j for j in range(2) for i in range(4)]
    want = np.zeros((3, 16), np.float32)
    want[:, places] = x[:, order]
    add("strided, psum to psum", "v3", put("psum", 0, 0, x) + put("psum", 0, 512, np.zeros((3, 16), np.float32)),
        [inst("v3", "Identity", 3, 8, src=PSUM, dst=PSUM + 512,
              src_dims=[[2, 4], [7, 2], [0, 1]], dst_dims=[[3, 4], [1, 2], [0, 1]])],
        put("psum", 0, 512, want))
    add("in place", "v3", put("sbuf", 0, 0, x),
        [inst("v3", "Square", 3, 40, src=0, dst=0)], put("sbuf", 0, 0, (x * x).astype(np.float32)))
    add("reversed in place", "v3", put("sbuf", 0, 0, x),
        [inst("v3", "Identity", 3, 40, src=156, dst=0, src_dims=[[-1, 40], [0, 1], [0, 1]])],
        put("sbuf", 0, 0, x[:, ::-1]))
    # Partitions 32.. to 0.. over themselves: every source is read first.
    wide = rng.standard_normal((64, 2)).astype(np.float32)
    add("shifted partitions", "v3", put("sbuf", 0, 0, wide),
        [inst("v3", "Identity", 32, 2, src=0, dst=sbuf("v3", 32, 0)),
         inst("v3", "Identity", 32, 2, src=sbuf("v3", 32, 0), dst=0)],
        put("sbuf", 32, 0, wide[:32]) + put("sbuf", 0, 0, wide[:32]))
    add("counts differ", "v3", [], [inst("v3", "Identity", 3, 8, dst_dims=[[1, 7], [0, 1], [0, 1]])],
        [], error="tensor_same_num_elements")
    add("no such immediate source", "v3", [], [inst("v3", "Identity", 3, 8, scale_src=3)], [],
        error="imm_src")
    add("no such accumulator command", "v3", [], [inst("v3", "Identity", 3, 8, cmd=5)], [],
        error="accumulator_cmd")
    add("unnamed function", "v3", [], [inst("v3", "Identity", 3, 8)], [],
        error="activation function number")
    cases[-1]["insts"][0]["fields"]["activation_func"] = 250
    r = read("v3", 3, FP32, 0)
    r["fields"]["negated"] = 1
    add("negated read", "v3", [], [r], [], error="negated")
    add("read as int32", "v3", [], [read("v3", 3, I32, 0)], [], error="accumulator_dtype")


patterns()


def quantize():
    channels, n = 3, 12
    for gen in ("v1", "v2", "v4"):
        for code in (FP32, I32):
            x = (rng.standard_normal((channels, n)) * 200).astype(np.float32)
            x = np.rint(x).astype(np.int32) if code == I32 else x
            b = rng.standard_normal((channels, 1)).astype(np.float32)
            ds, qs, z = np.float32(0.03), np.float32(11.5), np.float32(7.0)
            y = [[affine(func("Relu", affine(np.float32(v), ds, b[p, 0])), qs, z) for v in r]
                 for p, r in enumerate(x)]
            i = {"op": "ACTIVATE_QUANTIZE", "fields": {
                "in_bias_dtype": code | FP32 << 4, "out_dtype": U8, "num_active_channels": channels,
                "activation_func": 2, "bias_addr": 2048},
                "floats": {"quant_scale_value": float(qs), "dequant_scale_value": float(ds),
                           "quant_zero_value": float(z)},
                "patterns": {"src": {"addr": 0, "dims": [[1, n], [0, 1], [0, 1]]},
                             "dst": {"addr": 4096, "dims": [[1, n], [0, 1], [0, 1]]}}}
            puts = put("sbuf", 0, 0, x) + put("sbuf", 0, 2048, b)
            add(f"{gen} quantise {code}", gen, puts, [i], put("sbuf", 0, 4096, narrow(y, U8)))
    for key, value, rule in (("out_dtype", FP32, "aq_out_dtype"), ("activation_func", 4, "aq_function"),
                             ("in_bias_dtype", BF16 | FP32 << 4, "aq_in_dtype")):
        bad = json.loads(json.dumps(i))
        bad["fields"][key] = value
        add(f"quantise, bad {key}", "v4", [], [bad], [], error=rule)
    bad = json.loads(json.dumps(i))
    bad["floats"]["quant_scale_value"] = 0.0
    add("quantise, zero scale", "v4", [], [bad], [], error="aq_scales")


quantize()


def activate2():
    channels, n = 4, 9
    ops = {"ADD": ALU["ADD"], "SUB": ALU["SUBTRACT"], "MULT": ALU["MULT"], "BYPASS": ALU["BYPASS"]}

    def stage(op, x, s, rev):
        a, b = (s, x) if rev else (x, s)
        with np.errstate(all="ignore"):
            return {"ADD": lambda: a + b, "SUB": lambda: a - b, "MULT": lambda: a * b,
                    "BYPASS": lambda: x}[op]().astype(np.float32)

    pairs = [("MULT", "ADD"), ("MULT", "SUB"), ("MULT", "BYPASS"), ("ADD", "BYPASS"),
             ("SUB", "BYPASS"), ("BYPASS", "BYPASS")]
    reduces = [("ADD", lambda a, b: np.float32(a + b), 0.0), ("MAX", max, -math.inf),
               ("MIN", min, math.inf),
               ("ABS_MAX", lambda a, b: max(abs(a), abs(b)), 0.0)]
    for gen in ("v4", "v5"):
        for index, (op0, op1) in enumerate(pairs):
            for rev in range(4):
                x = rng.standard_normal((channels, n)).astype(TYPES[BF16]).astype(np.float32)
                s0 = rng.standard_normal((channels, 1)).astype(np.float32)
                s1 = np.float32(0.75)
                v = stage(op0, x, s0, rev & 1)
                v = stage(op1, v, np.full_like(x, s1), rev & 2)
                y = np.array([[func("Prelu", q, 0.125) for q in r] for r in v], np.float32)
                rname, rfn, start = reduces[(index + rev) % 3]
                acc = np.full((channels, 1), start, np.float32)
                for j in range(n):
                    acc = np.array([[rfn(acc[c, 0], y[c, j])] for c in range(channels)], np.float32)
                i = {"op": "ACTIVATE2", "fields": {
                    "imm0_src": POINTER, "imm0": 2048, "imm1_src": INLINE, "relu_param_src": INLINE,
                    "imm_dtype": FP32, "op0": ops[op0], "op1": ops[op1], "reduce_cmd": 3,
                    "reduce_op": ALU[rname], "in_dtype": BF16, "out_dtype": FP32,
                    "num_active_channels": channels, "activation_func": 4, "reverse_operands": rev},
                    "floats": {"imm1": float(s1), "relu_param": 0.125},
                    "patterns": {"src": {"addr": 0, "dims": [[1, n], [0, 1]]},
                                 "dst": {"addr": 4096, "dims": [[1, n], [0, 1]]}}}
                insts, expect = [i], put("sbuf", 0, 4096, y)
                if gen == "v4":
                    insts = [i, read(gen, channels, FP32, 6000)]
                    expect += put("sbuf", 0, 6000, acc)
                add(f"{gen} {op0} {op1} reverse {rev} reduce {rname}", gen,
                    put("sbuf", 0, 0, x.astype(TYPES[BF16])) + put("sbuf", 0, 2048, s0),
                    insts, expect)
    for key, value, rule in (("op0", ALU["MAX"], "activate2_op_pair"),
                             ("reduce_cmd", 0, "activate2_reduce")):
        bad = json.loads(json.dumps(i))
        bad["fields"][key] = value
        add(f"ACTIVATE2, bad {key}", "v4", [], [bad], [], error=rule)


activate2()

if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases", OUT.stat().st_size, "bytes")
