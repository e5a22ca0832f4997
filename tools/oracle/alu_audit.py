#!/usr/bin/env python3
"""Audit of the ALU: every operation on every generation, type and kind of opcode.

Writes tests/golden/alu/audit.json: inputs per type, results per domain, operation and type, and for
every form and generation one letter per operation (in the order of `ops`) for each type:

f, i, b  legal; computed in FP32, in integers of the type, on raw bits
x        illegal
?        legal by the header, but what it computes is not published
(space)  the sources do not say

Run from the root of the repository.
"""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from sweep_case import V1_TYPES, narrow, own  # noqa: E402
from vector_numbers import (DTYPES, GARITH, GARITH_V4, GBITVEC, OPS, SIGNED, UNSIGNED,  # noqa: E402
                            bitop, code, f32op, intop, is_int, size)

OUT = pathlib.Path("tests/golden/alu/audit.json")
NAMES = ["u64", "i8", "u8", "i16", "u16", "bf16", "fp16", "i32", "u32", "fp32", "i64", "fp8e3",
         "fp8e4", "fp8e5"]
ORDER = sorted(OPS, key=OPS.get)
GENS = ["v1", "v2", "v3", "v4", "v4plus", "v5"]
WIDE = ["u64", "i64"]
INTS = [d for d in NAMES if is_int(d)]
NARROW_INTS = [d for d in INTS if d not in WIDE]
REDUCED_BITS = ["u8", "u16", "u32", "i32"]
BITVEC = GBITVEC + ["crc32"]
INT_BAND = [o for o in ORDER if OPS[o] >= 0xC0]
ARGS = ["amax_int", "amin_int", "amax_uint", "amin_uint"]
DVE_INT = ["bypass", "add_int", "mult_int", "sub_int", "max_int", "min_int", "absmax_int",
           "absmin_int", "absdiff_int", "eq_int", "gt_int", "ge_int", "le_int", "lt_int", "ne_int"]


def exists(gen, op):
    c = OPS[op]
    if c == 0x24:
        return gen == "v5"
    if 0x20 <= c <= 0x23:
        return gen >= "v4"
    if c >= 0xC7:
        return gen >= "v3"
    if c >= 0xC4:
        return gen >= "v2"
    return True


def general(gen):
    """OPEN: the clamp of v5 counts as general arithmetic."""
    return GARITH if gen < "v4" else GARITH_V4 + (["clamp"] if gen == "v5" else [])


def tensor_tensor(gen, engine, op, d):
    if gen == "v1":
        return "f" if op in GARITH else " "
    if d in WIDE and gen == "v2":
        return "x"
    signed = d[0] == "i"
    if op in SIGNED + UNSIGNED + ["mod"]:
        mine = op in ["mod", "div_int", "mod_int"] or op in (SIGNED if signed else UNSIGNED)
        return "i" if engine == "pool" and is_int(d) and mine else "x"
    if d in WIDE:
        return "x"
    if op == "pow":
        return "f" if engine == "pool" else "x"
    if op not in general(gen):
        return "x"
    # OPEN: POOL is exact on 32-bit integers for every operation with an integer form
    return "i" if engine == "pool" and d in ("i32", "u32") else "f"


def tensor_tensor_bits(gen, engine, op, d):
    if gen == "v1":
        return "b" if op in GBITVEC and d in ("i32",) else " "
    if op not in GBITVEC or not is_int(d):
        return "x"
    return "x" if d in WIDE and (gen == "v2" or engine == "dve") else "b"


def tensor_scalar(gen, engine, op, d):
    if gen == "v1":
        return "f" if op in GARITH else " "
    if d in WIDE:
        return "x"
    if op in general(gen):
        return "f"
    if gen == "v5" and op in DVE_INT:
        return "i" if is_int(d) else "x"
    return " " if op == "rsqrt" else "x"  # its form has no scalars


