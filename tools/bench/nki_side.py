"""Nanoseconds of triton-viz's NKI interpreter for `matmul` (128x128 by 128x512, FP32) or `copy`
(128x512), of tiles that are loaded before, or for `load` (load and store of a tile of 128x512).

The interpreter takes its names from `neuronxcc.nki.language`. Where that package is absent an empty
module stands for it: the interpreter brings its own functions and runs them with numpy. Only the
interpreter's files are loaded, not the Triton side of the package, which wants torch.
"""

import importlib.util
import sys
import time
import types
from pathlib import Path

try:
    import neuronxcc.nki.language  # noqa: F401
except ModuleNotFoundError:
    names = ["neuronxcc", "neuronxcc.nki", "neuronxcc.nki.language"]
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[names[0]].nki = sys.modules[names[1]]
    sys.modules[names[1]].language = sys.modules[names[2]]
    for word in ["shared_hbm", "hbm", "sbuf", "psum", "par_dim", "broadcast_to"]:
        setattr(sys.modules[names[2]], word, word)

import neuronxcc.nki.language as nl
import numpy

root = Path(importlib.util.find_spec("triton_viz").submodule_search_locations[0])
for name in ["triton_viz", "triton_viz.core", "triton_viz.transformers"]:
    package = types.ModuleType(name)
    package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package
from triton_viz.core import nki

nki.nki_patch_lang()
EACH = 4


class Client:
    def __getattr__(self, name):
        return lambda *_: True


def matmul(a, b, c):
    x = nl.load(a[0:128, 0:128])
    y = nl.load(b[0:128, 0:512])
    for _ in range(4):
        z = nl.matmul(x, y, transpose_x=True)
    nl.store(c[0:128, 0:512], z)


def copy(a, b, c):
    y = nl.load(b[0:128, 0:512])
    for _ in range(4):
        z = nl.copy(y)
    nl.store(c[0:128, 0:512], z)


def load(a, b, c):
    for _ in range(4):
        y = nl.load(b[0:128, 0:512])
        nl.store(c[0:128, 0:512], y)


kernel = {"matmul": matmul, "copy": copy, "load": load}[sys.argv[1]]
rng = numpy.random.default_rng(1)
shapes = [(128, 128), (128, 512), (128, 512)]
tensors = [rng.random(shape, dtype=numpy.float32) for shape in shapes]
function = nki.NKIInterpretedFunction(kernel)
function.run(*tensors, client_manager=Client())
assert numpy.isfinite(tensors[2]).all()
compiled, arguments = function.fn, [nki.NDArray(value=t) for t in tensors]
samples, end = [], time.perf_counter() + 1.0
while time.perf_counter() < end:
    start = time.perf_counter_ns()
    compiled(*arguments)
    samples.append((time.perf_counter_ns() - start) / EACH)
print(sorted(samples)[len(samples) // 10])
