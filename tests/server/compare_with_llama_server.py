"""Asks both servers the points of lora_points.py and prints where they differ, as docs/llama-server-differences.md has it:

    LLAMA_SERVER=/path/to/llama-server python tests/server/compare_with_llama_server.py [--write]
"""

import json
import sys
import tempfile
from pathlib import Path

from llama_peer import LLAMA_SERVER, llama_version
from lora_observer import Observer
from lora_points import POINTS, Files

PAGE = Path(__file__).resolve().parents[2] / "docs/llama-server-differences.md"
HEAD = """# Where Patchbay answers otherwise than llama-server

Written by `tests/server/compare_with_llama_server.py --write`, which asks both servers the same {n} things about adapters, slots and
metrics and got the same answer to {n_same} of them. The others are below, as llama-server {version} answered; `tests/server/test_lora_behaviour.py`
tests all of them (with `LLAMA_SERVER` set, of that one too). The model spells the alphabet: after "a" it says "{spelled}", with one
adapter "mnéop", with another "p"; numbers from 400 on are statuses.

| asked | Patchbay | llama-server | why |
|---|---|---|---|
"""


def plain(value):
    """Whole numbers without their fraction."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shown(value):
    value = plain(value)
    words = json.dumps(value, ensure_ascii=False).replace("|", "\\|")
    return words if isinstance(value, str) else f"`{words}`"


def observations(is_ours):
    with tempfile.TemporaryDirectory() as folder, Observer(Files(Path(folder)), is_ours) as observer:
        return [observer.observe(point) for point in POINTS]


def as_json(value):
    return json.loads(json.dumps(value))


def main():
    if not LLAMA_SERVER:
        sys.exit("LLAMA_SERVER names no program")
    ours, theirs = observations(True), observations(False)
    wrong = [point.says for point, one, other in zip(POINTS, ours, theirs) if one != point.wanted or other != point.wanted_of(False)]
    rows = [(point, one, other) for point, one, other in zip(POINTS, ours, theirs) if as_json(one) != as_json(other)]
    head = HEAD.format(n=len(POINTS), n_same=len(POINTS) - len(rows), version=llama_version(), spelled="bcdefghijklmnéop")
    page = head + "".join(f"| {point.says} | {shown(one)} | {shown(other)} | {point.why} |\n" for point, one, other in rows)
    print(page)
    if wrong:
        sys.exit("not as the points say: " + "; ".join(wrong))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
