"""Value semantics of the Vision-Q7 slot-3 operations, as plain Python integers.

Written from the public pages alone (wiki: validation/*, isa/ref/b01 .. b24, isa/core/fp-sub-isa), without
a look at the Rust implementation that it checks: floating-point results are rounded from exact big
integers instead of aligned significands, masks are lists of booleans, lanes are lists of integers.

OPS maps a mnemonic to a function of a Case; the function returns the named outputs.
"""

import json
import os
import struct

FMT = {8: "<64B", 16: "<32H", 32: "<16I"}
INVALID, DIVZERO, OVERFLOW, UNDERFLOW, INEXACT = 1, 2, 4, 8, 16


class Case:
    """Inputs by role: vector sources, predicates, scalars, old destination, old flag, rounding mode."""

    def __init__(self, vecs, preds, scalars, old, old_vbool, mode):
        self.vecs, self.preds, self.scalars = vecs, preds, scalars
        self.old, self.old_vbool, self.mode = old, old_vbool, mode


def lanes(v, bits):
    return list(struct.unpack(FMT[bits], v))


def vec(values, bits):
    mask = (1 << bits) - 1
    return struct.pack(FMT[bits], *[x & mask for x in values])


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def sat(x, bits=16):
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, x))


def truth(vb, n):
    """Predicate of each of n lanes: the low bit of its field."""
    field = 64 // n
    return [bool(vb >> (k * field) & 1) for k in range(n)]


def fields(flags):
    """vbool with the whole field of every true lane set."""
    field = 64 // len(flags)
    return sum(((1 << field) - 1) << (k * field) for k, on in enumerate(flags) if on)


def clz(x, bits):
    return bits - (x & ((1 << bits) - 1)).bit_length()


# ---------------------------------------------------------------- floating point


class Fmt:
    def __init__(self, e, m):
        self.e, self.m = e, m
        self.bits = 1 + e + m
        self.bias = (1 << (e - 1)) - 1
        self.top = (1 << e) - 1
        self.inf = self.top << m
        self.quiet = 1 << (m - 1)
        self.qnan = self.inf | self.quiet
        self.sign = 1 << (e + m)

    def split(self, x):
        return x >> (self.e + self.m) & 1, x >> self.m & self.top, x & ((1 << self.m) - 1)

    def nan(self, x):
        _, e, m = self.split(x)
        return e == self.top and m != 0

    def snan(self, x):
        return self.nan(x) and not x & self.quiet

    def isinf(self, x):
        _, e, m = self.split(x)
        return e == self.top and m == 0

    def exact(self, x):
        """Finite number as integer times 2^(1 - bias - m): exact, no exponent left."""
        s, e, m = self.split(x)
        n = m if e == 0 else (m | 1 << self.m) << (e - 1)
        return -n if s else n

    def number(self, x):
        """Number that orders infinities correctly; scaled like exact()."""
        if self.isinf(x):
            return (1 << 600) * (-1 if x & self.sign else 1)
        return self.exact(x)


F16, F32 = Fmt(5, 10), Fmt(8, 23)
BYBITS = {16: F16, 32: F32}


def rounded(f, n, down, mode, zero_sign=0):
    """n * 2^(1 - bias - m - down) in format f, rounded once. Tininess before rounding."""
    neg = n < 0 or (n == 0 and zero_sign)
    s = f.sign if neg else 0
    n = abs(n)
    if n == 0:
        return s, 0
    # In units of the smallest denormal the wanted quantum is 2^q, q >= 0.
    length = n.bit_length()
    q = max(0, length - down - (f.m + 1))
    cut = q + down
    kept, rest = (n >> cut, n & ((1 << cut) - 1)) if cut > 0 else (n << -cut, 0)
    if rest:
        twice = 2 * rest
        one = 1 << cut
        if mode == 0:
            up = twice > one or (twice == one and kept & 1)
        elif mode == 4:
            up = twice >= one
        else:
            up = (mode == 2 and not neg) or (mode == 3 and neg)
        kept += 1 if up else 0
    flags = INEXACT if rest else 0
    if rest and length - down < f.m + 1:
        flags |= UNDERFLOW
    # Largest finite: (2^(m+1) - 1) * 2^(top - 2).
    if kept << q > ((1 << (f.m + 1)) - 1) << (f.top - 2):
        away = mode in (0, 4) or (mode == 2 and not neg) or (mode == 3 and neg)
        return s | (f.inf if away else f.inf - 1), OVERFLOW | INEXACT
    total = kept << q
    e = 0 if total < 1 << f.m else total.bit_length() - f.m
    m = total if e == 0 else (total >> (e - 1)) & ((1 << f.m) - 1)
    return s | e << f.m | m, flags


def quieted(f, first, second):
    flags = INVALID if f.snan(first) or f.snan(second) else 0
    return (first if f.nan(first) else second) | f.quiet, flags


def fadd(f, a, b, mode):
    if f.nan(a) or f.nan(b):
        return quieted(f, a, b)
    if f.isinf(a) or f.isinf(b):
        if f.isinf(a) and f.isinf(b) and a != b:
            return f.qnan, INVALID
        return (a if f.isinf(a) else b), 0
    total = f.exact(a) + f.exact(b)
    zero = (a & b & f.sign) or ((a | b) & f.sign and mode == 3)
    return rounded(f, total, 0, mode, zero)


