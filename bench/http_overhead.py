"""What HTTP costs: eight streams with eight adapters through `patchbay serve` and through the engine alone, in turns.

    python bench/http_overhead.py [--rounds 30] [--streams 8] [--adapters 8] [--tokens 128]

Both do the same: same prompts of 16 token ids, as many tokens, the same adapters, greedy, no prefix cache. The server's
streams are OpenAI's; the client is a small C++ program (`http_overhead`, built with -DPATCHBAY_BUILD_BENCH=ON), which also
runs the engine. Medians over the rounds of: the time to the first text, the time per later token, computing time per
token (all threads of the server, or of the program that runs the engine). The ratio is the median of the rounds' ratios.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from engines import n_cpus
from make_adapters import MODEL, ROOT, make_adapters

FIGURES = {"first_ms": "first text, ms", "token_ms": "per token, ms", "cpu_us": "computing time per token, us"}


def start_server(program: pathlib.Path, args, adapters: list[pathlib.Path], log) -> tuple[subprocess.Popen, int]:
    command = [program, "serve", "-m", args.model, "-t", args.threads, "--port", 0, "--parallel", args.streams]
    command += ["--no-cache-prompt", "--lora-init-without-apply"]
    for i, path in enumerate(adapters):
        command += ["--lora", f"a{i}={path}"]
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True)
    line = server.stdout.readline()
    if " on http://" not in line:
        server.wait()
        log.seek(0)
        raise SystemExit(f"the server did not start: {log.read().decode()[-2000:]}")
    return server, int(line.rsplit(":", 1)[1])


def measure(args, adapters: list[pathlib.Path]) -> list[dict]:
    folder = args.programs
    with tempfile.TemporaryFile() as log:
        server, port = start_server(folder / "patchbay", args, adapters, log)
        try:
            numbers = [port, server.pid, args.threads, args.rounds, args.tokens, args.streams]
            command = [folder / "http_overhead", args.model, *numbers, *adapters]
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
        finally:
            server.kill()
            server.wait()
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/bench-adapters", help="where adapters are made")
    parser.add_argument("--threads", type=int, default=n_cpus())
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    args = parser.parse_args()
    if args.tokens < 2 or args.rounds < 1 or args.streams < 1:
        sys.exit("want at least 2 tokens, 1 round and 1 stream")

    rounds = measure(args, make_adapters(args.model, args.cache, args.adapters, 16))
    print(f"{args.streams} streams, {args.adapters} adapters, {args.tokens} tokens, {args.threads} threads, {args.rounds} rounds")
    for key, what in FIGURES.items():
        engine = statistics.median(found["engine"][key] for found in rounds)
        server = statistics.median(found["server"][key] for found in rounds)
        ratios = sorted(found["server"][key] / found["engine"][key] for found in rounds)
        quarter = len(ratios) // 4
        print(f"{what}: engine {engine:.3f}, server {server:.3f}, ratio {statistics.median(ratios):.3f} "
              f"(quartiles {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f})")


if __name__ == "__main__":
    main()
