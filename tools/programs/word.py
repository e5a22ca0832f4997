#!/usr/bin/env python3
"""Prints the `.word64` of an extended instruction for a library of `programs/q7`.

Usage: word.py SPEC WAIT_MODE WAIT_IDX UPDATE_MODE UPDATE_IDX VALUE PARAMETER...
Parameters are 32-bit words from byte 16 on.
"""

import struct
import sys

spec, wm, wi, um, ui, value, *params = (int(a, 0) for a in sys.argv[1:])
word = struct.pack("<4B4BI4B", 0xF0, 0x10, 0, 0, wm, wi, um, ui, value, spec, 0, 0, 0)
word += struct.pack(f"<{len(params)}I", *params)
print(".word64", word.ljust(64, b"\0").hex())
