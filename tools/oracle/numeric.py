#!/usr/bin/env python3
"""Writes tests/golden/numeric/*.json: results of numpy, ml_dtypes and mpmath.

The tests compare the emulator's numbers with these files, so that they need no Python. Run it in an
environment that has the three packages:

    python3 tools/oracle/numeric.py tests/golden/numeric

Long result lists are stored as a hash and some samples. The hash of 64-bit words v[0], v[1], ... is
the sum of (v[i] + 1) * K**(i + 1) modulo 2**64.
"""

import json
import os
import sys

import ml_dtypes
import mpmath
import numpy as np

K = np.uint64(0x9E3779B97F4A7C15)

FLOATS = {
    "fp8e3": ml_dtypes.float8_e3m4,
    "fp8e4": ml_dtypes.float8_e4m3,
    "fp8e4fn": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp32": np.float32,
}
INTS = {
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
}
# What NaN becomes: (bits without sign, whether the sign stays).
NAN = {
    "fp8e3": (0x78, False),
    "fp8e4": (0x7C, False),
    "fp8e4fn": (0x7F, False),
    "fp8e5": (0x7E, False),
    "bf16": (0x7FC0, False),
    "fp16": (0x7E00, True),
}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits_of(array):
    return array.view(UNSIGNED[array.dtype.itemsize])


def digest(values):
    with np.errstate(over="ignore"):
        values = values.astype(np.uint64)
        powers = np.cumprod(np.full(len(values), K, dtype=np.uint64))
        return int(np.sum((values + np.uint64(1)) * powers, dtype=np.uint64))


def narrow(hub, name, saturate):
    """Results of storing the FP32 numbers `hub` as dtype `name`, as bits."""
    nan = np.isnan(hub)
    sign = np.signbit(hub)
    if name in INTS:
        info = np.iinfo(INTS[name])
        with np.errstate(invalid="ignore"):
            rounded = np.rint(hub.astype(np.float64))
        out = np.zeros(len(hub), dtype=INTS[name])
        high = rounded >= float(info.max)
        low = rounded <= float(info.min)
        rest = ~(nan | high | low)
        out[rest] = rounded[rest].astype(INTS[name])
        out[high & ~nan] = info.max
        out[low & ~nan] = info.min
        out[nan & sign] = info.min
        out[nan & ~sign] = info.max
        return bits_of(out)
    if name == "fp32":
        return bits_of(hub)
    source = hub
    if saturate:
        limit = float(ml_dtypes.finfo(FLOATS[name]).max)
        source = np.where(nan, hub, np.clip(hub, np.float32(-limit), np.float32(limit)))
    with np.errstate(over="ignore", invalid="ignore"):
        out = bits_of(source.astype(np.float32).astype(FLOATS[name])).copy()
    if name == "fp8e4fn":
        nan = nan | ((out & 0x7F) == 0x7F)
    code, keep = NAN[name]
    top = 1 << (8 * out.itemsize - 1)
    out[nan] = code
    if keep:
        out[nan & sign] |= top
    return out


def fp32_inputs():
    """Every upper half word with lower halves around the ties of all formats."""
    low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    high = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return (high[:, None] | low[None, :]).reshape(-1)


