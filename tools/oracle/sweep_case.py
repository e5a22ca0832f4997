"""Cases of the sweep over shapes, steps, partitions, types and generations: operands with random
layouts, and what the memory holds before and after."""

import numpy as np

from vector_numbers import DTYPES, code, is_int, offsets, size
from vector_numbers import narrow as plain_narrow

SBUF_STRIDE = {"v1": 0x20000, "v2": 0x40000, "v3": 0x40000, "v4": 0x40000, "v4plus": 0x40000,
               "v5": 0x100000}
PSUM_BASE, PSUM_STRIDE, PSUM_BANK = 0x2000000, 0x8000, 0x400
LATER = ["v2", "v3", "v4", "v4plus", "v5"]
FLOATS = ["fp32", "bf16", "fp16", "fp8e3", "fp8e4", "fp8e5"]
INTS = ["i8", "u8", "i16", "u16", "i32", "u32"]
V1_TYPES = ["u8", "u16", "bf16", "fp16", "i32", "fp32"]
# Quiet NaN of the FP8 formats; the sign is dropped.
NAN8 = {"fp8e3": 0x78, "fp8e4": 0x7C, "fp8e5": 0x7E, "fp8fn": 0x7F}


def narrow(x, d):
    """Elements of dtype d from FP32, NaN of FP8 in its canonical code."""
    x = np.asarray(x, np.float32)
    out = plain_narrow(x, d).copy()
    if d in NAN8:
        out.view(np.uint8)[np.isnan(x)] = NAN8[d]
    if d == "fp16":
        nan = np.isnan(x)
        out.view(np.uint16)[nan] = np.where(np.signbit(x[nan]), 0xFE00, 0x7E00)
    return out


def own(gen, d):
    """The format behind a dtype name: v5 has e4m3fn where the others have the IEEE style."""
    return "fp8fn" if gen == "v5" and d == "fp8e4" else d


def draw(rng, d, n, special=True):
    """Random elements with edges; floats also with NaN and infinities."""
    t = DTYPES[d][1]
    if is_int(d):
        info = np.iinfo(t)
        edge = [0, 1, 2, 3, info.max, info.min, info.max - 1, info.max // 2 + 1, 7]
        low, high = max(info.min, -100), min(info.max, 100)
        return np.array([edge[rng.integers(0, 9)] if rng.integers(0, 3) == 0
                         else int(rng.integers(low, high)) for _ in range(n)], t)
    edge = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 1e-40, 240.0, -3e4, 3.3e38, -1.5]
    if special:
        edge += [np.nan, np.inf, -np.inf]
    v = (rng.standard_normal(n) * 4).astype(np.float32)
    for k in range(n):
        if rng.integers(0, 4) == 0:
            v[k] = edge[rng.integers(0, len(edge))]
    return narrow(v, d)


