"""Speed of Patchbay beside llama.cpp on the same workloads: same file, same threads, measurements taken in turns.

    python bench/compare.py --peer DIR_OF_LLAMA_SERVER [--only TEXT] [--rounds 5] [--json FILE]
    python bench/compare.py --url http://127.0.0.1:8080    # a running server that speaks /completion

Prints the median speed of each engine in tokens per second, in brackets half the distance between the quartiles in
percent, and the median over the rounds of ours / theirs. A machine has faster and slower phases, hence the rounds; and
other busy programs slow engines down differently, hence --patience.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import time

from engines import BatchedBench, Patchbay, PeerServer, Server, n_cpus
from make_adapters import MODEL, ROOT, make_adapters
from workloads import WORKLOADS, Workload

QUIET = 0.1  # share of all cores that others may use


def busy_share(seconds: float = 0.3) -> float:
    """How busy the machine is, all cores together: 0 to 1."""

    def ticks():
        fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = fields[3] + fields[4]
        return sum(fields) - idle, sum(fields)

    busy, everything = ticks()
    time.sleep(seconds)
    busy_after, everything_after = ticks()
    return (busy_after - busy) / max(1, everything_after - everything)


def wait_for_quiet(patience: float) -> float:
    """Waits until others leave the machine alone, at most `patience` seconds; returns the last share seen."""
    deadline = time.monotonic() + patience
    while (share := busy_share()) > QUIET and time.monotonic() < deadline:
        time.sleep(1)
    return share


def engines_for(workload: Workload, args) -> list:
    def adapters(wanted: Workload) -> list[pathlib.Path]:
        return make_adapters(args.model, args.adapters, wanted.n_adapters, wanted.n_rank)

    engines = [Patchbay(args.patchbay, args.model, args.threads, args.patchbay_args)]
    if args.peer:
        engines.append(BatchedBench(args.peer, args.model, args.threads, adapters))
        engines.append(PeerServer(args.peer, args.model, args.threads, adapters, workload))
    if args.url:
        engines.append(Server(args.url))
    return [engine for engine in engines if engine.can(workload)]


def measure(workload: Workload, args) -> tuple[dict[str, list[float]], float]:
    """Speeds by engine, one per round, and the largest share of the machine that others used just before one. Who goes
    first changes, so that nobody always finds the warmer machine.
    """
    speeds, busiest = {}, 0.0
    with contextlib.ExitStack() as stack:
        engines = [stack.enter_context(engine) for engine in engines_for(workload, args)]
        for i in range(args.rounds):
            for k in range(len(engines)):
                engine = engines[(i + k) % len(engines)]
                busiest = max(busiest, wait_for_quiet(args.patience))
                speeds.setdefault(engine.name, []).append(engine.speed(workload))
    return speeds, busiest


def spread(values: list[float]) -> float:
    """Half the distance between the quartiles, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(values)


def summarise(speeds: dict[str, list[float]]) -> dict:
    summary = {}
    for name, values in speeds.items():
        summary[name] = {"tokens_per_s": statistics.median(values), "spread": spread(values)}
        if name != Patchbay.name and Patchbay.name in speeds:
            ratios = [ours / theirs for ours, theirs in zip(speeds[Patchbay.name], values)]
            summary[name]["ratio"] = statistics.median(ratios)
            summary[name]["ratio_spread"] = spread(ratios)
    return summary


def print_row(workload: Workload, summary: dict, busiest: float) -> None:
    print(workload.name + (f"   (not quiet: others used up to {busiest:.0%} of the machine)" if busiest > QUIET else ""))
    for name, row in summary.items():
        ratio = f"{row['ratio']:9.2f}x ({row['ratio_spread']:.0%})" if "ratio" in row else ""
        print(f"  {name:14}{row['tokens_per_s']:10.1f} ({row['spread']:3.0%}){ratio}", flush=True)


def existing_path(text: str) -> pathlib.Path:
    """Absolute, because a bare name would be looked for in PATH."""
    path = pathlib.Path(text).resolve()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return path


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=existing_path, help="folder that holds llama-server and llama-batched-bench")
    parser.add_argument("--url", help="a running server with the same model, its adapters in the order of make_adapters.py")
    parser.add_argument("--patchbay", type=existing_path, default=str(ROOT / "build/release/bin/patchbay"))
    parser.add_argument("--model", type=existing_path, default=str(MODEL))
    parser.add_argument("--adapters", type=pathlib.Path, default=ROOT / "build/bench-adapters", help="where to make them")
    parser.add_argument("--only", default="", help="workloads whose name contains this, e.g. 'prefill'")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=n_cpus())
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for a quiet machine (default 60)")
    parser.add_argument("--json", type=pathlib.Path, help="also write medians and all measurements to this file")
    parser.add_argument("patchbay_args", nargs="*", help="after --: more options for patchbay bench")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    workloads = [workload for workload in WORKLOADS if args.only in workload.name]
    if args.list:
        print("\n".join(workload.name for workload in workloads))
        return
    if not (args.peer or args.url):
        raise SystemExit("--peer or --url: beside whom?")
    print(f"{args.model.name}, {args.threads} threads, {args.rounds} rounds, tokens/s (spread), ours / theirs")
    results = []
    for workload in workloads:
        speeds, busiest = measure(workload, args)
        summary = summarise(speeds)
        print_row(workload, summary, busiest)
        results.append({"workload": vars(workload), "summary": summary, "speeds": speeds, "others_busy": busiest})
        if args.json:  # after each, so that an interrupted run keeps what it has
            machine = {"processor": processor(), "n_threads": args.threads, "cpus": os.cpu_count()}
            document = {"model": args.model.name, "machine": machine, "results": results}
            args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def processor() -> str:
    names = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":", 1)[1].strip() if names else platform.machine()


if __name__ == "__main__":
    main()
