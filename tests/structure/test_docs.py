"""Paths and links in the documents lead somewhere."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"),
                *(ROOT / "bench").rglob("*.md")])
PATH = re.compile(r"`((?:src|include|tests|docs|scripts|bench|examples)/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")


def dead_ends(page: pathlib.Path, root: pathlib.Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    paths = [path for path in PATH.findall(text) if not (root / path).exists()]
    links = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    return paths + links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_links_exist(page):
    assert dead_ends(page, ROOT) == []


def test_a_planted_dead_end_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`src/gone.h` and [this](gone.md), but [that](page.md) and [web](https://example.org)\n")
    assert dead_ends(page, tmp_path) == ["src/gone.h", "gone.md"]
