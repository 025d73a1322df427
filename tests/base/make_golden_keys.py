#!/usr/bin/env python3
"""Prints golden_keys.h: namespaces and block keys by docs/block-keys.md, without our code.

    python3 tests/base/make_golden_keys.py > tests/base/golden_keys.h
    python3 tests/base/make_golden_keys.py --check tests/base/golden_keys.h

A change of its output is a change of the format: every stored key would be missed.
"""
import hashlib
import hmac
import struct
import sys


def field(tag, data):
    return struct.pack("<HI", tag, len(data)) + data


def u8(value):
    return struct.pack("<B", value)


def u32(*values):
    return struct.pack("<%dI" % len(values), *values)


def u64(*values):
    return struct.pack("<%dQ" % len(values), *values)


def f64(value):
    return struct.pack("<d", value)


def namespace(n):
    if n["tenant"] is None:
        kind, code = 0, b""
    else:
        kind, code = 1, hmac.new(n["tenant"], b"kvferry tenant", hashlib.sha256).digest()
    fields = [
        (0x0000, b"kvferry namespace"),
        (0x0001, u32(n["format_version"])),
        (0x0002, u8(kind)),
        (0x0003, code),
        (0x0004, n["model_id"]),
        (0x0005, n["model_revision"]),
        (0x0010, u8(n["group_kind"])),
        (0x0011, u32(n["group_index"])),
        (0x0012, u32(n["layers"])),
        (0x0013, u32(n["kv_heads"])),
        (0x0014, u32(n["key_width"])),
        (0x0015, u32(n["value_width"])),
        (0x0016, u32(n["window"])),
        (0x0020, u8(n["key_type"])),
        (0x0021, u8(n["value_type"])),
        (0x0022, n["scales"]),
        (0x0030, n["layout"]),
        (0x0031, u64(*n["strides"])),
        (0x0032, u32(n["block_tokens"])),
        (0x0040, u8(n["rotated"])),
        (0x0041, f64(n["rope_base"])),
        (0x0042, u32(n["rope_width"])),
        (0x0043, n["rope_scaling"]),
        (0x0050, u32(*n["layer_range"])),
        (0x0051, u32(*n["head_range"])),
        (0x0052, u32(n["token_stride"])),
        (0x0053, u32(n["token_offset"])),
        (0x0060, n["lora_id"]),
        (0x0061, n["lora_digest"]),
        (0x0070, u8(n["exactness"])),
        (0x0071, n["hash_scheme"]),
    ]
    return hashlib.sha256(b"".join(field(tag, data) for tag, data in fields)).digest()


def block_key(ns, parent, tokens, extra_keys=()):
    data = field(0x0000, b"kvferry block") + field(0x0101, ns) + field(0x0102, parent)
    data += field(0x0103, u32(*tokens))
    for extra_key in extra_keys:
        data += field(0x0104, extra_key)
    return hashlib.sha256(data).digest()


def caller_key(ns, block_hash):
    data = field(0x0000, b"kvferry block") + field(0x0101, ns) + field(0x0105, block_hash)
    return hashlib.sha256(data).digest()


SHARED = dict(
    format_version=1, tenant=None, model_id=b"llama-3.1-8b", model_revision=b"0e9e39f249a16976",
    group_kind=1, group_index=0, layers=32, kv_heads=8, key_width=128, value_width=128, window=0,
    key_type=3, value_type=3, scales=b"", layout=b"LBHNC", strides=[], block_tokens=16,
    rotated=1, rope_base=500000.0, rope_width=0, rope_scaling=b"llama3 8 1 4 8192",
    layer_range=(0, 32), head_range=(0, 8), token_stride=1, token_offset=0,
    lora_id=b"", lora_digest=b"", exactness=1, hash_scheme=b"")

PRIVATE = dict(
    format_version=1, tenant=b"\x00salt of tenant seven\xff", model_id=b"deepseek-v3",
    model_revision=b"sha256:1d2c", group_kind=3, group_index=1, layers=61, kv_heads=1,
    key_width=576, value_width=0, window=0, key_type=4, value_type=0, scales=b"tensor 9f",
    layout=b"BLHNC", strides=[36864, 576, 1], block_tokens=64, rotated=0, rope_base=10000.0,
    rope_width=64, rope_scaling=b"yarn 40 32 1 4096", layer_range=(30, 61), head_range=(0, 1),
    token_stride=4, token_offset=3, lora_id=b"legal", lora_digest=b"77aa", exactness=2,
    hash_scheme=b"vllm sha256_cbor seed 0")


def main():
    shared = namespace(SHARED)
    private = namespace(PRIVATE)
    lines = [("kSharedNamespace", shared), ("kPrivateNamespace", private)]
    parent = b""
    for i in range(3):  # Tokens 1000 x block + position, and the greatest token in the last block.
        tokens = [1000 * i + position for position in range(16)]
        if i == 2:
            tokens[15] = 0xFFFFFFFF
        parent = block_key(shared, parent, tokens)
        lines.append(("kSharedKey%d" % i, parent))
    extra_keys = [b"image", b"", b"\x01\x02"]
    lines.append(("kExtraKey", block_key(shared, lines[2][1], list(range(16)), extra_keys)))
    lines.append(("kPrivateKey0", block_key(private, b"", list(range(64)))))
    lines.append(("kCallerKey", caller_key(private, bytes(range(32)))))
    text = "// Namespaces and block keys as tests/base/make_golden_keys.py computes them.\n"
    text += "#pragma once\n\n#include <string_view>\n\nnamespace kvferry::testing {\n\n"
    for name, digest in lines:
        text += 'inline constexpr std::string_view %s =\n    "%s";\n' % (name, digest.hex())
    text += "\n}  // namespace kvferry::testing\n"
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text)
    elif open(sys.argv[2], encoding="utf-8").read() != text:
        sys.exit(sys.argv[2] + " is not what this program computes: the format changed")


if __name__ == "__main__":
    main()
