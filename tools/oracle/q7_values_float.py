"""Floating point and seeds of the Vision-Q7 value model: exact big integers, rounded once.

A finite number is an integer count of the format's smallest denormal; sums and products are exact and
rounding divides once. (wiki: isa/core/fp-sub-isa, validation/fp-soft-float, validation/transcendental-seed)
"""

INVALID, DIVZERO, OVERFLOW, UNDERFLOW, INEXACT = 1, 2, 4, 8, 16


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
