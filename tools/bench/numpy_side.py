"""Nanoseconds of numpy for `matmul` (FP32, 128x128 by 128x512) or `add` (FP32, 128x512, out=)."""

import sys
import time

import numpy


def decile(run, each):
    samples, end = [], time.perf_counter() + 0.5
    run()
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        for _ in range(each):
            run()
        samples.append((time.perf_counter_ns() - start) / each)
    return sorted(samples)[len(samples) // 10]


rng = numpy.random.default_rng(1)
b = rng.random((128, 512), dtype=numpy.float32)
out = numpy.empty_like(b)
if sys.argv[1] == "matmul":
    a = rng.random((128, 128), dtype=numpy.float32)
    print(decile(lambda: numpy.matmul(a, b, out=out), 1))
else:
    c = rng.random((128, 512), dtype=numpy.float32)
    print(decile(lambda: numpy.add(b, c, out=out), 1))