def tensor_scalar_bits(gen, engine, op, d):
    if gen == "v1":
        return "b" if op in GBITVEC and d == "i32" else " "
    if op not in BITVEC or d not in NARROW_INTS or op == "asr" and size(d) < 4 or op == "crc32":
        return "x"
    return "b"


def scalar_tensor_tensor(gen, engine, op, d):
    return "f" if op in general(gen) and d not in WIDE else "x"


def scalar_tensor_tensor_bits(gen, engine, op, d):
    if op not in GBITVEC or d not in INTS:
        return "x"
    return " " if d in WIDE else "b"


def reduce(gen, engine, op, d):
    if gen == "v1":
        return "f" if op in GARITH else " "
    if op in general(gen):
        return ("x" if engine == "dve" else " ") if d in WIDE else "f"
    if op in INT_BAND and engine == "pool" and is_int(d) and size(d) >= 4:
        return "i"
    return " " if op == "mod" and engine == "pool" else "x"


def reduce_bits(gen, engine, op, d):
    if gen == "v1":
        return "b" if op in GBITVEC and d == "i32" else " "
    if op not in BITVEC or d not in REDUCED_BITS:
        return "x"
    return "b" if op != "crc32" else "x" if engine == "dve" else "?"


def cumulative(gen, engine, op, d):
    if gen == "v1":
        return "f" if op in GARITH else " "
    if d in WIDE:
        return "x"
    if op in ("add_int", "mult_int", "sub_int", "div_int", "mod_int"):
        return "i" if is_int(d) else "x"
    return "f" if op in general(gen) + ["rsqrt"] else "x"


def cumulative_bits(gen, engine, op, d):
    if gen == "v1":
        return "b" if op in GBITVEC and d == "i32" else " "
    if op not in BITVEC or d not in REDUCED_BITS or op == "lsr" and d != "i32" or op == "crc32":
        return "x"
    return "b"


def cache(gen, engine, op, d):
    return "f" if op in general(gen) and d not in WIDE + ["i32", "u32"] else "x"


def second(first):
    """The same operation as the second stage behind one that changes nothing."""
    def letter(gen, engine, op, d):
        found = first(gen, engine, op, d)
        # integers and floats do not mix, and a bypassed second stage has tests of its own
        return " " if found == "i" or op == "bypass" else found
    return letter


# form: (opcode, kind of operands, engines, first generation, letter)
FORMS = {
    "tensor-tensor": ("TENSOR_TENSOR_ARITH_OP", ["dve", "pool"], "v1", tensor_tensor),
    "tensor-tensor bits": ("TENSOR_TENSOR_BITVEC_OP", ["dve", "pool"], "v1", tensor_tensor_bits),
    "tensor-scalar": ("TENSOR_SCALAR_ARITH_OP", ["dve", "pool"], "v1", tensor_scalar),
    "tensor-scalar bits": ("TENSOR_SCALAR_BITVEC_OP", ["dve"], "v1", tensor_scalar_bits),
    "scalar-tensor-tensor": ("SCALAR_TENSOR_TENSOR_ARITH", ["dve"], "v2", scalar_tensor_tensor),
    "scalar-tensor-tensor bits": ("SCALAR_TENSOR_TENSOR_BITVEC", ["dve"], "v2",
                                  scalar_tensor_tensor_bits),
    "tensor-scalar second": ("TENSOR_SCALAR_ARITH_OP", ["dve"], "v1", second(tensor_scalar)),
    "tensor-scalar second bits": ("TENSOR_SCALAR_BITVEC_OP", ["dve"], "v1",
                                  second(tensor_scalar_bits)),
    "scalar-tensor-tensor second": ("SCALAR_TENSOR_TENSOR_ARITH", ["dve"], "v2",
                                    second(scalar_tensor_tensor)),
    "scalar-tensor-tensor second bits": ("SCALAR_TENSOR_TENSOR_BITVEC", ["dve"], "v2",
                                         second(scalar_tensor_tensor_bits)),
    "reduce": ("TENSOR_REDUCE_ARITH_OP", ["dve", "pool"], "v1", reduce),
    "reduce bits": ("TENSOR_REDUCE_BITVEC_OP", ["dve", "pool"], "v1", reduce_bits),
    "cumulative": ("TENSOR_CUMULATIVE_ARITH_OP", ["dve"], "v1", cumulative),
    "cumulative bits": ("TENSOR_CUMULATIVE_BITVEC_OP", ["dve"], "v1", cumulative_bits),
    "cache": ("TENSOR_SCALAR_CACHE_REDUCE", ["dve"], "v2", cache),
}


