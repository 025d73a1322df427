#!/usr/bin/env python3
"""Checks the rules that keep kernels honest, in their sources and in the PTX made of them.

Sources: no <<<>>>, no bare __shared__, no inline PTX, nothing that the simulator cannot run.
PTX: the kernels that the host knows, with arguments of the same size; 128-bit accesses in the
copies; no local memory.
"""

import argparse
import pathlib
import re
import subprocess
import sys

# What may not be written, and where it may be after all.
BANNED = {
    r"<<<": (),
    r"\b__shared__\b": ("src/gpu/kernels/language.h",),
    r"\basm\s*(volatile)?\s*\(": ("src/gpu/kernels/device_image.cc",),
    r"\b__activemask\b|\bcooperative_groups\b|\bcuda::|\bclock64\b|#include <cub/": (),
}


def check_sources(root):
    findings = []
    for path in sorted((root / "src/gpu").rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
            continue
        name = str(path.relative_to(root))
        for number, line in enumerate(path.read_text().split("\n"), 1):
            code = line.split("//")[0]
            for pattern, homes in BANNED.items():
                if re.search(pattern, code) and name not in homes:
                    findings.append(f"{name}:{number}: {pattern} has no place here")
    return findings


def entries_of(ptx):
    """{kernel: (bytes of its one argument, body)} of a PTX text."""
    entries = {}
    pattern = r"\.entry\s+(\w+)\s*\((.*?)\)(.*?)\n\}"
    for name, parameters, body in re.findall(pattern, ptx, re.S):
        sizes = re.findall(r"\.b8\s+\w+\[(\d+)\]", parameters)
        entries[name] = (int(sizes[0]) if len(sizes) == 1 else None, body)
    return entries


def check_ptx(ptx, listed):
    findings = []
    entries = entries_of(ptx)
    host = dict(line.split() for line in listed.split("\n") if line)
    for name in sorted(set(entries) ^ set(host)):
        findings.append(f"{name}: only the {'device' if name in entries else 'host'} build has it")
    for name in sorted(set(entries) & set(host)):
        size, body = entries[name]
        if size != int(host[name]):
            findings.append(f"{name}: takes {size} bytes on the device, {host[name]} on the host")
        if ".local" in body:
            findings.append(f"{name}: uses local memory")
    for name, load in (("gather", "ld.global.nc.v4"), ("scatter", "ld.global.v4")):
        body = entries.get(f"kvferry_{name}_blocks", (0, ""))[1]
        for access in (load, "st.global.v4"):
            if access not in body:
                findings.append(f"kvferry_{name}_blocks: no {access}")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sources", type=pathlib.Path, help="the project's root")
    parser.add_argument("--ptx", type=pathlib.Path)
    parser.add_argument("--list", help="the program that lists the host's kernels")
    options = parser.parse_args()
    findings = []
    if options.sources:
        findings += check_sources(options.sources)
        # Canary: a rule that finds nothing in a sin is no rule.
        sin = "kernel<<<1, 1>>>(); __shared__ int x; asm(nop); __activemask();"
        findings += [f"canary: {p} finds nothing" for p in BANNED if not re.search(p, sin)]
    if options.ptx:
        listed = subprocess.run([options.list], capture_output=True, text=True, check=True).stdout
        ptx = options.ptx.read_text()
        findings += check_ptx(ptx, listed)
        if not check_ptx(ptx.replace("kvferry_gather_blocks", "kvferry_gather"), listed):
            findings.append("canary: a renamed kernel is not found")
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
