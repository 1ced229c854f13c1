"""Speed of `patchbay bench` beside llama.cpp's `llama-bench`: same file, same threads, runs taken in turns.

    python bench/peer.py --peer DIR_OF_LLAMA_BENCH [--model FILE] [--runs 5] [--threads 2] [--json FILE]

Prints the median prefill and decode speed of both in tokens per second and their ratio (ours / theirs). A machine has
faster and slower phases, so each run of ours has its neighbour of theirs and the ratio is the median of the pairs'.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PHASES = ("prefill", "decode")


def run_json(command: list[str]):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nfailed with {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout)


def ours(args) -> dict[str, float]:
    """Tokens per second of one run, by phase."""
    command = [str(args.patchbay), "bench", "-m", str(args.model), "--json", "-r", "1"]
    found = run_json(command + sizes(args) + args.patchbay_args)
    return {phase: found[f"{phase}_tokens_per_s"] for phase in PHASES}


def theirs(args) -> dict[str, float]:
    command = [str(args.peer / "llama-bench"), "-m", str(args.model), "-o", "json", "-r", "1"]
    tests = run_json(command + sizes(args))
    speed = {("prefill" if test["n_prompt"] else "decode"): test["avg_ts"] for test in tests}
    return {phase: speed[phase] for phase in PHASES}


def sizes(args) -> list[str]:
    return ["-p", str(args.n_prompt), "-n", str(args.n_gen), "-t", str(args.threads)]


def medians(pairs, phase: str) -> dict[str, float]:
    return {
        "patchbay": statistics.median(mine[phase] for mine, _ in pairs),
        "peer": statistics.median(their[phase] for _, their in pairs),
        "ratio": statistics.median(mine[phase] / their[phase] for mine, their in pairs),
    }


def existing_path(text: str) -> pathlib.Path:
    """Absolute, because a bare name would be looked for in PATH."""
    path = pathlib.Path(text).resolve()
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return path


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=existing_path, required=True, help="folder that holds llama-bench")
    parser.add_argument("--patchbay", type=existing_path, default=str(ROOT / "build/release/bin/patchbay"))
    parser.add_argument(
        "--model", type=existing_path, default=str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    )
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--n-prompt", type=int, default=256)
    parser.add_argument("--n-gen", type=int, default=64)
    parser.add_argument("--json", type=pathlib.Path, help="also write medians and all runs to this file")
    parser.add_argument("patchbay_args", nargs="*", help="after --: more options for patchbay bench, e.g. --lora")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    pairs = []
    for i in range(args.runs):
        # Who goes first changes, so that neither always finds the warmer machine.
        if i % 2 == 0:
            mine, their = ours(args), theirs(args)
        else:
            their, mine = theirs(args), ours(args)
        pairs.append((mine, their))
    result = {phase: medians(pairs, phase) for phase in PHASES}
    print(f"{args.model.name}, {args.threads} threads, prompt {args.n_prompt}, generated {args.n_gen}, {args.runs} pairs")
    print(f"{'':10}{'patchbay t/s':>14}{'peer t/s':>12}{'ratio':>8}")
    for phase in PHASES:
        row = result[phase]
        print(f"{phase:10}{row['patchbay']:14.1f}{row['peer']:12.1f}{row['ratio']:8.3f}")
    if args.json:
        runs = [{"patchbay": mine, "peer": their} for mine, their in pairs]
        args.json.write_text(json.dumps({"medians": result, "runs": runs}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
