"""Value semantics of the Vision-Q7 slot-3 operations, as plain Python integers.

Written from the public pages (wiki: validation/*, isa/ref/b01 .. b24, isa/core/fp-sub-isa) by other methods
than the Rust implementation that it checks: floating-point results are rounded from exact big integers
instead of aligned significands, masks are lists of booleans, lanes are lists of integers, seed tables come
from their closed form. It shares that implementation's reading of the pages and its open choices
(docs/open-choices/q7-values.md), so agreement does not confirm those; the transcribed vectors do where
they reach.

OPS maps a mnemonic to a function of a Case; the function returns the named outputs.
"""

import struct

from q7_values_float import (
    BYBITS, F16, F32, INVALID, div0, fadd, fclass, fcompare, ffma, ffromint, fintegral, fmin, fminnum, fmul,
    fnarrow, fsub, ftoint, fwiden, nexp0, nexp01, recip0, recipqli, rsqrt0, sqrt0,
)

FMT = {8: "<64B", 16: "<32H", 32: "<16I"}


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

        def addexpm(c, bits=bits, f=f):
            # What is added sits in b's mantissa: fp32 sign 22, exponent 21..14; fp16 sign 9, exponent 8..4.
            at_sign, at_exponent = (22, 14) if bits == 32 else (9, 4)
            out = []
            for a, b in zip(lanes(c.old, bits), lanes(c.vecs[0], bits)):
                sa, ea, ma = f.split(a)
                exponent = (ea + (b >> at_exponent) % (f.top + 1) - f.bias) % (f.top + 1)
                out.append((sa ^ (b >> at_sign) % 2) << (f.e + f.m) | exponent << f.m | ma)
            return {"vec": vec(out, bits)}

        if bits == 16:
            with_predicate("ivp_addexpm" + sfx, bits, addexpm)
        else:
            define("ivp_addexpm" + sfx, addexpm)
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
    # The accumulator of a case is its three vectors, 32 lanes of 48 bits.
    wide = lambda c: b"".join(c.vecs)
    lanes48 = lambda c: [int.from_bytes(wide(c)[6 * k:6 * k + 6], "little") for k in range(32)]

    def fixed(word0, s):
        return ((word0 + (1 << (s - 1))) & 0x7FFFFFFF) >> s

    define("ivp_packlnx48", lambda c: {"vec": vec(lanes48(c), 16)})
    for letter, s in (("p", 10), ("q", 15)):
        define("ivp_pack%snx48" % letter, lambda c, s=s: {
            "vec": vec([fixed(a & 0xFFFFFFFF, s) for a in lanes48(c)], 16)})
    define("ivp_packvrnx48", lambda c: {"vec": vec(
        [sat((signed(a, 48) + (1 << min(c.scalars[0], 32) >> 1)) >> min(c.scalars[0], 32)) for a in lanes48(c)], 16)})
    define("ivp_packvrnrnx48", lambda c: {"vec": vec(
        [signed(a, 48) >> min(c.scalars[0], 32) for a in lanes48(c)], 16)})
    define("ivp_movww", lambda c: {"wide": wide(c)})
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
