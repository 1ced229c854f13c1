"""What the tests of the server share: a model that spells, one with room for long answers, adapters."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from alphabet_model import write_adapter, write_model  # noqa: E402

GREEDY = {"prompt": "a", "temperature": 0, "max_tokens": 30}
# An answer that takes seconds: the model that spells never stops by itself.
ENDLESS = {"prompt": "a", "temperature": 0, "max_tokens": 60000, "logit_bias": {"16": -100}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "alphabet.gguf")


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """The same with a context of 65536 tokens: give the server -c as well."""
    return write_model(tmp_path_factory.mktemp("model") / "alphabet.gguf", n_ctx=65536)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Adapters: jump says "m" after "a", skip says "p"."""
    folder = tmp_path_factory.mktemp("adapters")
    write_adapter(folder / "jump.gguf")
    write_adapter(folder / "skip.gguf", say="p")
    return folder
