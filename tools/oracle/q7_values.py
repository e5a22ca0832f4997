#!/usr/bin/env python3
"""Generates the Vision-Q7 value vectors of tests/golden/q7 from the independent model q7_model.py.

    q7_values.py            write everything (minutes: the long hashes cover ten million lanes)
    q7_values.py --short    keep the long hashes as they are, write the rest
    q7_values.py show OP N  print case N of an operation, to debug a hash that differs

Inputs come from SplitMix64 and are shaped by the case number, exactly as tests/q7_values/model.rs does it,
so that only outputs (or their CRC-32) need to be stored.
"""

import csv
import json
import os
import struct
import sys
import zlib

import q7_model as model
from q7_model import Case, OPS, lanes, signed, vec

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "q7")
SHORT_CASES = 12
LONG_CASES = 700

EDGE8 = [0x00, 0x01, 0xFF, 0x7F, 0x80, 0x81, 0x7E, 0xFE, 0x40, 0xC0, 0x55, 0xAA, 0x02, 0x07, 0x3F, 0x08]
EDGE16 = [
    0x0000, 0x0001, 0xFFFF, 0x7FFF, 0x8000, 0x8001, 0x7FFE, 0x0002, 0xFFFE, 0x4000, 0xC000, 0x00FF, 0xFF00,
    0x5555, 0xAAAA, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE34, 0x3C00, 0xBC00, 0x03FF, 0x0400, 0x7BFF, 0xFBFF,
    0x3800, 0x4100, 0x1000, 0x0010, 0x001F, 0x3C01,
]
EDGE32 = [
    0x00000000, 0x00000001, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0x00000002, 0xFFFFFFFE,
    0x40000000, 0xC0000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00000, 0xFFC00001, 0x3F800000,
    0xBF800000, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x33800000, 0x3F000000, 0x40200000,
    0xC0200000, 0x4B000001, 0x4F000000, 0xCF000000, 0x477FE000, 0x38800000, 0x0000001F, 0x00000040,
]
GRID16 = [0x0000, 0x0001, 0xFFFF, 0x7FFF, 0x8000, 0x8001, 0x7FFE, 0x4000, 0xC000, 0x5555, 0xAAAA]


class SplitMix:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return z ^ z >> 31


def shaped(rng, kind):
    raw = struct.pack("<8Q", *[rng.next() for _ in range(8)])
    if kind == 1:
        return vec([EDGE16[x % len(EDGE16)] for x in lanes(raw, 16)], 16)
    if kind == 2:
        return vec([EDGE32[x % len(EDGE32)] for x in lanes(raw, 32)], 32)
    if kind == 3:
        return vec([EDGE8[x % len(EDGE8)] for x in lanes(raw, 8)], 8)
    if kind == 4:
        return vec([(x & 0x807FFFFF) | (120 + (x >> 23 & 15)) << 23 for x in lanes(raw, 32)], 32)
    if kind == 5:
        return vec([(x & 0x83FF) | (12 + (x >> 10 & 7)) << 10 for x in lanes(raw, 16)], 16)
    return raw


def case(rng, index):
    kind = index % 6
    vecs = [shaped(rng, kind) for _ in range(3)]
    old = shaped(rng, kind)
    preds = [rng.next() for _ in range(2)]
    old_vbool = rng.next()
    scalars = [rng.next() & (0x3F if kind in (1, 2, 3) else 0xFFFFFFFF) for _ in range(2)]
    return Case(vecs, preds, scalars, old, old_vbool, rng.next() & 3)


def image(out):
    """Output bytes in the order vec, vec2, wide, vbool, ar, pr, fs, flags; parts that the op lacks are absent."""
    parts = [out[k] for k in ("vec", "vec2", "wide") if k in out]
    if "vbool" in out:
        parts.append(struct.pack("<Q", out["vbool"]))
    if "ar" in out:
        parts.append(struct.pack("<I", out["ar"] & 0xFFFFFFFF))
    if "pr" in out:
        parts.append(struct.pack("<Q", out["pr"]))
    if "fs" in out:
        parts.append(struct.pack("<8Q", *out["fs"]))
    if "flags" in out:
        parts.append(struct.pack("<I", out["flags"]))
    return b"".join(parts)


