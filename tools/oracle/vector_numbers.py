"""Numbers for the vector oracle: dtypes by name, conversions, ALU operations, access patterns.

Written from the specification with numpy and ml_dtypes; shares no code with the emulator.
"""

import ml_dtypes
import numpy as np

np.seterr(all="ignore")

# name: (wire code, numpy type, largest finite value of saturating formats)
DTYPES = {
    "u64": (0x1, np.uint64, None),
    "i8": (0x2, np.int8, None),
    "u8": (0x3, np.uint8, None),
    "i16": (0x4, np.int16, None),
    "u16": (0x5, np.uint16, None),
    "bf16": (0x6, ml_dtypes.bfloat16, None),
    "fp16": (0x7, np.float16, None),
    "i32": (0x8, np.int32, None),
    "u32": (0x9, np.uint32, None),
    "fp32": (0xA, np.float32, None),
    "i64": (0xC, np.int64, None),
    "fp8e3": (0xD, ml_dtypes.float8_e3m4, 15.5),
    "fp8e4": (0xE, ml_dtypes.float8_e4m3, 240.0),
    "fp8e5": (0xF, ml_dtypes.float8_e5m2, 57344.0),
    # what code 0xE means on v5
    "fp8fn": (0xE, ml_dtypes.float8_e4m3fn, 448.0),
}
QNAN = np.uint32(0x7FC00000).view(np.float32)


def code(d):
    return DTYPES[d][0]


def pair(low, high):
    return code(low) | code(high) << 4


def size(d):
    return np.dtype(DTYPES[d][1]).itemsize


def is_int(d):
    return d[0] in "iu"


def widen(x, d):
    """FP32 values of elements of dtype d."""
    return np.asarray(x).astype(np.float32)


