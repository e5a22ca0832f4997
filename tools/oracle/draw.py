"""Drawn operands for the oracles `indirect_more.py` and `dge_more.py`: element counts split over
dimensions, strides with gaps and reversals, start partitions, numbers of several kinds."""

import numpy as np

from indirect_common import NP, addr4, is_int, narrow, walk


def pick(rng, items):
    return items[int(rng.integers(0, len(items)))]


def split(rng, n, parts):
    """`n` as a product of `parts` factors, drawn."""
    out = []
    for _ in range(parts - 1):
        f = pick(rng, [d for d in range(1, n + 1) if n % d == 0 and d <= 16])
        out.append(f)
        n //= f
    out.append(n)
    return [out[int(i)] for i in rng.permutation(parts)]


def layout(rng, counts, gaps=True, backwards=True):
    """Steps for dimensions of the given counts: dims, offset of the first element, span."""
    step, steps, low = 1, [0] * len(counts), 0
    for d in rng.permutation(len(counts)):
        d = int(d)
        if gaps and rng.integers(0, 2):
            step += int(rng.integers(1, 3))
        steps[d] = step
        if counts[d] == 1 and rng.integers(0, 2):
            # the step of a dimension of one element means nothing
            steps[d] = int(rng.integers(-5, 6))
        step *= counts[d]
        if backwards and counts[d] > 1 and rng.integers(0, 4) == 0:
            low += steps[d] * (counts[d] - 1)
            steps[d] = -steps[d]
    dims = list(zip(steps, counts))
    offsets = [low + o for o in walk([d for d in dims if d[1] > 1])]
    assert min(offsets) >= 0 and len(set(offsets)) == len(offsets)
    return dims, low, max(offsets) + 1


class Operand:
    """The same elements in each of some partitions, at a place of their own."""

    def __init__(self, v, dtype, counts, first, channels, space="sbuf", gaps=True, dims=None,
                 backwards=True, align=8):
        self.v, self.dtype, self.space = v, dtype, space
        self.first, self.channels = first, channels
        # the low bit of an address has another meaning on v5
        backwards = backwards and not (v.out["generation"] == "v5" and NP[dtype].itemsize == 1)
        if dims:
            self.dims, self.low, self.span = dims, 0, max(walk(dims)) + 1
        else:
            self.dims, self.low, self.span = layout(v.rng, counts, gaps, backwards)
        size = NP[dtype].itemsize
        taken = getattr(v, "taken", 0)
        at = taken + align * int(v.rng.integers(0, 4))
        at += -at % align
        v.taken = at + self.span * size
        self.base, self.start = at, at + self.low * size
        self.n = int(np.prod([d[1] for d in self.dims]))
        for c in range(channels):
            v.watch(space, first + c, at, self.span * size)
        assert v.taken <= 4096, v.taken

    def put(self, c, values):
        self.v.memory.scatter(self.space, self.first + c, self.start, self.real(), values)

    def get(self, c):
        return self.v.memory.gather(self.space, self.first + c, self.start, self.real(), self.dtype)

    def real(self):
        return [d if d[1] > 1 else (0, 1) for d in self.dims]

    def addr(self):
        return addr4(self.first, self.start, self.space)

    def field(self, n):
        dims = [list(d) for d in self.dims] + [[1, 1]] * (n - len(self.dims))
        return {"addr": self.addr(), "dims": dims}


def start_partition(rng, generation, channels=1):
    """Where an operand of so many channels may begin. On v5 the upper quadrants' addresses overlap
    with those of PSUM."""
    if generation == "v5" or channels > 64:
        return 0
    return pick(rng, [0, 64] if channels > 32 else [0, 32, 64, 96])


def some(rng, dtype, n, kind=None):
    """Elements: few distinct ones, wide ranges, or with NaN, infinities, zeros and subnormals."""
    kind = kind or pick(rng, ["ties", "wide", "special"])
    if is_int(dtype):
        info = np.iinfo(NP[dtype])
        if kind == "ties":
            return rng.integers(max(info.min, -3), 4, n).astype(NP[dtype])
        out = rng.integers(info.min, info.max, n, dtype=np.int64, endpoint=True).astype(NP[dtype])
        if kind == "special" and n > 2:
            out[int(rng.integers(0, n))], out[int(rng.integers(0, n))] = info.min, info.max
        return out
    if kind == "ties":
        return narrow(rng.integers(-3, 4, n) * np.float32(0.5), dtype)
    scale = np.exp2(rng.integers(-12, 13, n).astype(np.float32))
    out = narrow(rng.standard_normal(n).astype(np.float32) * scale, dtype)
    if kind == "special":
        for x in [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]:
            if rng.integers(0, 2):
                out[int(rng.integers(0, n))] = np.asarray(np.float32(x)).astype(NP[dtype])
    return out
