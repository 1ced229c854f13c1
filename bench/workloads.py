"""What is measured: one entry per number in the README's table."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Workload:
    """Streams that run side by side; stream i wears adapter i modulo their number, all at strength 1.

    One phase is measured: `decode` generates n_gen tokens per stream after a prompt of n_prompt, `prefill` reads n_prompt
    tokens per stream. The speed is tokens of that phase per second, over all streams.
    """

    name: str
    phase: str
    n_streams: int = 1
    n_prompt: int = 16
    n_gen: int = 64
    n_adapters: int = 0
    n_rank: int = 16


WORKLOADS = [
    Workload("base, decode, 1 stream", "decode"),
    Workload("base, decode, 8 streams", "decode", n_streams=8),
    Workload("base, prefill 128", "prefill", n_prompt=128),
    Workload("base, prefill 512", "prefill", n_prompt=512),
    Workload("1 adapter, decode, 1 stream", "decode", n_adapters=1),
    Workload("1 adapter, decode, 8 streams", "decode", n_streams=8, n_adapters=1),
    Workload("8 adapters, decode, 8 streams", "decode", n_streams=8, n_adapters=8),
    Workload("64 adapters, decode, 64 streams", "decode", n_streams=64, n_gen=16, n_adapters=64),
    Workload("1 adapter, prefill 128", "prefill", n_prompt=128, n_adapters=1),
    Workload("4 adapters, prefill 4 x 32", "prefill", n_streams=4, n_prompt=32, n_adapters=4),
    Workload("1 adapter of rank 64, decode, 1 stream", "decode", n_adapters=1, n_rank=64),
    Workload("8 adapters of rank 64, decode, 8 streams", "decode", n_streams=8, n_adapters=8, n_rank=64),
]