def narrow(x, d):
    """Elements of dtype d from FP32: nearest even; integers and FP8 saturate."""
    _, t, limit = DTYPES[d]
    x = np.asarray(x, np.float32)
    if is_int(d):
        info = np.iinfo(t)
        out = []
        for v in x:
            if np.isnan(v):
                out.append(info.min if np.signbit(v) else info.max)
            elif np.isinf(v):
                out.append(info.min if v < 0 else info.max)
            else:
                out.append(min(max(int(np.rint(np.float64(v))), info.min), info.max))
        return np.array(out, dtype=t)
    if limit is not None:
        x = np.clip(x, -limit, limit).astype(np.float32)
    if d == "bf16":
        # The bit rule of the source rather than the library's.
        b = x.view(np.uint32)
        r = ((b.astype(np.uint64) + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)
        r = np.where(np.isnan(x), np.uint16(0x7FC0), r).astype(np.uint16)
        return r.view(t)
    return x.astype(t)


def fix(x):
    """Any NaN becomes the canonical one."""
    x = np.asarray(x, np.float32)
    return np.where(np.isnan(x), QNAN, x).astype(np.float32)


OPS = {
    "bypass": 0x00, "not": 0x01, "asl": 0x02, "asr": 0x03, "add": 0x04, "subtract": 0x05,
    "mult": 0x06, "divide": 0x07, "max": 0x08, "min": 0x09, "and": 0x0A, "or": 0x0B, "xor": 0x0C,
    "land": 0x0D, "lor": 0x0E, "lxor": 0x0F, "lsl": 0x10, "lsr": 0x11, "eq": 0x12, "gt": 0x13,
    "ge": 0x14, "le": 0x15, "lt": 0x16, "absdiff": 0x17, "ne": 0x18, "abs": 0x19, "pow": 0x1A,
    "mod": 0x1B, "rsqrt": 0x1D, "absmax": 0x20, "absmin": 0x21, "relu": 0x22, "square": 0x23,
    "clamp": 0x24, "crc32": 0x1C, "abs_int": 0xCE,
    "add_int": 0xC4, "mult_int": 0xC5, "sub_int": 0xC6, "div_int": 0xC7, "mod_int": 0xC8,
    "eq_int": 0xC9, "ne_int": 0xCA, "absmax_int": 0xCB, "absmin_int": 0xCC, "absdiff_int": 0xCD,
    "max_int": 0xCF, "min_int": 0xD0, "gt_int": 0xD1, "ge_int": 0xD2, "le_int": 0xD3,
    "lt_int": 0xD4, "max_uint": 0xD5, "min_uint": 0xD6, "gt_uint": 0xD7, "ge_uint": 0xD8,
    "le_uint": 0xD9, "lt_uint": 0xDA, "mult_uint": 0xDB, "div_uint": 0xDC, "mod_uint": 0xDD,
    "amax_int": 0xDE, "amin_int": 0xDF, "amax_uint": 0xE0, "amin_uint": 0xE1,
}
GARITH = ["bypass", "add", "subtract", "mult", "max", "min", "land", "lor", "lxor", "eq", "gt",
          "ge", "le", "lt", "absdiff", "abs", "ne"]
GARITH_V4 = GARITH + ["absmax", "absmin", "relu", "square"]
GBITVEC = ["bypass", "not", "asl", "asr", "and", "or", "xor", "lsl", "lsr"]
SIGNED = ["add_int", "mult_int", "sub_int", "div_int", "mod_int", "eq_int", "ne_int",
          "absmax_int", "absmin_int", "absdiff_int", "max_int", "min_int", "gt_int", "ge_int",
          "le_int", "lt_int"]
UNSIGNED = ["add_int", "mult_int", "sub_int", "eq_int", "ne_int", "max_uint", "min_uint",
            "gt_uint", "ge_uint", "le_uint", "lt_uint", "mult_uint", "div_uint", "mod_uint"]


def maxnum(a, b):
    if np.isnan(a):
        return b
    return b if b > a else a


def minnum(a, b):
    if np.isnan(a):
        return b
    return b if b < a else a


def f32op(op, a, b):
    """One FP32 operation on scalars."""
    a, b = np.float32(a), np.float32(b)
    one = lambda t: np.float32(1.0 if t else 0.0)
    r = {
        "bypass": lambda: a, "add": lambda: a + b, "subtract": lambda: a - b,
        "mult": lambda: a * b, "divide": lambda: a / b, "max": lambda: maxnum(a, b),
        "min": lambda: minnum(a, b), "land": lambda: one(a != 0 and b != 0),
        "lor": lambda: one(a != 0 or b != 0), "lxor": lambda: one((a != 0) != (b != 0)),
        "eq": lambda: one(a == b), "gt": lambda: one(a > b), "ge": lambda: one(a >= b),
        "le": lambda: one(a <= b), "lt": lambda: one(a < b), "ne": lambda: one(a != b),
        "absdiff": lambda: np.abs(a - b), "abs": lambda: np.abs(a),
        "absmax": lambda: maxnum(np.abs(a), np.abs(b)),
        "absmin": lambda: minnum(np.abs(a), np.abs(b)),
        "relu": lambda: maxnum(a, np.float32(0)), "square": lambda: a * a,
        "rsqrt": lambda: np.float32(1.0 / np.sqrt(np.float64(a))),
        "pow": lambda: np.float32(np.power(np.float64(a), np.float64(b))),
        # the header's formula: the larger magnitude; a zero gives itself
        "clamp": lambda: a if a == 0 else QNAN if np.isnan(a) or np.isnan(b) else np.copysign(
            maxnum(np.abs(a), np.abs(b)), a),
    }[op]()
    r = np.float32(r)
    if np.isnan(r) and op not in ("bypass", "abs"):
        return QNAN
    return r


def f32ops(op, a, b):
    return np.array([f32op(op, x, y) for x, y in zip(a, b)], np.float32)


def bitop(op, a, b, width):
    """One bit-vector operation on Python integers of `width` bits."""
    m = (1 << width) - 1
    a, b = a & m, b & m
    n = b & 31 if width == 32 else b
    signed = a - (1 << width) if a >> (width - 1) else a
    return m & {
        "bypass": lambda: a, "not": lambda: ~a, "and": lambda: a & b, "or": lambda: a | b,
        "xor": lambda: a ^ b, "asl": lambda: a << n if n < width else 0,
        "lsl": lambda: a << n if n < width else 0, "lsr": lambda: a >> n if n < width else 0,
        "asr": lambda: signed >> min(n, width - 1),
    }[op]()


def intop(op, a, b, d):
    """One native integer operation in dtype d, wrapped."""
    bits = 8 * size(d)
    m = (1 << bits) - 1
    s = lambda v: (v & m) - (1 << bits) if (v & m) >> (bits - 1) else v & m
    u = lambda v: v & m
    base = op.removesuffix("_int").removesuffix("_uint")
    own = u if op.endswith("_uint") or (not op.endswith("_int") and d[0] == "u") else s
    a, b = own(a), own(b)
    # no trap is described: a quotient by zero is 0, unsigned all ones; a remainder is 0
    zero = m if own is u else 0
    trunc = lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else zero
    floored = lambda a, b: a - b * (a // b) if b else 0
    if op == "mod":  # the remainder with the sign of the divisor
        return s(floored(a, b)) if d[0] == "i" else u(floored(a, b))
    if base == "mod" and b == 0:
        return 0
    r = {
        "add": lambda: a + b, "sub": lambda: a - b, "subtract": lambda: a - b,
        "mult": lambda: a * b, "div": lambda: trunc(a, b), "mod": lambda: a - b * trunc(a, b),
        "eq": lambda: int(a == b), "ne": lambda: int(a != b), "gt": lambda: int(a > b),
        "ge": lambda: int(a >= b), "le": lambda: int(a <= b), "lt": lambda: int(a < b),
        "max": lambda: max(a, b), "min": lambda: min(a, b),
        "absmax": lambda: max(abs(a), abs(b)), "absmin": lambda: min(abs(a), abs(b)),
        "absdiff": lambda: abs(a - b), "abs": lambda: abs(a), "bypass": lambda: a,
        "land": lambda: int(a != 0 and b != 0), "lor": lambda: int(a != 0 or b != 0),
        "lxor": lambda: int((a != 0) != (b != 0)), "relu": lambda: max(a, 0),
        "square": lambda: a * a,
        "clamp": lambda: 0 if a == 0 else max(abs(a), abs(b)) * (1 if a > 0 else -1),
    }[base]()
    return s(r) if d[0] == "i" else u(r)


def offsets(steps, nums):
    """Element offsets in stream order, X fastest."""
    out = [0]
    for step, num in zip(steps, nums):
        out = [o + step * i for i in range(num) for o in out]
    return out


def groups(values, n):
    return [values[k:k + n] for k in range(0, len(values), n)]


def fold(op, g):
    acc = g[0]
    for x in g[1:]:
        acc = f32op(op, acc, x)
    return acc
