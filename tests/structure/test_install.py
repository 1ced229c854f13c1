"""The installed prefix stands on its own: a program built against it runs, and so does bin/patchbay."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*command, **options) -> str:
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", path)
    return path


@pytest.fixture(scope="module")
def embed(prefix, tmp_path_factory) -> pathlib.Path:
    build = tmp_path_factory.mktemp("embed")
    run("cmake", "-S", ROOT / "examples/embed", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    cache = (build / "CMakeCache.txt").read_text()
    assert f"Patchbay_DIR:PATH={prefix}{os.sep}" in cache  # not some other Patchbay of this machine
    run("cmake", "--build", build)
    return build / "embed"


def test_installed_command_runs_in_an_empty_environment(prefix):
    assert re.search(r"\d+\.\d+\.\d+", run(prefix / "bin/patchbay", "--version", env={}))


@pytest.mark.parametrize("file", ["bin/patchbay", "lib/libpatchbay.so"])
def test_installed_files_do_not_look_into_the_checkout(prefix, file):
    assert str(ROOT) not in run("readelf", "-d", prefix / file)


def test_only_public_headers_are_installed(prefix):
    installed = {path.relative_to(prefix / "include") for path in (prefix / "include").rglob("*") if path.is_file()}
    public = {path.relative_to(ROOT / "include") for path in (ROOT / "include").rglob("*.hpp")}
    assert installed == public


def test_example_built_against_the_prefix_generates_text(embed):
    text = run(embed, MODEL, "The capital of France is", env={})
    assert "Paris" in text


def test_example_reports_a_missing_model(embed):
    result = subprocess.run([embed, "/nonexistent.gguf", "Hi"], capture_output=True, text=True, timeout=60, env={})
    assert result.returncode == 1
    assert "/nonexistent.gguf" in result.stderr
