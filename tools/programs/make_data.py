#!/usr/bin/env python3
"""Inputs and expected outputs of the example programs, computed with numpy.

Writes programs/*/data/*.npy. bf16 tensors are stored as their 16-bit patterns (uint16).
Usage: tools/programs/make_data.py [program ...]
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2] / "programs"


def bf16(x):
    """Rounds to bf16, nearest even; returns the bit pattern."""
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def f32(bits):
    """The value of a bf16 bit pattern."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def save(program, **arrays):
    folder = ROOT / program / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array))


def erf(x):
    """Error function in double precision, by the Taylor series and the continued fraction."""
    from math import erf as scalar

    return np.vectorize(scalar)(x)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def matmul():
    rng = np.random.default_rng(1)
    a = bf16(rng.standard_normal((512, 512)))
    b = bf16(rng.standard_normal((512, 512)))
    c = f32(a).astype(np.float64) @ f32(b).astype(np.float64)
    save("matmul", a_t=a.T, b=b, c=c.astype(np.float32))


def mlp():
    rng = np.random.default_rng(2)
    x = bf16(rng.standard_normal((128, 256)))
    w1 = bf16(rng.standard_normal((256, 512)) / 16)
    b1 = rng.standard_normal(512).astype(np.float32) / 4
    w2 = bf16(rng.standard_normal((512, 128)) / 16)
    b2 = rng.standard_normal(128).astype(np.float32) / 4
    h = f32(x).astype(np.float64) @ f32(w1) + b1
    h = h * 0.5 * (1 + erf(h / np.sqrt(2)))
    h = f32(bf16(h)).astype(np.float64)  # the hidden layer is stored as bf16
    y = softmax(h @ f32(w2) + b2)
    save("mlp", x_t=x.T, w1=w1, b1=b1.reshape(4, 128).T, w2=w2, b2=b2, y=y.astype(np.float32))


def attention():
    rng = np.random.default_rng(3)
    n, d = 128, 128
    q, k, v = (bf16(rng.standard_normal((n, d))) for _ in range(3))
    s = f32(q).astype(np.float64) @ f32(k).astype(np.float64).T / np.sqrt(d)
    s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    p = f32(bf16(e)).astype(np.float64)  # the weights are stored as bf16
    out = (p @ f32(v)) / e.sum(axis=-1, keepdims=True)
    save("attention", q=q, k=k, v=v, out=out.astype(np.float32))


def mamba(seq=512, channels=256, state=16):
    rng = np.random.default_rng(4)
    delta = rng.uniform(0.01, 0.5, (channels, seq)).astype(np.float32)
    u = rng.standard_normal((channels, seq)).astype(np.float32)
    a = -rng.uniform(0.2, 2.0, (channels, state)).astype(np.float32)
    b = rng.standard_normal((state, seq)).astype(np.float32)
    c = rng.standard_normal((state, seq)).astype(np.float32)
    out = np.zeros((channels, seq))
    for i in range(state):
        delta_a = np.exp(delta.astype(np.float64) * a[:, i : i + 1])
        delta_bu = delta.astype(np.float64) * u * b[i]
        h = np.zeros(channels)
        for t in range(seq):
            h = delta_a[:, t] * h + delta_bu[:, t]
            out[:, t] += h * c[i, t]
    save("mamba", delta=delta, u=u, a=a, b=b, c=c, out=out.astype(np.float32))


def v1_conv():
    rng = np.random.default_rng(5)
    cin, cout, size = 16, 32, 18
    x = bf16(rng.standard_normal((cin, size, size)))
    w = bf16(rng.standard_normal((3, 3, cin, cout)) / 8)
    y = np.zeros((cout, size - 2, size - 2))
    for r in range(3):
        for s in range(3):
            patch = f32(x)[:, r : r + size - 2, s : s + size - 2].astype(np.float64)
            y += np.einsum("chw,cf->fhw", patch, f32(w[r, s]).astype(np.float64))
    y = np.maximum(y, 0)
    pooled = y.reshape(cout, 8, 2, 8, 2).max(axis=(2, 4))
    save("v1-conv", x=x.reshape(cin, -1), w=w.reshape(9, cin, cout), y=pooled.reshape(cout, -1).astype(np.float32))


def q7_libraries():
    rng = np.random.default_rng(6)
    x = rng.integers(-2500, 2500, (128, 64)).astype(np.int16)
    x[5] = 30000  # saturates
    # lanes are added with saturation, then the 32 partial sums
    lanes = np.clip(x[:, :32].astype(np.int64) + x[:, 32:], -32768, 32767)
    sums = np.clip(lanes.sum(axis=1), -32768, 32767).astype(np.int16)
    r = (rng.uniform(0.1, 10, (128, 32)) * rng.choice([-1, 1], (128, 32))).astype(np.float32)
    best = np.stack([x.max(axis=1), x.argmax(axis=1)], axis=1).astype(np.int16)
    weights = np.tile([1, -2, 3, 5], 32)
    total = np.clip(x[:, :32].astype(np.int64).sum(axis=1), -32768, 32767)
    weighted = (total * weights + 7).astype(np.int16)  # low 16 bits
    save(
        "q7-libraries",
        weighted=weighted.reshape(128, 1),
        x=x,
        sums=sums.reshape(128, 1),
        y=x[:, 31::-1],
        r_in=r,
        r_out=(1 / r.astype(np.float64)).astype(np.float32),
        best=best,
    )


def q7_custom():
    rng = np.random.default_rng(7)
    x = rng.integers(-(2**31), 2**31, (40, 32)).astype(np.int32)
    save("q7-custom", x=x, y=x - 7)


PROGRAMS = {
    "matmul": matmul,
    "mlp": mlp,
    "attention": attention,
    "mamba": mamba,
    "v1-conv": v1_conv,
    "q7-libraries": q7_libraries,
    "q7-custom": q7_custom,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        PROGRAMS[name]()
        print(name)
