#!/usr/bin/env python3
"""Writes the golden images of the NVMe format by docs/format.md, without our code.

    python3 tests/format/make_golden_images.py tests/format/v1
    python3 tests/format/make_golden_images.py --check tests/format/v1

An image is text: a line of hexadecimal digits for every 32 bytes that are not all zero, after their
offset. A change of what this program writes for version 1 is a change of a frozen format.
"""
import hashlib
import os
import struct
import sys

PAGE = 4096
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1

# XXH3's secret and primes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
       0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def read64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def accumulate(acc, data, at, secret, secret_at):
    for i in range(8):
        value = read64(data, at + 8 * i)
        keyed = value ^ read64(secret, secret_at + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & MASK64
        acc[i] = (acc[i] + (keyed & MASK32) * (keyed >> 32)) & MASK64


def merge(acc, secret, secret_at, start):
    total = start
    for i in range(4):
        product = ((acc[2 * i] ^ read64(secret, secret_at + 16 * i)) *
                   (acc[2 * i + 1] ^ read64(secret, secret_at + 16 * i + 8)))
        total += (product & MASK64) ^ (product >> 64)
    total &= MASK64
    total ^= total >> 37
    total = total * 0x165667919E3779F9 & MASK64
    return total ^ (total >> 32)


def xxh3_128(data, seed):
    """Of more than 240 bytes, in canonical order."""
    assert len(data) > 240
    secret = b"".join(struct.pack("<QQ", (read64(SECRET, i) + seed) & MASK64,
                                  (read64(SECRET, i + 8) - seed) & MASK64)
                      for i in range(0, 192, 16))
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    stripes = (len(secret) - 64) // 8
    last_stripe = (len(data) - 1) // 64
    for stripe in range(last_stripe):
        accumulate(acc, data, 64 * stripe, secret, 8 * (stripe % stripes))
        if stripe % stripes == stripes - 1:
            for i in range(8):
                value = acc[i] ^ (acc[i] >> 47) ^ read64(secret, len(secret) - 64 + 8 * i)
                acc[i] = value * P32[0] & MASK64
    accumulate(acc, data, len(data) - 64, secret, len(secret) - 64 - 7)
    low = merge(acc, secret, 11, len(data) * P64[0] & MASK64)
    high = merge(acc, secret, len(secret) - 64 - 11, ~(len(data) * P64[1]) & MASK64)
    return struct.pack(">QQ", high, low)


STORE = bytes(0x11 * i for i in range(16))


def page(magic, number, body, version=1, features=0):
    data = magic + struct.pack("<II", version, features) + STORE + struct.pack("<Q", number) + body
    data = data.ljust(PAGE - 16, b"\0")
    assert len(data) == PAGE - 16
    return data + xxh3_128(data, read64(magic, 0))


def superblock(page_bytes=PAGE, checksum_kind=1, **frame):
    body = struct.pack("<IIQIIB", 1, 3, 4 << 20, 1000, page_bytes, checksum_kind)
    return page(b"kvfstore", 7, body, **frame)


GENERATION, SEGMENT, DRIVE = 1234567890123, 42, 1


def segment_header(stream=1, **frame):
    body = struct.pack("<IIQB", SEGMENT, DRIVE, 1790000000123, stream)
    return page(b"kvfsegmt", GENERATION, body, **frame)


def rows(count, flags_of_third=None):
    at_page, table = 1, []
    for i in range(count):
        stored = 1 + i * 5003 % 12288
        codec = 3 * (i % 2)
        raw = stored * (2 if codec else 1)
        flags = 0 if i % 3 else 1
        if i == 2 and flags_of_third is not None:
            flags = flags_of_third
        digest = hashlib.sha256(b"golden %d" % i).digest()
        table.append(digest + struct.pack("<IIIHBB", at_page, stored, raw, i, codec, flags) +
                     digest[:16])
        at_page += (stored + 4095) // 4096
    return table


def segment_footer(table, **frame):
    count = max(1, (len(table) + 61) // 62)
    checksum = xxh3_128(b"".join(table), read64(b"vkftable", 0))
    pages = []
    for index in range(count):
        body = struct.pack("<IIIIII", SEGMENT, DRIVE, index, count, len(table), 0)
        body += checksum + bytes(32) + b"".join(table[62 * index:62 * index + 62])
        pages.append(page(b"kvffootr", GENERATION, body, **frame))
    return b"".join(pages)


IMAGES = {
    "superblock": superblock(),
    "superblock_of_version_2": superblock(version=2),
    "superblock_with_a_feature": superblock(features=1 << 31),
    "superblock_with_checksum_kind_2": superblock(checksum_kind=2),
    "superblock_with_large_pages": superblock(page_bytes=16384),
    "segment_header": segment_header(),
    "segment_header_of_version_2": segment_header(version=2),
    "segment_header_with_stream_2": segment_header(stream=2),
    "segment_footer": segment_footer(rows(64)),
    "segment_footer_of_version_2": segment_footer(rows(5), version=2),
    "segment_footer_with_row_flags": segment_footer(rows(5, flags_of_third=0x80)),
}


def text_of(image):
    lines = []
    for at in range(0, len(image), 32):
        if any(image[at:at + 32]):
            lines.append("%05x %s\n" % (at, image[at:at + 32].hex()))
    return "".join(lines)


def main():
    is_check = sys.argv[1] == "--check"
    folder = sys.argv[-1]
    found = sorted(os.listdir(folder))
    if is_check and found != sorted(name + ".hex" for name in IMAGES):
        sys.exit(folder + " holds other images than this program writes: " + " ".join(found))
    for name, image in IMAGES.items():
        path = os.path.join(folder, name + ".hex")
        if not is_check:
            with open(path, "w", encoding="ascii") as file:
                file.write(text_of(image))
        elif open(path, encoding="ascii").read() != text_of(image):
            sys.exit(path + " is not what this program computes: the format changed")


if __name__ == "__main__":
    main()