def inputs(d):
    t = DTYPES[d][1]
    if is_int(d):
        info = np.iinfo(t)
        a = [0, 1, 2, 7, info.max, info.min, info.max - 1, 100, (info.max // 2) + 1]
        b = [0, 1, 3, 8, 31, info.max, info.min, (info.max // 3) & 0x7FFFFFFFFFFFFFFF]
        if d[0] == "i":
            a[3], b[4], b[2] = -7, -31, -3
        return np.array(a, t), np.array(b, t)
    a = [0.0, -0.0, 1.0, -3.5, 2.5, 1e-40, np.nan, np.inf, -240.0]
    b = [0.0, 1.0, -1.0, 2.5, 3.3e38, np.nan, -np.inf, 0.375]
    return narrow(a, d), narrow(b, d)


def hexed(values):
    return np.ascontiguousarray(values).tobytes().hex()


def result(domain, op, d):
    """All of a op b, in rows of one b."""
    a, b = inputs(d)
    if domain == "f":
        return hexed(narrow([f32op(op, f, g) for g in b.astype(np.float32)
                             for f in a.astype(np.float32)], d))
    u = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size(d)]
    if op in ARGS:
        # of the pair (a, b) in the signedness of the operation; the index is UINT32
        own_sign = ("i" if op.endswith("_int") else "u") + str(8 * size(d))
        ua, ub = a.view(u), b.view(u)
        x, y = (v.view(DTYPES[own_sign][1]) for v in (ua, ub))
        best = (lambda f, g: f >= g) if "max" in op else (lambda f, g: f <= g)
        return hexed(np.array([0 if best(f, g) else 1 for g in y for f in x], np.uint32))
    if domain == "i":
        r = [intop(op, int(f), int(g), d) for g in b for f in a]
    else:
        r = [bitop(op, int(f), int(g), 8 * size(d)) for g in b.view(u) for f in a.view(u)]
    m = (1 << 8 * size(d)) - 1
    return hexed(np.array([v & m for v in r], u))


def main():
    forms, needed = [], set()
    for name, (opcode, engines, first, letter) in FORMS.items():
        for gen in GENS[GENS.index(first):]:
            for engine in ["pool"] if gen == "v1" else engines:
                rows = {}
                for d in V1_TYPES if gen == "v1" else NAMES:
                    text = "".join(letter(gen, engine, op, d) if exists(gen, op) else "x"
                                   for op in ORDER)
                    rows[own(gen, d)] = text
                    needed |= {(t, op, own(gen, d)) for t, op in zip(text, ORDER) if t in "fib"}
                forms.append({"form": name, "opcode": opcode, "gen": gen, "engine": engine,
                              "rows": rows})
    types = sorted({d for f in forms for d in f["rows"]})
    results = {}
    for domain, op, d in sorted(needed):
        results.setdefault(domain, {}).setdefault(op, {})[d] = result(domain, op, d)
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("w") as f:
        json.dump({"ops": [[op, OPS[op]] for op in ORDER],
                   "inputs": {d: [code(d), size(d), *map(hexed, inputs(d))] for d in types},
                   "results": results, "forms": forms}, f, separators=(",", ":"))
        f.write("\n")
    count = sum(len(t.replace(" ", "")) for f in forms for t in f["rows"].values())
    print(len(ORDER), "operations,", len(forms), "forms,", count, "combinations,",
          OUT.stat().st_size, "bytes")


main()