def fsub(f, a, b, mode):
    return quieted(f, a, b) if f.nan(a) or f.nan(b) else fadd(f, a, b ^ f.sign, mode)


def fmul(f, a, b, mode):
    if f.nan(a) or f.nan(b):
        return quieted(f, b, a)
    s = (a ^ b) & f.sign
    zero = not a & ~f.sign or not b & ~f.sign
    if f.isinf(a) or f.isinf(b):
        return (f.qnan, INVALID) if zero else (s | f.inf, 0)
    # The product is in units of the square of the smallest denormal.
    return rounded(f, f.exact(a) * f.exact(b), f.bias + f.m - 1, mode, s)


def ffma(f, c, a, b, negate, mode):
    """c + a * b or c - a * b."""
    product_nan = f.nan(a) or f.nan(b)
    zero = not a & ~f.sign or not b & ~f.sign
    undefined = not product_nan and (f.isinf(a) or f.isinf(b)) and zero
    signalling = INVALID if f.snan(a) or f.snan(b) or f.snan(c) else 0
    if product_nan:
        return (b if f.nan(b) else a) | f.quiet, signalling
    if f.nan(c):
        return c | f.quiet, signalling | (INVALID if undefined else 0)
    if undefined:
        return f.qnan, INVALID
    s = (a ^ b ^ (f.sign if negate else 0)) & f.sign
    if f.isinf(a) or f.isinf(b):
        return (f.qnan, INVALID) if f.isinf(c) and c & f.sign != s else (s | f.inf, 0)
    if f.isinf(c):
        return c, 0
    unit = f.bias + f.m - 1
    product = abs(f.exact(a) * f.exact(b)) * (-1 if s else 1)
    total = product + (f.exact(c) << unit)
    zero_sign = (s and c & f.sign) or ((s or c & f.sign) and mode == 3)
    return rounded(f, total, unit, mode, zero_sign)


def fmin(f, a, b, greater):
    flags = INVALID if f.nan(a) or f.nan(b) else 0
    if flags:
        return b, flags
    x, y = f.number(a), f.number(b)
    return (a if (x > y if greater else x < y) else b), 0


def fminnum(f, a, b, greater):
    flags = INVALID if f.snan(a) or f.snan(b) else 0
    if f.nan(a):
        return b, flags
    if f.nan(b):
        return a, flags
    rank = lambda x: (f.number(x), 0 if x & f.sign else 1)
    best = max(rank(a), rank(b)) if greater else min(rank(a), rank(b))
    return (a if rank(a) == best and rank(b) != best else b), flags


def fcompare(f, name, a, b):
    """Truth and Invalid of a compare."""
    unordered, signalling = f.nan(a) or f.nan(b), f.snan(a) or f.snan(b)
    x, y = (0, 0) if unordered else (f.number(a), f.number(b))
    eq, lt, le = x == y and not unordered, x < y and not unordered, x <= y and not unordered
    result = {
        "oeq": eq, "olt": lt, "ole": le, "ueq": unordered or eq, "ult": unordered or lt,
        "ule": unordered or le, "un": unordered, "uneq": unordered or not eq,
        "uleq": unordered or le, "ultq": unordered or lt,
    }[name]
    return result, (unordered if name in ("olt", "ole", "uleq", "ultq") else signalling)


def fclass(f, x):
    s, e, m = f.split(x)
    if e == f.top:
        bits = 1 << 4 if m == 0 else 1 << 5 | (0 if m & f.quiet else 1 << 6)
    else:
        bits = 1 << 7 | (1 << 1 if e == m == 0 else 1 << 2 if e == 0 else 1 << 3)
    return bits | s


def fintegral(f, x, mode, inexact):
    if f.nan(x):
        return x | f.quiet, INVALID if f.snan(x) else 0
    if f.isinf(x):
        return x, 0
    one = f.bias + f.m - 1  # 1.0 is 2^one in exact() units
    n = abs(f.exact(x))
    neg = bool(x & f.sign)
    whole, rest = n >> one, n & ((1 << one) - 1)
    half = 1 << (one - 1)
    up = {0: rest > half or (rest == half and whole & 1), 1: False, 2: rest and not neg,
          3: rest and neg, 4: rest >= half}[mode]
    whole += 1 if up else 0
    value, _ = rounded(f, (-whole if neg else whole) << one, 0, 1, neg)
    return value, INEXACT if rest and inexact else 0


def fwiden(x):
    s, e, m = F16.split(x)
    if F16.nan(x):
        return s << 31 | F32.qnan | m << 13, INVALID if F16.snan(x) else 0
    if F16.isinf(x):
        return s << 31 | F32.inf, 0
    # fp16 units are 2^-24, fp32 units 2^-149.
    return rounded(F32, F16.exact(x) << 125, 0, 0, s)


def fnarrow(x, mode):
    if F32.nan(x):
        return F16.qnan, INVALID if F32.snan(x) else 0
    if F32.isinf(x):
        return (x & F32.sign) >> 16 | F16.inf, 0
    return rounded(F16, F32.exact(x), 125, mode, x & F32.sign)


