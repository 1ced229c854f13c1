"""Runs the program under test: $PATCHBAY, or the release build."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCHBAY = os.environ.get("PATCHBAY", str(ROOT / "build/release/bin/patchbay"))
FAILURE, USAGE = 1, 2
HAS_PRODUCTS = "avx2" in Path("/proc/cpuinfo").read_text()


def patchbay(*arguments, **options):
    return subprocess.run([PATCHBAY, *map(os.fspath, map(as_argument, arguments))],
                          **{"capture_output": True, "timeout": 60, "stdin": None if "input" in options else subprocess.DEVNULL}
                          | options)


def as_argument(value):
    return value if isinstance(value, (str, bytes, os.PathLike)) else str(value)


def run(model, *arguments, **options):
    return patchbay("run", "-m", model, "-t", 1, "--temp", 0, "-q", *arguments, **options)


def run_text(model, *arguments):
    """The streamed answer without its closing line break."""
    done = run(model, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().removesuffix("\n")


def run_json(model, *arguments):
    done = run(model, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.decode())


def refusal(done, exit_code):
    """What standard error says of a command that must fail with nothing on standard output."""
    assert done.returncode == exit_code, (done.returncode, done.stderr)
    assert not done.stdout
    return done.stderr.decode(errors="replace")