def random_hash(name, cases):
    rng, crc = SplitMix(zlib.crc32(name.encode())), 0
    for index in range(cases):
        crc = zlib.crc32(image(OPS[name](case(rng, index))), crc)
    return crc


def write_csv(name, header, rows):
    with open(os.path.join(OUT, name), "w", newline="\n") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print("%s: %d rows" % (name, len(rows)))


# ---------------------------------------------------------------- exhaustive sweeps


def sweep_unary16(name, mode, scalar):
    """All 65536 half-words, 32 to a vector (in the low half of 16 words for the fp16 to fp32 widening)."""
    crc = 0
    for base in range(0, 65536, 32):
        v = vec(range(base, base + 32), 16)
        crc = zlib.crc32(image(OPS[name](Case([v], [], [scalar, 0], bytes(64), 0, mode))), crc)
    return crc


def sweep_binary8(name):
    """All pairs of bytes: a in lanes, b splatted."""
    crc = 0
    for b in range(256):
        for base in range(0, 256, 64):
            vecs = [vec(range(base, base + 64), 8), bytes([b]) * 64]
            crc = zlib.crc32(image(OPS[name](Case(vecs, [], [0, 0], bytes(64), 0, 0))), crc)
    return crc


def sweep_unary8(name, scalar):
    crc = 0
    for base in range(0, 256, 64):
        crc = zlib.crc32(image(OPS[name](Case([vec(range(base, base + 64), 8)], [], [scalar, 0], bytes(64), 0, 0))), crc)
    return crc


def sweep_seed32(name):
    """Every sign and exponent with 256 top mantissa bytes and two tails; denormals of every magnitude."""
    crc = 0
    for top in range(512):
        for tail in (0, 0x7FFF):
            for base in range(0, 256, 16):
                v = vec([top << 23 | (base + k) << 15 | tail for k in range(16)], 32)
                crc = zlib.crc32(image(OPS[name](Case([v], [], [0, 0], bytes(64), 0, 0))), crc)
    for sign in (0, 1 << 31):
        for bit in range(23):
            v = vec([sign | 1 << bit | (k * 0x88889 & ((1 << bit) - 1)) for k in range(16)], 32)
            crc = zlib.crc32(image(OPS[name](Case([v], [], [0, 0], bytes(64), 0, 0))), crc)
    return crc


