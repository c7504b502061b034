#!/usr/bin/env python3
"""Reads a safetensors file with nothing but the standard library and prints it as JSON.

It shares no code with OddFlow: a second pair of eyes on the layout that docs/model-file.md describes.
Numbers are printed as the hexadecimal of their bytes' values (float.hex), so nothing is rounded.
"""
import json
import struct
import sys

CODES = {"F64": "d", "F32": "f", "I32": "i", "U32": "I", "U16": "H", "U8": "B"}

with open(sys.argv[1], "rb") as file:
    raw = file.read()
(length,) = struct.unpack_from("<Q", raw)
header = json.loads(raw[8 : 8 + length])
result = {"metadata": header.pop("__metadata__", {}), "tensors": {}}
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    code = CODES[entry["dtype"]]
    values = struct.unpack_from(f"<{(end - begin) // struct.calcsize(code)}{code}", raw, 8 + length + begin)
    values = [value.hex() if code in "df" else value for value in values]
    aligned = (8 + length + begin) % struct.calcsize(code) == 0
    result["tensors"][name] = {**entry, "values": values, "aligned": aligned}
json.dump(result, sys.stdout)