def shapes(rng, n, dims):
    """Counts of at most `dims` dimensions whose product is n."""
    out = [n]
    while len(out) < dims and rng.integers(0, 3):
        k = int(rng.integers(0, len(out)))
        divisors = [f for f in range(2, out[k]) if out[k] % f == 0]
        if not divisors:
            break
        f = int(divisors[rng.integers(0, len(divisors))])
        out[k:k + 1] = [f, out[k] // f]
    while len(out) < dims and rng.integers(0, 4) == 0:
        out.insert(int(rng.integers(0, len(out) + 1)), 1)
    return out


class Trial:
    """One case: memory, instructions, what is expected."""

    def __init__(self, rng, gen="v3", engine="dve", channels=None):
        self.rng, self.gen, self.engine = rng, gen, engine
        self.n = channels or int(rng.integers(1, 4))
        self.mem, self.used, self.outputs = {}, {"sbuf": 0x100, "psum": 0}, []
        self.insts, self.registers, self.ulp = [], {}, 0
        free = [0] if gen in ("v1", "v5") or self.n > 64 else [0, 64] if self.n > 32 else \
            [0, 32, 64, 96]
        self.sources = free[rng.integers(0, len(free))]
        self.target = free[rng.integers(0, len(free))]

    def chance(self, n):
        return self.rng.integers(0, n) == 0

    def pick(self, list):
        return list[int(self.rng.integers(0, len(list)))]

    def operand(self, d, n, dims, role="src", values=None, channels=None, nums=None, steps=None,
                psum=False, special=True, dense=False, guard=None):
        """A new operand of n elements in at most `dims` dimensions.

        role: "src" filled with values, may repeat elements; "dst" filled with noise; "both" filled
        with values, never repeats.
        """
        # PSUM takes writes of 4-byte elements only
        psum = psum and self.gen not in ("v1", "v5") and self.engine == "dve" and (
            role == "src" or size(d) == 4)
        return Operand(self, own(self.gen, d), n, dims, role, values, channels or self.n, nums,
                       steps, psum, special, dense, guard)

    def scalar(self, d, how=None, register=7, special=True):
        """(source code, field value, the value of each channel, operand or None)."""
        how = int(self.rng.integers(0, 3)) if how is None else how
        d = own(self.gen, d)
        if how == 0:
            v = draw(self.rng, d, 1, special)
            return 0, int.from_bytes(v.tobytes(), "little"), [v[0]] * self.n
        t = self.operand(d, 1, 1, nums=[1], steps=[1], special=special)
        values = [t.get(c)[0] for c in range(self.n)]
        if how == 1:
            return 1, t.addr(), values
        self.registers[str(register)] = t.addr()
        return 2, register, values

    def inst(self, opcode, **fields):
        if not hasattr(self, "before"):
            self.before = {k: bytes(v) for k, v in self.mem.items()}
        self.insts.append({"opcode": opcode} | fields)

    def late(self):
        """Operands made after the first instruction belong to the memory before as well."""
        for k, v in self.mem.items():
            self.before.setdefault(k, bytes(v))

    def json(self, name):
        def row(key, data):
            space, p, b = key
            return [p, b, data.hex()] + (["psum"] if space == "psum" else [])

        want = [row(k, bytes(self.mem[k])) for t in self.outputs for k in t.keys()]
        return {"name": f"{name} {self.gen} {self.engine}", "gen": self.gen, "engine": self.engine,
                "insts": self.insts, "registers": self.registers,
                "put": [row(k, v) for k, v in self.before.items()], "expect": want,
                "ulp": self.ulp}


class Operand:
    def __init__(self, trial, d, n, dims, role, values, channels, nums, steps, psum, special,
                 dense, guard):
        rng, self.trial, self.d, self.channels = trial.rng, trial, d, channels
        self.space = "psum" if psum else "sbuf"
        self.nums = list(nums or shapes(rng, n, dims))
        self.len = int(np.prod(self.nums))
        if steps is None:
            order = list(rng.permutation(len(self.nums))) if not dense else range(len(self.nums))
            steps, run = [0] * len(self.nums), 1
            for k in order:
                run *= 1 if dense or self.len * run > 60 else int([1, 1, 2][rng.integers(0, 3)])
                steps[k] = -run if not dense and rng.integers(0, 3) == 0 else run
                run *= self.nums[k]
            if role == "src" and not dense and self.len > 1 and rng.integers(0, 5) == 0:
                steps[int(rng.integers(0, len(steps)))] = 0  # broadcast
        self.steps = [int(s) for s in steps]
        all_at = offsets(self.steps, self.nums)
        s = size(d)
        if guard is None:
            guard = 2 if role != "src" else int(rng.integers(0, 2))
        if trial.gen == "v5" and s == 1:
            # an odd address marks an MX operand there
            guard += (guard - min(all_at)) % 2
        self.at = guard - min(all_at)
        room = (max(all_at) + self.at + 1 + (guard if role != "src" else 0)) * s
        base = trial.used[self.space]
        base += 8 * int(rng.integers(0, 3))
        if psum:  # a bank of its own
            base = -(-base // PSUM_BANK) * PSUM_BANK
        self.base = base
        trial.used[self.space] = -(-(base + room) // 8) * 8 + 8
        self.first = trial.target if role == "dst" else trial.sources
        for c in range(channels):
            trial.mem[self.key(c)] = bytearray(rng.integers(0, 256, room, np.uint8).tobytes())
            if role != "dst":
                self.put(c, values(c, self.len) if callable(values)
                         else draw(rng, d, self.len, special))

    def key(self, c):
        return self.space, self.first + c, self.base

    def keys(self):
        return [self.key(c) for c in range(self.channels)]

    def addr(self):
        at = self.base + self.at * size(self.d)
        if self.space == "psum":
            return PSUM_BASE + self.first * PSUM_STRIDE + at
        return self.first * SBUF_STRIDE[self.trial.gen] + at

    def pattern(self):
        return {"addr": self.addr(), "steps": self.steps, "nums": self.nums}

    def get(self, c):
        t, n, row = DTYPES[self.d][1], size(self.d), bytes(self.trial.mem[self.key(c)])
        return np.concatenate([np.frombuffer(row[(self.at + o) * n:(self.at + o + 1) * n], t)
                               for o in offsets(self.steps, self.nums)])

    def put(self, c, values, where=None):
        n, row = size(self.d), self.trial.mem[self.key(c)]
        values = np.asarray(values, DTYPES[self.d][1])
        for k, o in enumerate(offsets(self.steps, self.nums)):
            if where is None or where[k]:
                at = (self.at + o) * n
                row[at:at + n] = values[k:k + 1].tobytes()

    def f(self, c):
        return np.asarray(self.get(c)).astype(np.float32)

    def ints(self, c):
        return [int(v) for v in self.get(c)]

    def bits(self, c):
        u = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size(self.d)]
        return [int(v) for v in self.get(c).view(u)]

    def put_f(self, c, v, where=None):
        self.put(c, narrow(v, self.d), where)

    def put_ints(self, c, v, where=None):
        m = (1 << 8 * size(self.d)) - 1
        u = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size(self.d)]
        self.put(c, np.array([x & m for x in v], u).view(DTYPES[self.d][1]), where)


def pair(low, high):
    return code(low) | code(high) << 4
