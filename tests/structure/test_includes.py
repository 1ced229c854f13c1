"""The include arrows: this tree keeps them, and the checker does see a tree that breaks them."""

import pathlib

import include_arrows
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDER = "`base < gguf < tokenizer, model < lora, kv < graph < apps`"
CMAKE = """
patchbay_layer(base LINKS fmt::fmt)
patchbay_layer(gguf AFTER base)
patchbay_layer(tokenizer AFTER gguf LINKS PkgConfig::PCRE2)
patchbay_layer(model AFTER gguf)
patchbay_layer(lora AFTER model)
patchbay_layer(kv AFTER model)
patchbay_layer(graph AFTER lora kv)
"""


@pytest.fixture
def ranks():
    return include_arrows.layer_ranks((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))


@pytest.fixture
def declared():
    return include_arrows.declared_layers((ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))


def test_sources_include_only_layers_before_them(ranks, declared):
    assert include_arrows.wrong_includes(ROOT, ranks, declared) == []


def test_public_headers_include_only_public_and_standard_ones():
    assert include_arrows.wrong_public_includes(ROOT) == []


def test_public_headers_end_in_hpp_and_private_ones_in_h():
    assert include_arrows.wrong_suffixes(ROOT) == []


def test_every_source_folder_is_a_layer_with_its_own_target(declared):
    folders = {path.name for path in (ROOT / "src").iterdir() if include_arrows.source_files(path)}
    assert folders - {"apps"} == set(declared)
    assert (ROOT / "src/apps/CMakeLists.txt").is_file()


def test_targets_are_declared_after_lower_layers_only(ranks, declared):
    wrong = {name: {low for low in after if ranks[low] >= ranks[name]} for name, after in declared.items()}
    assert {name: low for name, low in wrong.items() if low} == {}


@pytest.mark.parametrize(
    "file, line, problem",
    [
        ("src/base/a.h", '#include "graph/linear.h"', "graph does not come before base"),
        ("src/tokenizer/a.h", '#include "model/hparams.h"', "model does not come before tokenizer"),
        ("src/kv/a.cpp", '#  include "lora/adapter.h"', "lora does not come before kv"),
        ("src/lora/a.cpp", '#include "tokenizer/bpe.h"', "the CMake target of lora is not declared AFTER tokenizer"),
        ("src/lora/a.cpp", '#include "adapter.h"', "want a path that starts with a layer"),
        ("src/misc/a.cpp", "#include <vector>", "folder misc is not in the order"),
    ],
)
def test_a_planted_wrong_include_is_found(tmp_path, file, line, problem):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"#pragma once\n{line}\n")
    found = include_arrows.wrong_includes(
        tmp_path, include_arrows.layer_ranks(ORDER), include_arrows.declared_layers(CMAKE)
    )
    assert len(found) == 1 and problem in found[0], found


@pytest.mark.parametrize("line", ['#include "base/error.h"', "#include <tl/expected.hpp>", "#include <ggml.h>"])
def test_a_planted_private_include_in_a_public_header_is_found(tmp_path, line):
    header = tmp_path / "include/patchbay/a.hpp"
    header.parent.mkdir(parents=True)
    header.write_text(f"#include <string>\n#include <patchbay/error.hpp>\n{line}\n")
    assert len(include_arrows.wrong_public_includes(tmp_path)) == 1


def test_a_planted_wrong_suffix_is_found(tmp_path):
    for file in ("include/patchbay/a.h", "src/base/b.hpp", "src/base/c.h"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert [problem.split(":")[0] for problem in include_arrows.wrong_suffixes(tmp_path)] == [
        "include/patchbay/a.h",
        "src/base/b.hpp",
    ]
