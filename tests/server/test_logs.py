"""What the server says on standard error."""

import json
import re

from fixtures import GREEDY, folder, model  # noqa: F401
from server_process import ServerProcess


def test_every_request_is_one_object_of_the_log(model, folder):
    with ServerProcess(model, "--lora-dir", folder, "--log-format", "json") as server:
        status, headers, _ = server.post("/v1/completions", GREEDY | {"model": "jump"}, X_Request_Id="mine-1.a:b")
        assert headers["X-Request-Id"] == "mine-1.a:b"
        ids = ["mine-1.a:b"]
        for odd in ("", 'x"y', "a b", "é".encode().decode("latin-1"), "x" * 200):
            ids.append(server.get("/health?secret=1", X_Request_Id=odd)[1]["X-Request-Id"])
        ids.append(server.post("/v1/completions", b"{")[1]["X-Request-Id"])
        lines = [json.loads(line) for line in server.stop().splitlines() if line.startswith("{")]
    requests = {line["id"]: line for line in lines if line["message"] == "request"}
    assert all(line["level"] and line["time"].endswith("Z") for line in lines)
    assert sorted(requests) == sorted(ids) and len(set(ids)) == 7
    first = requests["mine-1.a:b"]
    assert (first["method"], first["path"], first["status"], first["adapters"]) == ("POST", "/v1/completions", 200, "jump")
    assert first["tokens_in"] == 1 and first["tokens_out"] > 1 and first["ms"] >= 0 and first["bytes"] > 100
    assert requests[ids[-1]]["status"] == 400 and "tokens_in" not in requests[ids[-1]]
    assert "secret" not in json.dumps(lines)


def test_prompts_are_logged_only_when_that_is_wanted(model):
    for flags, is_there in (((), False), (("--log-prompts",), True), (("--log-prompts", "--log-format", "json"), True)):
        with ServerProcess(model, *flags) as server:
            server.post("/v1/completions", GREEDY | {"prompt": "abcd"})
            assert any("abcd" in line for line in server.stop().splitlines()) == is_there


def test_a_text_log_has_one_line_of_words_for_a_request(model, folder):
    with ServerProcess(model, "--lora-dir", folder, "--log-prompts") as server:
        server.post("/v1/completions", GREEDY | {"prompt": "abcd", "model": "jump", "max_tokens": 2})
        lines = server.stop().splitlines()
    (line,) = [line for line in lines if "/v1/completions" in line]
    time, level, *words = line.split(" ", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) and level == "info:"
    assert 'finish_reason=length' in line and "tokens_cached=0" in line and " prompt=abcd" in line and "complete" not in line


def test_the_log_can_be_off(model):
    with ServerProcess(model, "--log-disable") as server:
        server.post("/v1/completions", GREEDY)
        assert not any("/v1/completions" in line for line in server.stop().splitlines())


def test_a_path_cannot_begin_a_line_of_the_log(model):
    with ServerProcess(model) as server:
        server.get("/x%0Ainfo:%20request%20id=forged")
        server.ask("GET", "/health", None, {"X-Request-Id": "a\tb"})
        assert not any(line.startswith("info: request id=forged") for line in server.stop().splitlines())