def ffromint(f, x, scale, mode):
    return rounded(f, x << (f.bias + f.m - 1), scale, mode)


def ftoint(f, x, scale, bits, unsigned):
    hi = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
    lo = -(1 << (bits - 1))
    mask = (1 << bits) - 1
    if f.nan(x):
        return hi, OVERFLOW
    if f.isinf(x):
        return (lo & mask if x & f.sign else hi), OVERFLOW
    n = f.exact(x)
    one = f.bias + f.m - 1
    magnitude = abs(n) << scale
    whole = magnitude >> one
    value = -whole if n < 0 else whole
    if value > hi:
        return hi, OVERFLOW
    if value < lo:
        return lo & mask, OVERFLOW
    if unsigned and value < 0:
        return value & mask, OVERFLOW
    return value & mask, INEXACT if magnitude & ((1 << one) - 1) else 0


# ---------------------------------------------------------------- seeds


def closed_form_tables():
    """The tables from their closed form: midpoint values rounded half up, one exception each."""
    recip = [int(256 / (1 + (i + 0.5) / 128) + 0.5) for i in range(128)]
    recip[127] = 0x81
    rsqrt = [int(256 / (2 * (1 + (j + 0.5) / 64)) ** 0.5 + 0.5) for j in range(64)]
    rsqrt += [int(256 / (1 + (j + 0.5) / 64) ** 0.5 + 0.5) for j in range(64)]
    rsqrt[13] = 0xA5
    return recip, rsqrt


RECIP, RSQRT = closed_form_tables()


def parts(f, x):
    s, e, m = f.split(x)
    if e == 0 and m:
        shift = f.m - (m.bit_length() - 1)
        m = m << shift & ((1 << f.m) - 1)
        e = 1 - shift
    return s, e, m


def recip0(f, x):
    s, e, m = parts(f, x)
    s <<= f.e + f.m
    t = RECIP[m >> (f.m - 7)]
    if f.nan(x):
        return s | f.inf | t << (f.m - 8), INVALID if f.snan(x) else 0
    if f.isinf(x):
        return s, 0
    if not x & ~f.sign:
        return s | f.inf, DIVZERO
    eo = 2 * f.bias - 1 - e
    if eo >= f.top:
        return s | f.inf, 0
    if eo >= 1:
        return s | eo << f.m | (t & 0x7F) << (f.m - 7), 0
    return s | t << (f.m - 7) >> (1 - eo), 0


def rsqrt_entry(f, e, m):
    return RSQRT[(e % 2) * 64 + (m >> (f.m - 6))]


