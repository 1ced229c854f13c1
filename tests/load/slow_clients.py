"""What callers who do nothing cost those who ask: their tokens per second with the others there and without, in turns.

    python tests/load/slow_clients.py [--rounds 20]

500 connections that say nothing and 100 that send one byte of a header each second and begin anew when they are cut, beside
8 streams. Ends with 1 where the median ratio of a round with them to the one without beside it is below 0.9, or where
descriptors are left open.
"""

import argparse
import asyncio
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/server"), str(ROOT / "bench")]

from http_client import Client, request_bytes  # noqa: E402
from make_adapters import MODEL  # noqa: E402
from server_process import ServerProcess  # noqa: E402

BOUND = 0.9


class SlowCallers:
    """There for as long as the block lasts."""

    def __init__(self, port: int, n_idle: int, n_dripping: int):
        self._port = port
        self._n_idle = n_idle
        self._n_dripping = n_dripping

    async def __aenter__(self):
        self._idle = [await asyncio.open_connection("127.0.0.1", self._port) for _ in range(self._n_idle)]
        self._dripping = [asyncio.create_task(self._drip(i / self._n_dripping)) for i in range(self._n_dripping)]
        await asyncio.sleep(1)  # all of them have begun
        return self

    async def __aexit__(self, *_):
        for task in self._dripping:
            task.cancel()
        await asyncio.gather(*self._dripping, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in self._idle), return_exceptions=True)

    async def _drip(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        writer = None
        try:
            while True:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                for byte in b"POST /v1/completions HTTP/1.1\r\nX-Slow: " + b"x" * 3600:
                    if writer.is_closing():
                        break
                    writer.write(bytes([byte]))
                    await asyncio.sleep(1)
        finally:
            if writer is not None:
                writer.close()


async def tokens_per_second(port: int, n_streams: int, n_tokens: int) -> float:
    async def stream(i: int) -> None:
        body = {"prompt": [100 + i, 200, 300], "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        client = Client(port)
        answer = await client.ask(request_bytes("POST", "/v1/completions", body))
        await client.close()
        assert answer.is_whole and answer.events()[-1]["usage"]["completion_tokens"] == n_tokens, answer

    start = time.perf_counter()
    await asyncio.gather(*(stream(i) for i in range(n_streams)))
    return n_streams * n_tokens / (time.perf_counter() - start)


async def measure(port: int, args) -> list[tuple[float, float]]:
    """Tokens per second without and with slow callers, round by round; who is first changes."""
    await tokens_per_second(port, args.streams, args.tokens)
    rounds = []
    for i in range(args.rounds):
        found = {}
        for has_slow in (False, True) if i % 2 else (True, False):
            async with SlowCallers(port, args.idle * has_slow, args.dripping * has_slow):
                found[has_slow] = await tokens_per_second(port, args.streams, args.tokens)
        rounds.append((found[False], found[True]))
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--dripping", type=int, default=100)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2, help="of computation (default 2)")
    args = parser.parse_args()
    with ServerProcess(MODEL, "--parallel", args.streams, n_threads=args.threads) as server:
        n_open = server.n_descriptors()
        rounds = asyncio.run(measure(server.port, args))
        deadline = time.monotonic() + 20
        while (n_left := server.n_descriptors() - n_open) > 0 and time.monotonic() < deadline:
            time.sleep(0.1)
    ratios = [slow / alone for alone, slow in rounds]
    ratio = statistics.median(ratios)
    print(f"{args.streams} streams: {statistics.median(alone for alone, _ in rounds):.0f} tokens/s alone, "
          f"{statistics.median(slow for _, slow in rounds):.0f} beside {args.idle} idle and {args.dripping} dripping connections; "
          f"median ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}) of {args.rounds} rounds; {n_left} descriptors left")
    return 1 if ratio < BOUND or n_left > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
