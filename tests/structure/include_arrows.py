"""Reads the #include lines of a source tree and says which of them break the layering.

The order of the folders is the one written in docs/architecture.md, e.g. "base < gguf < tokenizer, model < lora": a
folder includes only what stands left of a "<" before it, so folders joined by a comma do not include each other.
"""

import pathlib
import re

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
STANDARD_HEADER = re.compile(r"^[a-z_0-9]+$")  # <vector>, <cstdint>: only the standard library has no suffix
ORDER_LINE = re.compile(r"^`(\w+(?:(?: <|,) \w+)+)`$", re.MULTILINE)
LAYER_CALL = re.compile(r"^patchbay_layer\((\w+)([^)]*)\)", re.MULTILINE)

Ranks = dict[str, int]


def layer_ranks(architecture_page: str) -> Ranks:
    """Folder -> place in the order; folders joined by a comma share a place."""
    line = ORDER_LINE.search(architecture_page)
    if line is None:
        raise ValueError("docs/architecture.md has no line with the order of the layers")
    groups = line.group(1).split(" < ")
    return {layer: rank for rank, group in enumerate(groups) for layer in group.split(", ")}


def declared_layers(cmake_text: str) -> dict[str, set[str]]:
    """Layer -> everything it may include as CMake knows it: its AFTER list, followed to the end."""
    after = {}
    for name, arguments in LAYER_CALL.findall(cmake_text):
        words = re.search(r"AFTER\s+((?:(?!LINKS)\S+\s*)+)", arguments)
        after[name] = set(words.group(1).split()) if words else set()
    closed: dict[str, set[str]] = {}
    for name, direct in after.items():  # a layer is declared after those it names
        closed[name] = direct.union(*(closed[layer] for layer in direct))
    return closed


def source_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".hpp", ".cpp"))


def includes_of(path: pathlib.Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def wrong_includes(tree: pathlib.Path, ranks: Ranks, allowed: dict[str, set[str]]) -> list[str]:
    """Every include under src/ that goes up, sideways, or to a layer the folder's CMake target does not name."""
    problems = []
    for path in source_files(tree / "src"):
        folder = path.relative_to(tree / "src").parts[0]
        if folder not in ranks:
            problems.append(f"{path.relative_to(tree)}: folder {folder} is not in the order of the layers")
            continue
        for quote, name in includes_of(path):
            where = f"{path.relative_to(tree)} includes {name}"
            if quote == "<" or name.startswith("patchbay/"):
                continue
            target = name.split("/")[0]
            if "/" not in name or target not in ranks:
                problems.append(f"{where}: want a path that starts with a layer or with patchbay/")
            elif target != folder and ranks[target] >= ranks[folder]:
                problems.append(f"{where}: {target} does not come before {folder}")
            elif target != folder and folder in allowed and target not in allowed[folder]:
                problems.append(f"{where}: the CMake target of {folder} is not declared AFTER {target}")
    return problems


def wrong_public_includes(tree: pathlib.Path) -> list[str]:
    """Every include in include/patchbay/ that is neither public nor of the standard library."""
    problems = []
    for path in source_files(tree / "include"):
        for _, name in includes_of(path):
            if not name.startswith("patchbay/") and not STANDARD_HEADER.match(name):
                problems.append(f"{path.relative_to(tree)} includes {name}: want a public or standard header")
    return problems


def wrong_suffixes(tree: pathlib.Path) -> list[str]:
    """Public headers end in .hpp, private ones in .h."""
    public = [path for path in (tree / "include").rglob("*") if path.is_file() and path.suffix != ".hpp"]
    private = [path for path in (tree / "src").rglob("*") if path.suffix in (".hpp", ".hh", ".hxx")]
    return [f"{path.relative_to(tree)}: wrong suffix" for path in sorted(public + private)]
