"""The server's description of itself, and what happens to who believes it."""

import subprocess
import sys

import pytest

from fixtures import folder, model  # noqa: F401
from server_process import ServerProcess


@pytest.fixture
def server(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as running:
        yield running


def test_the_description_has_the_routes(server):
    status, headers, document = server.get("/openapi.json")
    assert status == 200 and document["openapi"].startswith("3.1")
    for path, method in (("/v1/completions", "post"), ("/v1/models/{name}", "get"), ("/metrics", "get"), ("/v1/loras/{name}", "delete")):
        assert document["paths"][path][method]["summary"]


def test_no_request_that_can_be_made_of_it_breaks_the_server(server):
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{server.port}/openapi.json",
         "--checks", "not_a_server_error", "--phases", "coverage,fuzzing", "--max-examples", "15", "--seed", "1",
         "--request-timeout", "20", "--no-color"],
        capture_output=True, text=True, timeout=600, cwd="/tmp")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert server.get("/health")[0] == 200
