#!/usr/bin/env python3
"""Sweep of the elementwise opcodes over shapes, steps, partitions, types and generations.

Writes tests/golden/vector/sweep_*.json in the format of vector.py. Run from the root of the
repository; names of families as arguments write only those.
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import vector  # noqa: E402
from sweep_arith import ARITH  # noqa: E402
from sweep_data import DATA  # noqa: E402


if __name__ == "__main__":
    for i, (name, make) in enumerate((ARITH | DATA).items()):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            vector.write(name, make(np.random.default_rng(5000 + i)))
