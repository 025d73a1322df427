#!/usr/bin/env python3
"""Plays the same references through kvferry's policies and libCacheSim's of the same name.

Both run one after the other on the same machine, under the block rule, at the same capacity; each
figure is the median of several runs of processor time. Misses are compared where the papers leave
nothing open. Needs the Python wheel `libcachesim`; without it, says so and ends well.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# kvferry's name, libCacheSim's, and whether the misses must be the same.
PAIRS = [
    ("lru-head-first", "LRU", True),
    ("fifo", "FIFO", True),
    ("clock", "Clock", True),
    ("lfu", "LFU", True),
    ("sieve", "Sieve", True),
    ("2q", "TwoQ", False),
    ("s3-fifo", "S3FIFO", False),
    ("arc", "ARC", True),
    ("lirs", "LIRS", False),
    ("w-tinylfu", "WTinyLFU", False),
    ("gdsf", "GDSF", False),
    ("min", "Belady", True),
]
BYTES_A_REFERENCE = 24


def run_bench(arguments, policies, references):
    command = [arguments.bench, "--json", "--hit-rule", "block", "--runs", str(arguments.runs),
               "--capacity", str(arguments.capacity), "--policy", ",".join(policies),
               "--write-references", references]
    if arguments.trace:
        command += ["--trace", arguments.trace]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def time_libcachesim(libcachesim, name, capacity, references, runs):
    """Million references a second, and the share that missed."""
    count = os.path.getsize(references) // BYTES_A_REFERENCE
    seconds = []
    miss_ratio = None
    for _ in range(runs):
        reader = libcachesim.TraceReader(
            trace=references, trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE,
            reader_init_params=libcachesim.ReaderInitParam(ignore_obj_size=True))
        cache = getattr(libcachesim, name)(cache_size=capacity, hashpower=16)
        start = time.process_time()
        miss_ratio, _ = cache.process_trace(reader)
        seconds.append(time.process_time() - start)
    return count / statistics.median(seconds) / 1e6, round(miss_ratio * count), count


def distinct_blocks(references):
    seen = set()
    with open(references, "rb") as file:
        while chunk := file.read(BYTES_A_REFERENCE * 65536):
            for at in range(4, len(chunk), BYTES_A_REFERENCE):
                seen.add(chunk[at:at + 8])
    return len(seen)


def compare(arguments, libcachesim, folder):
    references = os.path.join(folder, "references.oracleGeneral")
    wanted = arguments.policy.split(",") if arguments.policy else [pair[0] for pair in PAIRS]
    pairs = [pair for pair in PAIRS if pair[0] in wanted]
    report = run_bench(arguments, [pair[0] for pair in pairs], references)
    capacity = max(1, int(arguments.capacity / 100 * distinct_blocks(references) + 0.5))
    differences = []
    for result, (ours, theirs, is_exact) in zip(report["results"], pairs):
        rate, misses, count = time_libcachesim(
            libcachesim, theirs, capacity, references, arguments.runs)
        result["bound"] = f"libCacheSim {theirs}"
        result["bound_value"] = rate
        result["ratio"] = result["value"] / rate
        result["misses"] = count - result["checksum"]
        result["bound_misses"] = misses
        if is_exact and result["misses"] != misses:
            differences.append(f"{ours}: {result['misses']} misses, libCacheSim {misses}")
    report["bench"] = "policy_loops_libcachesim"
    return report, differences


def print_table(report):
    machine = report["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}")
    print(f"{'case':<36}{'Mrefs/s':>10}{'bound':>10}{'ratio':>8}{'misses':>12}{'theirs':>12}")
    for result in report["results"]:
        print(f"{result['case']:<36}{result['value']:>10.1f}{result['bound_value']:>10.1f}"
              f"{result['ratio']:>8.2f}{result['misses']:>12}{result['bound_misses']:>12}"
              f"  {result['bound']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True, help="the built policy_loops_bench")
    parser.add_argument("--trace", help="a trace file; default: the benchmark's own workload")
    parser.add_argument("--capacity", type=float, default=10, help="percent of distinct blocks")
    parser.add_argument("--policy", help="kvferry's names, separated by commas; default: all pairs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    arguments = parser.parse_args()
    try:
        import libcachesim
    except ImportError as error:
        print(f"skipped: the wheel libcachesim cannot be imported ({error}); "
              "pip install libcachesim")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        report, differences = compare(arguments, libcachesim, folder)
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        print_table(report)
    for difference in differences:
        print("differs: " + difference, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
