"""The program under test: $RENDER_TEMPLATE, or the release build's."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RENDER_TEMPLATE", str(ROOT / "build/release/bin/render_template"))


def render_all(requests):
    """The answer to each request, {"text"} or {"error", "stage"}."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([PROGRAM], input=lines.encode(), capture_output=True, timeout=300, env=os.environ | {"TZ": "UTC"})
    answers = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert done.returncode == 0 and len(answers) == len(requests), \
        f"it ended with {done.returncode} after {len(answers)} of {len(requests)} requests: {done.stderr.decode()[-2000:]}"
    return answers
