"""What a shared beginning costs each time, beside llama.cpp: a long prompt that two adapters wear in turns.

    python bench/prefix_compare.py --peer DIR_OF_LLAMA_SERVER [--n-prompt 2000] [--rounds 3]

Time to the first token in ms: of Patchbay from the call to the token (`prefix_bench`, no HTTP), of llama-server its own
clock's prompt time (no HTTP either), with its prompt cache on. Medians of the rounds after the first.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

from engines import PeerServer, n_cpus
from make_adapters import MODEL, ROOT, make_adapters
from workloads import Workload

N_ADAPTERS = 2


class Alternating(PeerServer):
    """One slot, two adapters; the same prompt again and again."""

    def __init__(self, folder: pathlib.Path, model: pathlib.Path, n_threads: int, cache: pathlib.Path, n_prompt: int):
        def adapters(workload: Workload) -> list[pathlib.Path]:
            return make_adapters(model, cache, workload.n_adapters, workload.n_rank)

        super().__init__(folder, model, n_threads, adapters, Workload("", "prefill", 1, n_prompt, 1, N_ADAPTERS))

    def prompt_ms(self, i_adapter: int) -> float:
        body = self._body(self._workload, 0) | {"cache_prompt": True}
        body["lora"] = [{"id": k, "scale": float(k == i_adapter)} for k in range(N_ADAPTERS)]
        return self._complete(body)["timings"]["prompt_ms"]


def ours(program: pathlib.Path, model: pathlib.Path, n_prompt: int, rounds: int) -> dict[str, dict]:
    command = [str(program), str(model), str(n_prompt), str(rounds)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {found["name"]: found for found in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="folder with llama-server")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/prefix_bench")
    parser.add_argument("--adapters", type=pathlib.Path, default=ROOT / "build/bench-adapters")
    parser.add_argument("--threads", type=int, default=n_cpus())
    parser.add_argument("--n-prompt", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    found = ours(args.program, args.model, args.n_prompt, args.rounds)
    with Alternating(args.peer, args.model, args.threads, args.adapters, args.n_prompt) as peer:
        theirs = [peer.prompt_ms(i % N_ADAPTERS) for i in range(N_ADAPTERS * (args.rounds + 1))][N_ADAPTERS:]
    warm, peers = found["alternating"]["warm_ms"], statistics.median(theirs)
    print(f"prompt of {args.n_prompt} tokens, adapters in turns: {warm:.1f} ms, llama-server {peers:.0f} ms, 1/{peers / warm:.0f}")
    alora = found["alora"]
    for which in ("first", "second"):
        ms = alora[f"{which}_alora_ms"]
        print(f"{which} aLoRA after a base conversation: {ms:.1f} ms, plain LoRA {alora['plain_ms']:.0f} ms, 1/{alora['plain_ms'] / ms:.0f}")
    shared, cost = found["shared"], found["cost"]
    print(f"{shared['n_seqs']} sequences of {shared['n_shared']} common tokens hold {shared['n_kv_tokens_used']} KV tokens")
    for phase in ("prefill", "decode"):
        share = cost[f"{phase}_us"] / cost[f"{phase}_step_us"]
        print(f"bookkeeping of a {phase} step: {cost[f'{phase}_us']:.1f} of {cost[f'{phase}_step_us']:.0f} us, {share:.3%}")


if __name__ == "__main__":
    main()
