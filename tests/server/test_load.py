"""The short form of tests/load/mixed_load.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))

import mixed_load  # noqa: E402


def test_nobody_notices_the_others():
    load = mixed_load.Load(n_streams=8, n_adapters=8, n_questions=16, n_rank=4, seconds=5, n_threads=1, n_ctx=512, pause_s=0.3,
                           growth_bound=1)
    result = mixed_load.run(load)
    assert not result.problems, "\n".join([*result.lines, *result.problems[:5]])
