"""llama-server's documented LoRA behaviour, and ours beyond it, point by point. With LLAMA_SERVER=/path/to/llama-server the same points are
asked of that one too, so that what docs/llama-server-differences.md says of it stays true."""

import pytest

from llama_peer import LLAMA_SERVER
from lora_observer import Observer
from lora_points import POINTS, Files


@pytest.fixture(scope="module", params=["patchbay", "llama-server"] if LLAMA_SERVER else ["patchbay"])
def observer(request, tmp_path_factory):
    with Observer(Files(tmp_path_factory.mktemp("points")), request.param == "patchbay") as one:
        yield one


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.says)
def test_point(observer, point):
    assert observer.observe(point) == point.wanted_of(observer.is_ours)


def test_every_difference_says_why():
    assert all(point.is_same != bool(point.why) and point.llama_server != point.wanted for point in POINTS)