def rsqrt0(f, x):
    s, e, m = parts(f, x)
    t = rsqrt_entry(f, e, m)
    special = s << (f.e + f.m) | f.inf | (t & 0x3F | 0x40) << (f.m - 7)
    if f.nan(x):
        return special, INVALID if f.snan(x) else 0
    if not x & ~f.sign:
        return x | f.inf, DIVZERO
    if s:
        return special, INVALID
    if f.isinf(x):
        return 0, 0
    return (f.bias - 1 - (e - f.bias) // 2) << f.m | (t & 0x7F) << (f.m - 7), 0


def sqrt0(f, x):
    _, e, m = parts(f, x)
    return (f.bias - 1) << f.m | (rsqrt_entry(f, e, m) & 0x7F) << (f.m - 7)


def div0(f, x):
    s, e, m = parts(f, x)
    exponent = 14 if f is F16 else 126 if e % 2 else 125
    return s << (f.e + f.m) | exponent << f.m | (RECIP[m >> (f.m - 7)] & 0x7F) << (f.m - 7)


def nexp0(f, x):
    s, e, m = parts(f, x)
    return (1 - s) << (f.e + f.m) | (f.top if e == f.top else f.bias) << f.m | m


def nexp01(f, x):
    s, e, m = parts(f, x)
    if e == f.top:
        return (f.sign if f is F16 else 0) | f.inf | m
    exponent = f.bias if e % 2 or not x & ~f.sign else f.bias + 1
    return ((1 if f is F16 else 1 - s) << (f.e + f.m)) | exponent << f.m | m


def recipqli(x, mode):
    """Correctly rounded 1/x; stands in for the unpublished interpolation."""
    if F32.nan(x):
        return x | F32.quiet, INVALID if F32.snan(x) else 0
    s = x & F32.sign
    if not x & ~F32.sign:
        return s | F32.inf, DIVZERO
    if F32.isinf(x):
        return s, 0
    n = abs(F32.exact(x))
    # 1 / (n 2^-149) = 2^298 / n units; keep 400 extra bits and a sticky one.
    q, r = divmod(1 << 698, n)
    q = 2 * q + (1 if r else 0)
    return rounded(F32, -q if s else q, 401, mode)


# ---------------------------------------------------------------- table of operations

OPS = {}


def define(name, fn):
    assert name not in OPS, name
    OPS[name] = fn


def merged(c, result, n, pred):
    on = truth(pred, n)
    size = 64 // n
    old = c.old
    return b"".join(
        result[k * size:(k + 1) * size] if on[k] else old[k * size:(k + 1) * size] for k in range(n)
    )


def with_predicate(name, bits, fn):
    """name and its predicated form, whose predicate is the last one."""
    define(name, fn)

    def predicated(c):
        out = fn(c)
        out["vec"] = merged(c, out["vec"], 512 // bits, c.preds[0])
        return out

    define(name + "t", predicated)


def lane1(bits, fn):
    return lambda c: {"vec": vec([fn(a) for a in lanes(c.vecs[0], bits)], bits)}


def lane2(bits, fn):
    return lambda c: {
        "vec": vec([fn(a, b) for a, b in zip(lanes(c.vecs[0], bits), lanes(c.vecs[1], bits))], bits)
    }


SUFFIX = {8: "2nx8", 16: "nx16", 32: "n_2x32"}
FSUFFIX = {16: "nxf16", 32: "n_2xf32"}


def integer_alu():
    for bits, sfx in SUFFIX.items():
        g = lambda x, bits=bits: signed(x, bits)
        table = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
            "min": lambda a, b, g=g: min(g(a), g(b)), "max": lambda a, b, g=g: max(g(a), g(b)),
            "minu": min, "maxu": max,
        }
        for name, fn in table.items():
            op = "ivp_" + name + sfx
            predicated = name in ("add", "sub") or bits == 16
            (with_predicate if predicated else lambda n, _b, f: define(n, f))(op, bits, lane2(bits, fn))
        define("ivp_abs" + sfx, lane1(bits, lambda a, g=g: abs(g(a))))
        (with_predicate if bits == 16 else lambda n, _b, f: define(n, f))(
            "ivp_neg" + sfx, bits, lane1(bits, lambda a: -a))
    s = lambda x: signed(x, 16)
    with_predicate("ivp_addsnx16", 16, lane2(16, lambda a, b: sat(s(a) + s(b))))
    with_predicate("ivp_subsnx16", 16, lane2(16, lambda a, b: sat(s(a) - s(b))))
    define("ivp_abssnx16", lane1(16, lambda a: sat(abs(s(a)))))
    with_predicate("ivp_negsnx16", 16, lane1(16, lambda a: sat(-s(a))))
    define("ivp_absssubnx16", lane2(16, lambda a, b: sat(abs(s(a) - s(b)))))
    sign = lambda a: (a > 0) - (a < 0)
    define("ivp_mulsgnnx16", lane2(16, lambda a, b: sign(s(a)) * s(b)))
    define("ivp_mulsgnsnx16", lane2(16, lambda a, b: sat(sign(s(a)) * s(b))))
    for bits in (8, 16):
        sfx, g = SUFFIX[bits], (lambda x, bits=bits: signed(x, bits))
        define("ivp_abssub" + sfx, lane2(bits, lambda a, b, g=g: abs(g(a) - g(b))))
        define("ivp_abssubu" + sfx, lane2(bits, lambda a, b: abs(a - b)))
        define("ivp_avg" + sfx, lane2(bits, lambda a, b, g=g: (g(a) + g(b)) // 2))
        define("ivp_avgr" + sfx, lane2(bits, lambda a, b, g=g: (g(a) + g(b) + 1) // 2))
        define("ivp_avgu" + sfx, lane2(bits, lambda a, b: (a + b) // 2))
        define("ivp_avgru" + sfx, lane2(bits, lambda a, b: (a + b + 1) // 2))
    define("ivp_and2nx8", lane2(32, lambda a, b: a & b))
    define("ivp_or2nx8", lane2(32, lambda a, b: a | b))
    define("ivp_xor2nx8", lane2(32, lambda a, b: a ^ b))
    define("ivp_not2nx8", lane1(32, lambda a: ~a))
    define("ivp_popc2nx8", lane1(8, lambda a: bin(a).count("1")))


def compares_and_flags():
    def compare(bits, fn):
        return lambda c: {
            "vbool": fields([fn(a, b) for a, b in zip(lanes(c.vecs[0], bits), lanes(c.vecs[1], bits))])
        }

    def flag2(bits, fn):
        def run(c):
            got = [fn(a, b) for a, b in zip(lanes(c.vecs[0], bits), lanes(c.vecs[1], bits))]
            return {"vec": vec([v for v, _ in got], bits), "vbool": fields([on for _, on in got])}
        return run

    for bits, sfx in SUFFIX.items():
        g = lambda x, bits=bits: signed(x, bits)
        for name, fn in {
            "eq": lambda a, b: a == b, "neq": lambda a, b: a != b,
            "le": lambda a, b, g=g: g(a) <= g(b), "leu": lambda a, b: a <= b,
            "lt": lambda a, b, g=g: g(a) < g(b), "ltu": lambda a, b: a < b,
        }.items():
            define("ivp_" + name + sfx, compare(bits, fn))
        for u, h in (("", g), ("u", lambda x: x)):
            define("ivp_bmax" + u + sfx, flag2(bits, lambda a, b, h=h: (a if h(a) > h(b) else b, h(a) > h(b))))
            define("ivp_bmin" + u + sfx, flag2(bits, lambda a, b, h=h: (a if h(a) < h(b) else b, h(a) < h(b))))
            if bits < 32:
                define("ivp_babssub" + u + sfx,
                       flag2(bits, lambda a, b, h=h: (abs(h(a) - h(b)), h(a) < h(b))))
        define("ivp_babs" + sfx, lambda c, bits=bits, g=g: {
            "vec": vec([abs(g(a)) for a in lanes(c.vecs[0], bits)], bits),
            "vbool": fields([g(a) < 0 for a in lanes(c.vecs[0], bits)])})

    def norm(t):
        t17 = t & 0x1FFFF
        overflow = (t17 >> 15 & 1) != (t17 >> 16 & 1)
        return ((t17 >> 1) if overflow else t17) & 0xFFFF, overflow

    define("ivp_baddnormnx16", flag2(16, lambda a, b: norm(signed(a, 16) + signed(b, 16))))
    define("ivp_bsubnormnx16", flag2(16, lambda a, b: norm(signed(a, 16) - signed(b, 16))))

    def xor_abs(c):
        out = OPS["ivp_babssubu2nx8"](c)
        out["vbool"] ^= c.old_vbool
        return out

    define("ivp_bxorabssubu2nx8", xor_abs)


def reductions():
    def total(bits, sign, wide, saturate=False):
        def run(c, pred=None):
            on = [True] * (512 // bits) if pred is None else truth(pred, 512 // bits)
            values = [signed(x, bits) if sign else x for x in lanes(c.vecs[0], bits)]
            s = sum(x for x, keep in zip(values, on) if keep)
            s = sat(s) if saturate else s
            return {"vec": (s & ((1 << wide) - 1)).to_bytes(64, "little")}
        return run

    def extremum(bits, sign, greater):
        def run(c, pred=None):
            on = [True] * (512 // bits) if pred is None else truth(pred, 512 // bits)
            values = [signed(x, bits) if sign else x for x in lanes(c.vecs[0], bits)]
            low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)
            kept = [x for x, keep in zip(values, on) if keep] or [low if greater else high]
            best = max(kept) if greater else min(kept)
            return {"vec": (best & ((1 << bits) - 1)).to_bytes(64, "little")}
        return run

    def both(name, run):
        define(name, run)
        define(name + "t", lambda c: run(c, c.preds[0]))

    for bits, wide in ((8, 16), (16, 32), (32, 32)):
        both("ivp_radd" + SUFFIX[bits], total(bits, True, wide))
        if bits < 32:
            both("ivp_raddu" + SUFFIX[bits], total(bits, False, wide))
    both("ivp_raddsnx16", total(16, True, 16, True))
    for bits, sfx in SUFFIX.items():
        for u, sign in (("", True), ("u", False)):
            for name, greater in (("max", True), ("min", False)):
                run = extremum(bits, sign, greater)
                if bits == 16:
                    both("ivp_r" + name + u + sfx, run)
                else:
                    define("ivp_r" + name + u + sfx, run)

                def flagged(c, run=run, bits=bits):
                    best = run(c)["vec"][:bits // 8]
                    value = int.from_bytes(best, "little")
                    return {"vec": best * (512 // bits), "vbool": fields([x == value for x in lanes(c.vecs[0], bits)])}

                define("ivp_rb" + name + u + sfx, flagged)

    def num(bits, greater):
        f = BYBITS[bits]

        def run(c, pred=None):
            on = [True] * (512 // bits) if pred is None else truth(pred, 512 // bits)
            kept = [x for x, keep in zip(lanes(c.vecs[0], bits), on) if keep]
            flags = INVALID if any(f.snan(x) for x in kept) else 0
            numbers = [x for x in kept if not f.nan(x)]
            if numbers:
                best = (max if greater else min)(numbers, key=lambda x: (f.number(x), 0 if x & f.sign else 1))
            elif kept:
                best = kept[-1]
            else:
                best = f.inf | (f.sign if greater else 0)
            marked = [keep and x == best and not f.nan(x) for x, keep in zip(lanes(c.vecs[0], bits), on)]
            return best, fields(marked), flags
        return run

    for bits, sfx in FSUFFIX.items():
        for name, greater in (("max", True), ("min", False)):
            run = num(bits, greater)

            def plain(c, pred=None, run=run):
                best, _, flags = run(c, pred)
                return {"vec": best.to_bytes(64, "little"), "flags": flags}

            def flagged(c, pred=None, run=run, bits=bits):
                best, mask, flags = run(c, pred)
                return {"vec": vec([best] * (512 // bits), bits), "vbool": mask, "flags": flags}

            both("ivp_r" + name + "num" + sfx, plain)
            both("ivp_rb" + name + "num" + sfx, flagged)


def shifts():
    def left(a, n, bits):
        return a << n if n < bits else 0

    def right(a, n, bits):
        return a >> n if n < bits else 0

    for bits, sfx in SUFFIX.items():
        imm_mask = bits - 1
        rot = lambda a, n, bits=bits: (a >> n | a << (bits - n)) if n else a
        for name, fn in {
            "slli": lambda a, n: a << n, "srli": lambda a, n: a >> n,
            "srai": lambda a, n, bits=bits: signed(a, bits) >> n, "rotri": rot,
        }.items():
            define("ivp_" + name + sfx, lambda c, bits=bits, fn=fn, m=imm_mask: {
                "vec": vec([fn(a, c.scalars[0] & m) for a in lanes(c.vecs[0], bits)], bits)})
        if bits == 8:
            continue
        width = 6 if bits == 16 else 7
        amount = lambda n, width=width: signed(n, width)

        def sll(a, n, bits=bits, amount=amount):
            k = amount(n)
            return left(a, k, bits) if k >= 0 else right(a, -k, bits)

        def srl(a, n, bits=bits, amount=amount):
            k = amount(n)
            return right(a, k, bits) if k >= 0 else left(a, -k, bits)

        def sra(a, n, bits=bits, amount=amount):
            k = amount(n)
            return signed(a, bits) >> min(k, bits - 1) if k >= 0 else left(a, -k, bits)

        for name, fn in (("sll", sll), ("srl", srl), ("sra", sra)):
            define("ivp_" + name + sfx, lane2(bits, fn))
        define("ivp_rotr" + sfx, lane2(bits, lambda a, n, rot=rot, bits=bits: rot(a, n % bits)))
        define("ivp_nsa" + sfx, lane1(bits, lambda a, bits=bits:
               clz(a ^ (signed(a, bits) >> (bits - 1)), bits) - 1))
        define("ivp_nsau" + sfx, lane1(bits, lambda a, bits=bits: clz(a, bits)))


def permutations():
    for bits, sfx in SUFFIX.items():
        n = 512 // bits

        def sel(c, bits=bits, n=n, shift=0):
            pool = lanes(c.vecs[0], bits) + lanes(c.vecs[1], bits)
            return vec([pool[(k >> shift) % (2 * n)] for k in lanes(c.vecs[2], bits)], bits)

        with_predicate("ivp_sel" + sfx, bits, lambda c, sel=sel: {"vec": sel(c)})
        define("ivp_shfl" + sfx, lambda c, bits=bits, n=n: {
            "vec": vec([lanes(c.vecs[0], bits)[k % n] for k in lanes(c.vecs[1], bits)], bits)})
        if bits > 8:
            def dsel(c, sel=sel, bits=bits):
                return {"vec": sel(c, shift=bits // 2), "vec2": sel(c)}

            def dselt(c, dsel=dsel, n=n):
                return {k: merged(c, v, n, c.preds[0]) for k, v in dsel(c).items()}

            define("ivp_dsel" + sfx, dsel)
            define("ivp_dsel" + sfx + "t", dselt)

    def expand(c):
        src, on = lanes(c.vecs[0], 8), truth(c.preds[0], 64)
        return {"vec": vec([src[sum(on[:k]) & 63] if on[k] else src[63] for k in range(64)], 8)}

    define("ivp_dcmprs2nx8", expand)
    for sfx, bits in (("2n", 8), ("n", 16), ("n_2", 32)):
        def squeeze(c, bits=bits, inverse=False):
            on = [k for k, t in enumerate(truth(c.preds[0], 512 // bits)) if t]
            out = [0] * (512 // bits)
            for p, k in enumerate(on):
                out[k if inverse else p] = p if inverse else k
            return {"vec": vec(out, bits), "ar": len(on)}

        define("ivp_sqz" + sfx, squeeze)
        define("ivp_unsqz" + sfx, lambda c, squeeze=squeeze: squeeze(c, inverse=True))


def each(bits, fn, nsrc, pred=None, with_old=False):
    """Floating-point lanes: fn(case, *sources) gives bits and flags; flags of active lanes are OR-ed."""

    def run(c):
        n = 512 // bits
        on = [True] * n if pred is None else truth(c.preds[pred], n)
        old = lanes(c.old, bits)
        columns = ([old] if with_old else []) + [lanes(v, bits) for v in c.vecs[:nsrc]]
        out, flags = [], 0
        for k in range(n):
            if on[k]:
                value, raised = fn(c, *[col[k] for col in columns])
                flags |= raised
            else:
                value = old[k]
            out.append(value)
        return {"vec": vec(out, bits), "flags": flags}

    return run


def no_flags(run):
    def quiet(c):
        out = run(c)
        del out["flags"]
        return out
    return quiet


def floating_point():
    def pair(name, bits, fn, nsrc, with_old=False, scalar=None, silent=False):
        wrap = no_flags if silent else (lambda r: r)
        define(name, wrap(each(bits, fn, nsrc, None, with_old)))
        define(name + "t", wrap(each(bits, fn, nsrc, 0, with_old)))
        if scalar:
            define(scalar, wrap(each(bits, fn, nsrc, None, with_old)))

    for bits, sfx in FSUFFIX.items():
        f, dot = BYBITS[bits], ".h" if bits == 16 else ".s"
        with_predicate("ivp_abs" + sfx, bits, lane1(bits, lambda a, f=f: a & ~f.sign))
        with_predicate("ivp_neg" + sfx, bits, lane1(bits, lambda a, f=f: a ^ f.sign))
        for name, fn in (("add", fadd), ("sub", fsub), ("mul", fmul)):
            pair("ivp_" + name + sfx, bits, lambda c, a, b, fn=fn, f=f: fn(f, a, b, c.mode), 2, scalar=name + dot)
        for name, scalar, negate in (("mula", "madd", False), ("muls", "msub", True)):
            pair("ivp_" + name + sfx, bits,
                 lambda c, o, a, b, f=f, g=negate: ffma(f, o, a, b, g, c.mode), 2, True, scalar + dot)
            pair("ivp_" + name + "n" + sfx, bits,
                 lambda c, o, a, b, f=f, g=negate: ffma(f, o, a, b, g, 0), 2, True, scalar + "n" + dot, silent=True)
        one = f.bias << f.m
        pair("ivp_mulsone" + sfx, bits,
             lambda c, a, b, f=f, one=one: ffma(f, one, a, b, True, c.mode), 2, scalar="mulsone" + dot)
        for name, greater in (("max", True), ("min", False)):
            pair("ivp_" + name + sfx, bits, lambda c, a, b, f=f, g=greater: fmin(f, a, b, g), 2)
            pair("ivp_" + name + "num" + sfx, bits, lambda c, a, b, f=f, g=greater: fminnum(f, a, b, g), 2)
        pair("ivp_clsfy" + sfx, bits, lambda c, a, f=f: (fclass(f, a), 0), 1, scalar="clsfy" + dot, silent=True)

        def addexp(c, bits=bits, f=f):
            out = []
            for a, b in zip(lanes(c.old, bits), lanes(c.vecs[0], bits)):
                (sa, ea, ma), (sb, eb, _) = f.split(a), f.split(b)
                out.append((sa ^ sb) << (f.e + f.m) | ((ea + eb - f.bias) & f.top) << f.m | ma)
            return {"vec": vec(out, bits)}

        with_predicate("ivp_addexp" + sfx, bits, addexp)
        for name in ("oeq", "olt", "ole", "ueq", "ult", "ule", "un", "uneq", "uleq", "ultq"):
            def compare(c, pred=None, name=name, bits=bits, f=f):
                on = [True] * (512 // bits) if pred is None else truth(pred, 512 // bits)
                got = [fcompare(f, name, a, b) for a, b in zip(lanes(c.vecs[0], bits), lanes(c.vecs[1], bits))]
                return {"vbool": fields([r and keep for (r, _), keep in zip(got, on)]),
                        "flags": INVALID if any(i and keep for (_, i), keep in zip(got, on)) else 0}

            define("ivp_" + name + sfx, compare)
            define("ivp_" + name + sfx + "t", lambda c, compare=compare: compare(c, c.preds[0]))
        for name, mode, scalar in (("fitrunc", 1, True), ("ficeil", 2, True), ("fifloor", 3, True),
                                   ("firound", 4, True), ("firint", None, True)):
            pair("ivp_" + name + sfx, bits,
                 lambda c, a, f=f, m=mode: fintegral(f, a, c.mode if m is None else m, m is None), 1,
                 scalar=name + dot if bits == 16 else None)
        for name, fn in (("recip0", recip0), ("rsqrt0", rsqrt0)):
            pair("ivp_" + name + sfx, bits, lambda c, a, f=f, fn=fn: fn(f, a), 1, scalar=name + dot)
        for name, fn in (("sqrt0", sqrt0), ("div0", div0), ("nexp01", nexp01)) + ((("nexp0", nexp0),) if bits == 16 else ()):
            pair("ivp_" + name + sfx, bits, lambda c, a, f=f, fn=fn: (fn(f, a), 0), 1,
                 scalar="nexp0.h" if name == "nexp0" else None, silent=True)
    for half in "01":
        qli = lambda c, a: recipqli(a, c.mode)
        define("ivp_recipqlin_2xf32_" + half, each(32, qli, 1))
        define("ivp_recipqlin_2xf32t_" + half, each(32, qli, 1, 0))
    define("recipqli.s", OPS["ivp_recipqlin_2xf32_0"])
    # width converts
    low, high = (lambda c, a: fwiden(a & 0xFFFF)), (lambda c, a: fwiden(a >> 16))
    define("ivp_cvtf32f16", each(32, low, 1))
    for half, fn in (("0", low), ("1", high)):
        define("ivp_cvtf32nxf16_" + half, each(32, fn, 1))
        define("ivp_cvtf32nxf16t_" + half, each(32, fn, 1, 0))
    narrow = lambda c, a: fnarrow(a, c.mode)
    define("ivp_cvtf16f32", each(32, narrow, 1))
    define("ivp_cvtf16n_2xf32_0", each(32, narrow, 1))
    define("ivp_cvtf16n_2xf32t", each(32, narrow, 1, 0))
    # integer converts with a binary point
    for bits, names, scale_bits in ((16, ("ivp_{}float16nx16", "ivp_{}trunc16nxf16"), 15),
                                    (32, ("ivp_{}floatn_2x32", "ivp_{}truncn_2xf32"), 31)):
        f = BYBITS[bits]
        for u in ("", "u"):
            conv = (lambda x: x) if u else (lambda x, bits=bits: signed(x, bits))
            pair(names[0].format(u), bits, lambda c, a, f=f, conv=conv, m=scale_bits:
                 ffromint(f, conv(a), c.scalars[0] & m, c.mode), 1, scalar=u + "float16.h" if bits == 16 else None)
            pair(names[1].format(u), bits, lambda c, a, f=f, bits=bits, u=u, m=scale_bits:
                 ftoint(f, a, c.scalars[0] & m, bits, bool(u)), 1)


def predicates():
    mask64 = (1 << 64) - 1
    for name, fn in {
        "andb": lambda a, b: a & b, "orb": lambda a, b: a | b, "xorb": lambda a, b: a ^ b,
        "andnotb": lambda a, b: a & ~b, "ornotb": lambda a, b: a | ~b,
    }.items():
        define("ivp_" + name, lambda c, fn=fn: {"vbool": fn(*c.preds[:2]) & mask64})
        if name in ("andnotb", "ornotb"):
            define("ivp_" + name + "1", lambda c, fn=fn: {"ar": fn(*[x & 1 for x in c.scalars[:2]]) & 1})
    define("ivp_notb", lambda c: {"vbool": ~c.preds[0] & mask64})
    define("ivp_notb1", lambda c: {"ar": 1 - (c.scalars[0] & 1)})
    define("ivp_mb", lambda c: {"vbool": c.preds[0]})
    for sfx, n in (("2n", 64), ("n", 32), ("n_2", 16)):
        wrap = lambda c, n=n: {"vbool": fields([k < c.scalars[0] % n for k in range(n)])}
        define("ivp_ltr" + sfx, wrap)
        define("ivp_ltr" + sfx + "i", wrap)
        define("ivp_ltrs" + sfx, lambda c, n=n: {
            "vbool": fields([k < max(0, min(n - 1, signed(c.scalars[0], 32))) for k in range(n)])})
        define("ivp_randb" + sfx, lambda c, n=n: {"ar": int(all(truth(c.preds[0], n)))})
        define("ivp_rorb" + sfx, lambda c, n=n: {"ar": int(any(truth(c.preds[0], n)))})
    for bits, sfx in SUFFIX.items():
        define("ivp_extbi" + sfx, lambda c, bits=bits: {
            "vbool": fields([bool(a >> (c.scalars[0] % bits) & 1) for a in lanes(c.vecs[0], bits)])})

        def inject(c, bits=bits):
            bit = 1 << (c.scalars[0] % bits)
            on = truth(c.preds[0], 512 // bits)
            return {"vec": vec([(a & ~bit) | (bit if t else 0) for a, t in zip(lanes(c.old, bits), on)], bits)}

        define("ivp_injbi" + sfx, inject)
    for n in range(8):
        define("ivp_fs%dltu2nx8" % n, lambda c, n=n: {"fs": [
            fields([a < b for a, b in zip(c.vecs[0], c.vecs[1])]) if i == n else 0 for i in range(8)]})
    define("ivp_movfsv", lambda c: {"fs": [
        sum((byte >> i & 1) << j for j, byte in enumerate(c.vecs[0])) for i in range(8)]})


def moves():
    copy = lambda c: {"vec": c.vecs[0]}
    define("ivp_movvv", copy)
    for bits, sfx in SUFFIX.items():
        define("ivp_mov" + sfx + "t", lambda c, bits=bits: {"vec": merged(c, c.vecs[0], 512 // bits, c.preds[0])})
        with_predicate("ivp_rep" + sfx, bits, lambda c, bits=bits: {
            "vec": vec([lanes(c.vecs[0], bits)[c.scalars[0] % (512 // bits)]] * (512 // bits), bits)})
        pick = lambda c, bits=bits: lanes(c.vecs[0], bits)[c.scalars[0] % (512 // bits)]
        define("ivp_extr" + sfx, lambda c, pick=pick, bits=bits: {"ar": signed(pick(c), bits) & 0xFFFFFFFF})
        define("ivp_extrpr" + sfx, lambda c, pick=pick: {"pr": pick(c)})
        define("ivp_movva%d" % bits, lambda c, bits=bits: {"vec": vec([c.scalars[0]] * (512 // bits), bits)})
        define("ivp_movav%d" % bits, lambda c, bits=bits: {"ar": signed(lanes(c.vecs[0], bits)[0], bits) & 0xFFFFFFFF})
        if bits < 32:
            define("ivp_movavu%d" % bits, lambda c, bits=bits: {"ar": lanes(c.vecs[0], bits)[0]})
            define("ivp_movvint%d" % bits, lambda c, bits=bits: {"vec": vec([c.scalars[0]] * (512 // bits), bits)})
    define("ivp_extrpr64n_4x64", lambda c: {
        "pr": struct.unpack("<8Q", c.vecs[0])[c.scalars[0] % 8]})
    define("ivp_movpra32", lambda c: {"pr": signed(c.scalars[0], 32) & ((1 << 64) - 1)})
    define("ivp_addmod16u", lambda c: {"ar": (c.scalars[0] + c.scalars[1]) & 0xFFFF})
    for z in ("", "z"):
        for name, hit in (("eq", lambda d, b: d == b), ("le", lambda d, b: d <= b)):
            for m in ("", "m"):
                def hist(c, z=z, hit=hit, m=m):
                    b = 0 if z else c.scalars[0] & 7
                    on = truth(c.preds[0], 64) + truth(c.preds[1], 64) if m else [True] * 128
                    count = sum(1 for d, t in zip(c.vecs[0] + c.vecs[1], on) if t and hit(d, b))
                    return {"vec": vec([count] * 32, 16), "ar": (b + 1) & 7}

                define("ivp_count" + name + m + z + "4nx8", hist)


for family in (integer_alu, compares_and_flags, reductions, shifts, permutations, floating_point, predicates, moves):
    family()
