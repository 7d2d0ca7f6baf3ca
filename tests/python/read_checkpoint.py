"""Reads a checkpoint with safetensors and prints what is in it, as JSON.

    python3 read_checkpoint.py FOLDER

Every checksum of the manifest is computed anew, with a table made here.
"""

import json
import os
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file

try:
    import ml_dtypes  # noqa: F401  (makes numpy know bfloat16)
except ImportError:
    ml_dtypes = None

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r}, but expected {expected!r}")


folder = sys.argv[1]
path = os.path.join(folder, "variables.safetensors")
with open(path, "rb") as file:
    content = file.read()
with open(os.path.join(folder, "manifest.json"), "rb") as file:
    text = file.read()
manifest = json.loads(text)

body = text[: text.rindex(b'  "crc32c"')]
check("manifest", crc32c(body), manifest["crc32c"])
check("bytes", len(content), manifest["file"]["bytes"])
data = 8 + int.from_bytes(content[:8], "little")
check("header", crc32c(content[:data]), manifest["file"]["header_crc32c"])
header = json.loads(content[8:data])
check("names", set(header), set(manifest["tensors"]))

tensors = {}
with safe_open(path, framework="numpy") as file:
    for name in file.keys():
        info = header[name]
        begin, end = info["data_offsets"]
        raw = content[data + begin : data + end]
        check(name, crc32c(raw), manifest["tensors"][name]["crc32c"])
        if info["dtype"] == "BF16" and ml_dtypes is None:
            array = numpy.frombuffer(raw, dtype="<u2").reshape(info["shape"])
        else:
            array = file.get_tensor(name)
        check(f"{name}: dims", len(manifest["tensors"][name]["dims"]), array.ndim)
        tensors[name] = {
            "dtype": info["dtype"],
            "shape": list(array.shape),
            "bytes": numpy.ascontiguousarray(array).tobytes().hex(),
        }
if ml_dtypes is not None or all(info["dtype"] != "BF16" for info in header.values()):
    loaded = load_file(path)
    check("load_file", {name: array.tobytes().hex() for name, array in loaded.items()},
          {name: tensor["bytes"] for name, tensor in tensors.items()})

json.dump({"step": manifest["step"], "seed": manifest["seed"], "state": manifest["state"],
           "tensors": tensors}, sys.stdout)