def sweep_shift16(name):
    """Every half-word against 8 amounts of the 64: amounts walk with the value."""
    crc = 0
    for base in range(0, 65536, 32):
        v = vec(range(base, base + 32), 16)
        for k in range(8):
            n = vec([(base // 32 * 8 + k * 9 + j) & 0x3F | (j & 1) << 15 for j in range(32)], 16)
            crc = zlib.crc32(image(OPS[name](Case([v, n], [], [0, 0], bytes(64), 0, 0))), crc)
    return crc


UNARY16 = [
    "ivp_absnx16", "ivp_abssnx16", "ivp_negnx16", "ivp_negsnx16", "ivp_nsanx16", "ivp_nsaunx16", "ivp_babsnx16",
    "ivp_absnxf16", "ivp_negnxf16", "ivp_clsfynxf16", "ivp_recip0nxf16", "ivp_rsqrt0nxf16", "ivp_sqrt0nxf16",
    "ivp_div0nxf16", "ivp_nexp0nxf16", "ivp_nexp01nxf16", "ivp_fitruncnxf16", "ivp_ficeilnxf16",
    "ivp_fifloornxf16", "ivp_firoundnxf16", "ivp_cvtf32nxf16_0", "ivp_cvtf32nxf16_1",
]
SCALED16 = ["ivp_slli", "ivp_srli", "ivp_srai", "ivp_rotri"]
BINARY8 = [
    "add", "sub", "min", "max", "minu", "maxu", "abssub", "abssubu", "avg", "avgr", "avgu", "avgru", "and", "or",
    "xor", "eq", "neq", "le", "leu", "lt", "ltu", "bmax", "bmaxu", "bmin", "bminu", "babssub", "babssubu",
    "bxorabssubu", "fs0ltu", "fs1ltu", "fs2ltu", "fs3ltu", "fs4ltu", "fs5ltu", "fs6ltu", "fs7ltu",
]
SEED32 = ["ivp_recip0n_2xf32", "ivp_rsqrt0n_2xf32", "ivp_sqrt0n_2xf32", "ivp_div0n_2xf32", "ivp_nexp01n_2xf32"]


def exhaustive():
    rows = []
    for name in UNARY16:
        rows.append((name, "unary16", 0, 0, sweep_unary16(name, 0, 0)))
    for mode in range(4):
        rows.append(("ivp_firintnxf16", "unary16", mode, 0, sweep_unary16("ivp_firintnxf16", mode, 0)))
        for scalar in (0, 3, 15):
            for name in ("ivp_float16nx16", "ivp_ufloat16nx16"):
                rows.append((name, "unary16", mode, scalar, sweep_unary16(name, mode, scalar)))
    for scalar in range(16):
        for name in SCALED16:
            rows.append((name + "nx16", "unary16", 0, scalar, sweep_unary16(name + "nx16", 0, scalar)))
        if scalar in (0, 3, 15):
            for name in ("ivp_trunc16nxf16", "ivp_utrunc16nxf16"):
                rows.append((name, "unary16", 0, scalar, sweep_unary16(name, 0, scalar)))
    for name in BINARY8:
        rows.append(("ivp_" + name + "2nx8", "binary8", 0, 0, sweep_binary8("ivp_" + name + "2nx8")))
    for name in ("ivp_abs2nx8", "ivp_neg2nx8", "ivp_not2nx8", "ivp_babs2nx8", "ivp_popc2nx8"):
        rows.append((name, "unary8", 0, 0, sweep_unary8(name, 0)))
    for scalar in range(8):
        for name in SCALED16:
            rows.append((name + "2nx8", "unary8", 0, scalar, sweep_unary8(name + "2nx8", scalar)))
    for name in SEED32:
        rows.append((name, "seed32", 0, 0, sweep_seed32(name)))
    for name in ("ivp_sllnx16", "ivp_srlnx16", "ivp_sranx16", "ivp_rotrnx16"):
        rows.append((name, "shift16", 0, 0, sweep_shift16(name)))
    write_csv("exhaustive.csv", ["mnemonic", "sweep", "mode", "scalar", "crc32"], [r[:4] + ("%08x" % r[4],) for r in rows])


# ---------------------------------------------------------------- reduce, shift and permute probes


def entry(name, vecs, preds=()):
    out = OPS[name](Case(vecs, list(preds), [0, 0], bytes(64), 0, 0))
    row = {"op": name, "vecs": [v.hex() for v in vecs]}
    if preds:
        row["preds"] = ["%016x" % p for p in preds]
    for key in ("vec", "vec2"):
        if key in out:
            row[key] = out[key].hex()
    if "vbool" in out:
        row["vbool"] = "%016x" % out["vbool"]
    if "flags" in out:
        row["flags"] = out["flags"]
    return row


def padded(values, bits=16):
    return vec(list(values) + [0] * (512 // bits - len(values)), bits)


def directed():
    """83 probes: 30 reductions, 36 shifts, 17 permutations, on the page's own inputs and edges.

    The page's tables are not printed in full; where they end, the probes continue on the same edges.
    """
    keep = lambda ks: sum(3 << 2 * k for k in ks)
    ramp = padded(range(1, 33))
    rows = []
    sums = [
        ("ivp_raddnx16", ramp), ("ivp_raddnx16", vec([0x4000] * 32, 16)), ("ivp_raddnx16", vec([0xFFFF] * 32, 16)),
        ("ivp_raddsnx16", padded([0x4000] * 8)), ("ivp_raddsnx16", padded([0xC000] * 8)),
        ("ivp_raddunx16", padded([0x8000] * 4)), ("ivp_raddnx16", vec([0x7FFF] * 32, 16)),
        ("ivp_raddnx16", vec([0x8000] * 32, 16)), ("ivp_raddsnx16", vec([0x7FFF] * 32, 16)),
        ("ivp_raddunx16", vec([0xFFFF] * 32, 16)), ("ivp_radd2nx8", vec([1] * 64, 8)),
        ("ivp_radd2nx8", vec([0x80] * 64, 8)), ("ivp_raddn_2x32", padded(range(1, 17), 32)),
        ("ivp_raddnx16", padded(GRID16)),
    ]
    extrema = [
        ("ivp_rmaxnx16", padded([1, 2, 3, 0xFFFB, 0x64])), ("ivp_rminnx16", padded([1, 2, 3, 0xFFFB, 0x64])),
        ("ivp_rmaxunx16", padded([1, 2, 3, 0xFFFB, 0x64])), ("ivp_rmaxnx16", padded(GRID16)),
        ("ivp_rmaxunx16", padded(GRID16)), ("ivp_rminunx16", padded(GRID16)),
        ("ivp_rbmaxnx16", padded([0] * 7 + [0x4000])), ("ivp_rbmaxnx16", padded([0, 0, 0x200] + [0] * 6 + [0x200])),
        ("ivp_rbminnx16", padded([0, 0, 0, 0xFFF7])), ("ivp_rbmaxunx16", padded([0, 0, 0xFFFB])),
    ]
    for name, v in sums + extrema:
        rows.append(entry(name, [v]))
    rows.append(entry("ivp_rmaxnumnxf16", [padded([0x3C00, 0x7E00, 0x4000])]))
    rows.append(entry("ivp_rminnumnxf16", [padded([0x4500, 0x7C01, 0xC200])]))
    rows.append(entry("ivp_raddnx16t", [ramp], [keep([0, 1, 2])]))
    rows.append(entry("ivp_raddnx16t", [ramp], [0]))
    masked = padded([0] * 5 + [1000] + [0] * 4 + [50])
    rows.append(entry("ivp_rmaxnx16t", [masked], [keep([10])]))
    rows.append(entry("ivp_rmaxnx16t", [masked], [keep([5, 10])]))
    assert len(rows) == 30
    # 36 shifts: the edge values in lanes, one amount each, in and beyond the lane width and negative
    edges = padded(GRID16 * 2)
    for name in ("ivp_sllnx16", "ivp_srlnx16", "ivp_sranx16"):
        for n in (0, 1, 4, 15, 16, 17, 31, 32, 63):
            rows.append(entry(name, [edges, vec([n] * 32, 16)]))
    for n in (1, 4, 15, 16):
        rows.append(entry("ivp_rotrnx16", [edges, vec([n] * 32, 16)]))
    rows.append(entry("ivp_nsanx16", [edges]))
    rows.append(entry("ivp_nsaunx16", [edges]))
    for name in ("ivp_slln_2x32", "ivp_srln_2x32", "ivp_sran_2x32"):
        rows.append(entry(name, [vec(EDGE32[:16], 32), vec([k * 9 for k in range(16)], 32)]))
    assert len(rows) == 66
    # 17 permutations
    a, b, src = (padded(range(base, base + 32)) for base in (0xA00, 0xB00, 0x100))
    controls = [range(32), range(31, -1, -1), [(k + 5) % 32 for k in range(32)], [0, 1, 31, 32, 33, 63, 64, 127] * 4]
    for ctrl in controls:
        rows.append(entry("ivp_shflnx16", [src, vec(ctrl, 16)]))
    for ctrl in controls + [[k * 2 for k in range(32)], [k * 2 + 1 for k in range(32)], [0, 32, 63, 64, 127] * 6 + [5, 40]]:
        rows.append(entry("ivp_selnx16", [b, a, vec(ctrl, 16)]))
    rows.append(entry("ivp_dselnx16", [b, a, vec([k * 2 | (k * 2 + 1) << 8 for k in range(32)], 16)]))
    data = vec(range(0xA0, 0xE0), 8)
    for mask in ((1 << 3 | 1 << 7 | 1 << 9), 7, 0, 0x5555555555555555, (1 << 64) - 1):
        rows.append(entry("ivp_dcmprs2nx8", [data], [mask]))
    assert len(rows) == 83, len(rows)
    with open(os.path.join(OUT, "directed.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print("directed.json: %d probes" % len(rows))


FUZZ = [
    (405, ["ivp_raddnx16", "ivp_raddunx16", "ivp_raddsnx16", "ivp_radd2nx8", "ivp_raddn_2x32", "ivp_rmaxnx16",
           "ivp_rminnx16", "ivp_rmaxunx16", "ivp_rminunx16", "ivp_rbmaxnx16", "ivp_rbminnx16", "ivp_rbmaxunx16",
           "ivp_rmaxnumnxf16", "ivp_rminnumnxf16", "ivp_raddnx16t", "ivp_rmaxnx16t"]),
    (800, ["ivp_sllnx16", "ivp_srlnx16", "ivp_sranx16", "ivp_rotrnx16", "ivp_nsanx16", "ivp_nsaunx16",
           "ivp_slln_2x32", "ivp_srln_2x32", "ivp_sran_2x32", "ivp_rotrn_2x32"]),
    (800, ["ivp_selnx16", "ivp_sel2nx8", "ivp_seln_2x32", "ivp_shflnx16", "ivp_shfl2nx8", "ivp_shfln_2x32",
           "ivp_dselnx16", "ivp_dcmprs2nx8", "ivp_selnx16t"]),
]


def fuzz():
    """2005 cases of the three families, one CRC each."""
    rng, rows = SplitMix(5), []
    for count, names in FUZZ:
        for k in range(count):
            name = names[k % len(names)]
            rows.append((name, "%08x" % zlib.crc32(image(OPS[name](case(rng, len(rows)))))))
    assert len(rows) == 2005
    write_csv("fuzz.csv", ["mnemonic", "crc32"], rows)


def hashes(keep_long):
    path, old = os.path.join(OUT, "random.csv"), {}
    if keep_long and os.path.exists(path):
        with open(path) as f:
            old = {r["mnemonic"]: r for r in csv.DictReader(f)}
    rows = []
    for name in sorted(OPS):
        if name in old and int(old[name]["long_cases"]) == LONG_CASES:
            long = old[name]["long_crc32"]
        else:
            long = "%08x" % random_hash(name, LONG_CASES)
        rows.append((name, SHORT_CASES, "%08x" % random_hash(name, SHORT_CASES), LONG_CASES, long))
    write_csv("random.csv", ["mnemonic", "short_cases", "short_crc32", "long_cases", "long_crc32"], rows)


def show(name, index):
    rng = SplitMix(zlib.crc32(name.encode()))
    for i in range(index + 1):
        c = case(rng, i)
    for i, v in enumerate(c.vecs):
        print("v%d  %s" % (i, v.hex()))
    print("old %s\npreds %s old_vbool %016x scalars %s mode %d" % (
        c.old.hex(), ["%016x" % p for p in c.preds], c.old_vbool, ["%x" % s for s in c.scalars], c.mode))
    for key, value in OPS[name](c).items():
        print(key, value.hex() if isinstance(value, bytes) else "%x" % value if isinstance(value, int) else value)


if __name__ == "__main__":
    if sys.argv[1:2] == ["show"]:
        show(sys.argv[2], int(sys.argv[3]))
    else:
        directed()
        fuzz()
        exhaustive()
        hashes("--short" in sys.argv)
