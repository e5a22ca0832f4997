"""Memory images, dtypes and the vector file format shared by the oracles `indirect.py` and `dge.py`.

A vector is one small program on one engine: bytes put into memory, instruction words given by
field names, and the bytes that must be there afterwards. Needs numpy and ml_dtypes.
"""

import json
import pathlib

import ml_dtypes
import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

DTYPES = {
    "int8": (0x02, np.int8), "uint8": (0x03, np.uint8), "int16": (0x04, np.int16),
    "uint16": (0x05, np.uint16), "bf16": (0x06, ml_dtypes.bfloat16), "fp16": (0x07, np.float16),
    "int32": (0x08, np.int32), "uint32": (0x09, np.uint32), "fp32": (0x0A, np.float32),
    "fp8e3": (0x0D, ml_dtypes.float8_e3m4), "fp8e4": (0x0E, ml_dtypes.float8_e4m3),
    "fp8e5": (0x0F, ml_dtypes.float8_e5m2),
}
# Largest finite values of the formats that saturate.
FP8_MAX = {"fp8e3": 15.5, "fp8e4": 240.0, "fp8e5": 57344.0}
CODE = {name: row[0] for name, row in DTYPES.items()}
NP = {name: np.dtype(row[1]) for name, row in DTYPES.items()}

SBUF_STRIDE = 0x40000
# Distance between partitions of the generation whose vector is being made.
stride = {"sbuf": SBUF_STRIDE}
SBUF_WINDOW = 0x2000000000
HBM_WINDOW = 0x1000000000
PSUM_BASE = 0x2000000
PSUM_STRIDE = 0x8000


def is_int(dtype):
    return "int" in dtype


def addr4(partition, byte, space="sbuf"):
    """On-chip operand address."""
    if space == "psum":
        return PSUM_BASE + partition * PSUM_STRIDE + byte
    return partition * stride["sbuf"] + byte


def device(partition, byte):
    """Device address of an SBUF byte."""
    return SBUF_WINDOW + partition * SBUF_STRIDE + byte


def widen(values, dtype):
    """Elements as FP32, rounded to nearest even."""
    return np.asarray(values, dtype=NP[dtype]).astype(np.float32)


def narrow(values, dtype):
    """FP32 to elements: nearest even; integers and FP8 saturate, infinities too. NaN becomes the
    greatest integer, the least one if its sign is set; BF16 and FP8 drop its sign."""
    values = np.asarray(values, dtype=np.float32)
    if is_int(dtype):
        info = np.iinfo(NP[dtype])
        nan = np.where(np.signbit(values), info.min, info.max)
        wide = np.where(np.isnan(values), nan, np.rint(values.astype(np.float64)))
        return np.clip(wide, info.min, info.max).astype(NP[dtype])
    if dtype in FP8_MAX:
        limit = np.float32(FP8_MAX[dtype])
        return np.where(np.isnan(values), np.float32(np.nan), np.clip(values, -limit, limit)).astype(NP[dtype])
    if dtype == "bf16":
        out = values.astype(NP[dtype])
        return np.where(np.isnan(values), np.uint16(0x7FC0), out.view(np.uint16)).view(NP[dtype])
    return values.astype(NP[dtype])


def walk(dims):
    """Element offsets of (step, count) dimensions, the first one fastest."""
    offsets = [0]
    for step, count in dims:
        offsets = [o + i * step for i in range(count) for o in offsets]
    return offsets


class Memory:
    """Byte images of the partitions that a vector touches."""

    def __init__(self, rng):
        self.rng, self.rows = rng, {}

    def row(self, space, partition, size=4096):
        key = (space, partition)
        if key not in self.rows:
            self.rows[key] = bytearray(self.rng.integers(0, 256, size, dtype=np.uint8).tobytes())
        return self.rows[key]

    def put(self, space, partition, byte, data):
        row = self.row(space, partition)
        row[byte:byte + len(data)] = data

    def get(self, space, partition, byte, size):
        return bytes(self.row(space, partition)[byte:byte + size])

    def scatter(self, space, partition, byte, dims, values):
        """Stores elements at the places of a walk, in order."""
        values = np.asarray(values)
        size = values.dtype.itemsize
        places = walk(dims)
        assert len(places) == len(values), (len(places), len(values))
        for o, v in zip(places, values):
            self.put(space, partition, byte + o * size, v.tobytes())

    def gather(self, space, partition, byte, dims, dtype):
        size = NP[dtype].itemsize
        data = b"".join(self.get(space, partition, byte + o * size, size) for o in walk(dims))
        return np.frombuffer(data, dtype=NP[dtype])

    def ranges(self, keep):
        """The image, cut to the ranges of interest."""
        return [[s, p, b, self.get(s, p, b, n).hex()] for s, p, b, n in keep]


class Vector:
    """Collects one vector: `memory` is changed by the oracle after `freeze`."""

    def __init__(self, name, generation, engine, seed):
        stride["sbuf"] = 0x100000 if generation == "v5" else SBUF_STRIDE
        # the code for E4M3 means the form without infinities from v5 on
        e4m3 = ml_dtypes.float8_e4m3fn if generation == "v5" else ml_dtypes.float8_e4m3
        NP["fp8e4"], FP8_MAX["fp8e4"] = np.dtype(e4m3), 448.0 if generation == "v5" else 240.0
        self.rng = np.random.default_rng(seed)
        self.memory = Memory(self.rng)
        self.keep, self.program, self.registers = [], [], {}
        self.out = {"name": name, "generation": generation, "engine": engine}

    def watch(self, space, partition, byte, size):
        """Names bytes that are put before and compared after."""
        self.memory.row(space, partition)
        self.keep.append((space, partition, byte, size))

    def inst(self, op, /, **fields):
        self.program.append({"op": op, "fields": fields})

    def freeze(self):
        self.out["put"] = self.memory.ranges(self.keep)

    def done(self, **extra):
        if self.registers:
            self.out["registers"] = self.registers
        self.out["program"] = self.program
        expect = self.memory.ranges(self.keep)
        self.out["expect"] = [e for e, p in zip(expect, self.out["put"]) if e != p]
        self.out["keep"] = [e for e, p in zip(expect, self.out["put"]) if e == p and e[3]]
        self.out["keep"] = [e[:3] + [len(e[3]) // 2] for e in self.out["keep"]]
        self.out.update(extra)
        return self.out


def tensor(address, dims, n):
    """A TENSORnD field."""
    dims = [list(d) for d in dims] + [[1, 1]] * (n - len(dims))
    return {"addr": address, "dims": dims}


def numbers(rng, dtype, count, special=True):
    """Values with ties, extremes and, for floats, specials."""
    if is_int(dtype):
        info = np.iinfo(NP[dtype])
        low, high = max(info.min, -50), min(info.max, 50)
        values = rng.integers(low, high + 1, count).astype(NP[dtype])
        if special and count > 4:
            values[1], values[3] = info.min, info.max
        return values
    values = (rng.integers(-12, 13, count) * np.float32(0.25)).astype(np.float32)
    if special and count > 6:
        for at, v in zip(rng.permutation(count), [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40]):
            values[at] = v
    return narrow(values, dtype)


def write(family, name, vectors):
    path = GOLDEN / family / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in vectors)
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{path.name}: {len(vectors)} vectors, {path.stat().st_size} bytes")
