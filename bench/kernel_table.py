"""How many times as fast as ggml's our products are: runs kernel_bench and prints a table.

    python bench/kernel_table.py [--bench build/release/bin/kernel_bench] [--isa avx2] [--filter q4_1] [--json FILE]

One thread, its CPU time, weights from memory. ggml's product and ours take turns; a cell is the median over the rounds
of ggml's time / ours, in brackets the GFLOP/s of both. With --isa a narrower instruction set is measured: ggml should then
be built for it too, e.g. by LD_LIBRARY_PATH=FOLDER_OF_ITS_LIBRARIES.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(args, round_: int) -> dict[str, float]:
    """GFLOP/s by name of the benchmark."""
    command = [args.bench, f"--benchmark_filter=product/.*{args.filter}.*", "--benchmark_format=json",
               f"--benchmark_min_time={args.seconds}"] + ([f"--isa={args.isa}"] if args.isa else [])
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    results = json.loads(output)
    if round_ == 0:
        print(f"instruction set {results['context']['isa']}, load {results['context']['load_avg']}")
    # Rates are by CPU time of the thread.
    return {one["name"]: one["GFLOP/s"] for one in results["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=str(ROOT / "build/release/bin/kernel_bench"))
    parser.add_argument("--isa")
    parser.add_argument("--filter", default="", help="names that contain this, e.g. q8_0/576x1536")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each measurement, at least")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()

    speeds = collections.defaultdict(list)
    for round_ in range(args.rounds):
        for name, speed in run(args, round_).items():
            speeds[name].append(speed)
    cells = collections.defaultdict(dict)
    for name in speeds:
        _, whose, format_, shape, n_tokens = name.split("/")
        if whose != "ours":
            continue
        ours, ggmls = speeds[name], speeds[name.replace("/ours/", "/ggml/")]
        ratio = statistics.median(a / b for a, b in zip(ours, ggmls))
        cells[format_, shape][int(n_tokens)] = (ratio, statistics.median(ggmls), statistics.median(ours))
    for (format_, shape), row in cells.items():
        print(f"{format_:5} {shape:10}" + "".join(
            f"  {n:4}: {ratio:5.2f} ({theirs:3.0f} -> {ours:3.0f})" for n, (ratio, theirs, ours) in sorted(row.items())))
    if args.json:
        table = [{"format": f, "shape": s, "n_tokens": n, "ratio": c[0], "ggml_gflops": c[1], "our_gflops": c[2]}
                 for (f, s), row in cells.items() for n, c in row.items()]
        args.json.write_text(json.dumps({"load": os.getloadavg(), "cells": table}, indent=1))


if __name__ == "__main__":
    main()