def samples(source, result, count):
    """Evenly spread (source bits, result bits), as hexadecimal text."""
    step = max(1, len(source) // count)
    picks = range(step // 2, len(source), step)
    return [[f"{int(source[i]):x}", f"{int(result[i]):x}"] for i in picks]


def conversions():
    rows = []
    for name, dtype in {**FLOATS, **INTS}.items():
        size = np.dtype(dtype).itemsize
        if size > 4 or name in ("int32", "uint32"):
            continue
        source = fp32_inputs() if size == 4 else np.arange(1 << (8 * size), dtype=UNSIGNED[size])
        with np.errstate(invalid="ignore"):
            hub = source.view(dtype).astype(np.float32)
        # How a NaN's payload widens is not compared, only that it is one.
        nan = np.isnan(hub)
        if name != "fp32":
            sign = (source >> (8 * size - 1)) & 1
            hub = np.where(nan, np.where(sign == 1, np.float32(-np.nan), np.float32(np.nan)), hub)
            hub[nan] = (0x7FC00000 | (sign[nan].astype(np.uint32) << np.uint32(31))).view(np.float32)
        for to in {**FLOATS, **INTS}:
            if to == name:
                continue
            for saturate in (False, True) if to.startswith("fp8") else (False,):
                result = narrow(hub, to, saturate)
                if to == "fp32":
                    result = result.copy()
                    result[nan] = 0x7FC00000
                rows.append(
                    {
                        "from": name,
                        "to": to,
                        "saturate": saturate,
                        "count": len(source),
                        "hash": f"{digest(result):x}",
                        "samples": samples(source, result, 12),
                    }
                )
    return rows


def wide_integers():
    """FP32 of 32- and 64-bit integers around powers of two, where the hub rounds."""
    rows = []
    for name in ("int32", "uint32", "int64", "uint64"):
        dtype = INTS[name]
        info = np.iinfo(dtype)
        values = set()
        for power in range(0, 65):
            for offset in (-3, -2, -1, 0, 1, 2, 3):
                for step in (1, 1 << max(0, power - 25), 3 << max(0, power - 25)):
                    for sign in (1, -1):
                        value = sign * ((1 << power) + offset * step)
                        if info.min <= value <= info.max:
                            values.add(value)
        source = np.array(sorted(values), dtype=dtype)
        result = bits_of(source.astype(np.float32))
        rows.append(
            {"from": name, "pairs": [[str(int(v)), f"{int(b):x}"] for v, b in zip(source, result)]}
        )
    return rows


def decodes():
    """Values of the small formats, as FP32 bits in order of code."""
    tables = {
        "fp4e2": (ml_dtypes.float4_e2m1fn, 16),
        "fp6e2m3": (ml_dtypes.float6_e2m3fn, 64),
        "sfp8e8": (ml_dtypes.float8_e8m0fnu, 255),
    }
    return {
        name: [
            f"{int(b):x}"
            for b in bits_of(np.arange(n, dtype=np.uint8).view(dtype).astype(np.float32))
        ]
        for name, (dtype, n) in tables.items()
    }


def integer_ops():
    """All pairs of 8-bit operands, wrapping results."""
    rows = []
    for name in ("int8", "uint8"):
        dtype = INTS[name]
        values = np.arange(256, dtype=np.uint8).view(dtype)
        a = np.repeat(values, 256)
        b = np.tile(values, 256)
        wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
        one = lambda x: x.astype(np.int64)
        safe = np.where(wide_b == 0, 1, wide_b)
        kind = "INT" if name == "int8" else "UINT"
        with np.errstate(all="ignore"):
            quotient = np.where(wide_b == 0, 0 if name == "int8" else 255, np.trunc(wide_a / safe))
            ops = {
                "ADD_INT": wide_a + wide_b,
                "SUBTRACT_INT": wide_a - wide_b,
                "MULT_INT": wide_a * wide_b,
                f"DIVIDE_{kind}": quotient,
                f"MOD_{kind}": np.where(wide_b == 0, 0, np.fmod(wide_a, safe)),
                "MOD": np.where(wide_b == 0, 0, np.mod(wide_a, safe)),
                f"MAX_{kind}": np.maximum(a, b),
                f"MIN_{kind}": np.minimum(a, b),
                f"IS_GT_{kind}": one(a > b),
                f"IS_GE_{kind}": one(a >= b),
                f"IS_LE_{kind}": one(a <= b),
                f"IS_LT_{kind}": one(a < b),
                "IS_EQUAL_INT": one(a == b),
                "IS_NE_INT": one(a != b),
                "ABSOLUTE_DIFF": np.abs(wide_a - wide_b),
                "ABS_MAX": np.maximum(np.abs(wide_a), np.abs(wide_b)),
                "ABS_MIN": np.minimum(np.abs(wide_a), np.abs(wide_b)),
                "BITWISE_AND": a & b,
                "BITWISE_OR": a | b,
                "BITWISE_XOR": a ^ b,
                "BITWISE_NOT": ~a,
                "LOGICAL_AND": one(np.logical_and(a, b)),
                "LOGICAL_XOR": one(np.logical_xor(a, b)),
            }
        for op, result in ops.items():
            result = bits_of(result.astype(np.int64).astype(dtype))
            rows.append({"op": op, "dtype": name, "hash": f"{digest(result):x}"})
    return rows


def activations():
    """Closed forms in 60 digits, rounded to FP32."""
    mpmath.mp.dps = 60
    f = mpmath.mpf
    exp, tanh, erf = mpmath.exp, mpmath.tanh, mpmath.erf
    sigmoid = lambda x: 1 / (exp(-x) + 1)
    softplus = lambda x: mpmath.log1p(exp(-abs(x))) + (x if x > 0 else 0)
    slope = lambda u: (u + exp(u) + 1) * exp(u) / (exp(u) + 1) ** 2
    positive = {"Ln", "Sqrt", "Rsqrt"}
    root2, root_2_pi = f(1.414213562373095), f(0.7978845608028654)
    functions = {
        "Sigmoid": sigmoid,
        "Tanh": tanh,
        "Exp": exp,
        "Softplus": softplus,
        "Sqrt": mpmath.sqrt,
        "Rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "Ln": mpmath.log,
        "Erf": erf,
        "Sin": mpmath.sin,
        "Arctan": mpmath.atan,
        "Gelu": lambda x: 0.5 * x * (erf(x / root2) + 1),
        "Mish": lambda x: x * tanh(softplus(x)),
        "Gelu_apprx_tanh": lambda x: 0.5 * x * (tanh((f(0.044715) * x**3 + x) * root_2_pi) + 1),
        "Gelu_apprx_sigmoid": lambda x: x * sigmoid(f(1.702) * x),
        "Derivative_Gelu_apprx_sigmoid": lambda x: slope(f(1.702) * x),
        "Derivative_Gelu": lambda x: 0.5 * (erf(x * f(0.7071067811865476)) + 1)
        + x * f(0.3989423) * exp(-x * x / 2),
        "Derivative_Erf": lambda x: exp(-x * x) * f(1.1283792),
        "Reciprocal": lambda x: 1 / x,
        "Abs_reciprocal_sqrt": lambda x: 1 / mpmath.sqrt(abs(x)),
        "Silu": lambda x: x * sigmoid(x),
        "Derivative_silu": slope,
    }
    inputs = []
    for i in range(240):
        magnitude = 2.0 ** (-20 + i * 26.0 / 240) * (1 + (i * 0.37) % 1)
        inputs.append(np.float32(magnitude if i % 2 else -magnitude))
    rows = []
    for name, function in functions.items():
        pairs = []
        for x in inputs:
            x = abs(x) if name in positive else x
            if name == "Sin" and abs(x) > 3.14:
                continue
            y = function(f(float(x)))
            # Twice rounded, but 53 bits of 60 digits: a tie of FP32 cannot be met by accident.
            with np.errstate(over="ignore"):
                result = np.float32(float(y))
            pairs.append([f"{int(bits_of(np.array([x]))[0]):x}", f"{int(bits_of(np.array([result]))[0]):x}"])
        rows.append({"function": name, "pairs": pairs})
    return rows


def microscaling():
    """Blocks of 32 numbers quantised by the vendor's published formula."""
    rng = np.random.default_rng(1)
    rows = []
    for name, dtype, emax in (
        ("fp8e4fn", ml_dtypes.float8_e4m3fn, 8),
        ("fp8e5", ml_dtypes.float8_e5m2, 15),
    ):
        for i in range(24):
            block = rng.standard_normal(32) * 2.0 ** rng.integers(-60, 60)
            block = block.astype(np.float16 if i % 3 == 0 else ml_dtypes.bfloat16).astype(np.float32)
            block[~np.isfinite(block)] = 0
            largest = np.max(np.abs(block))
            if largest == 0:
                scale = 0
            else:
                scale = int(np.floor(np.log2(largest))) - (emax - 1) + 127
            scaled = block.astype(np.float64) / 2.0 ** (scale - 127)
            codes = bits_of(scaled.astype(np.float32).astype(dtype))
            rows.append(
                {
                    "to": name,
                    "block": [f"{int(b):x}" for b in bits_of(block)],
                    "scale": max(scale, 0),
                    "codes": [f"{int(c):x}" for c in codes],
                }
            )
    return rows


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    parts = {
        "conversions": conversions(),
        "wide_integers": wide_integers(),
        "decodes": decodes(),
        "integer_ops": integer_ops(),
        "activations": activations(),
        "microscaling": microscaling(),
    }
    for name, part in parts.items():
        with open(os.path.join(folder, name + ".json"), "w") as file:
            if isinstance(part, list):
                lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in part)
                file.write("[\n" + lines + "\n]\n")
            else:
                json.dump(part, file, separators=(",", ":"))
                file.write("\n")


main()
