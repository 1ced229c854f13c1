"""What llama-server's clients ask about the server."""

import json
import signal
import socket
import time

from fixtures import folder, long_model, model  # noqa: F401
from server_process import ServerProcess


def endless(server, key=None):
    """A connection on which an answer is being streamed."""
    body = json.dumps({"prompt": "a", "stream": True, "n_predict": 60000, "temperature": 0, "stop": ["xyz"],
                       "logit_bias": [[16, False]]}).encode()
    head = f"POST /completion HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(head.encode() + body)
    assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
    return connection


def test_props_describe_the_server(model):
    with ServerProcess(model, "--parallel", 3, "--alias", "abc", "--temp", 0.5, "--top-k", 7, "-n", 9, "--tags", "x,y") as server:
        props = server.get("/props")[2]
        assert props["total_slots"] == 3 and props["model_alias"] == "abc" and props["model_path"] == str(model)
        settings = props["default_generation_settings"]
        assert settings["n_ctx"] == 32 and not settings["is_processing"]
        assert (settings["params"]["temperature"], settings["params"]["top_k"], settings["params"]["n_predict"]) == (0.5, 7, 9)
        assert props["modalities"] == {"vision": False, "audio": False} and props["build_info"]
        assert server.get("/v1/models")[2]["data"][0]["tags"] == ["x", "y"]


def test_flags_set_the_defaults_of_requests(model):
    with ServerProcess(model, "--temp", 0, "-n", 3, "--seed", 5) as server:
        for path in ("/completion", "/v1/completions"):
            answer = server.post(path, {"prompt": "a"})[2]
            assert (answer["content"] if path == "/completion" else answer["choices"][0]["text"]) == "bcd"
        assert server.post("/generate", {"inputs": "a"})[2] == {"generated_text": "bcd"}
        assert server.post("/completion", {"prompt": "a", "n_predict": 1})[2]["content"] == "b"
        assert server.post("/completion", {"prompt": "a"})[2]["generation_settings"]["seed"] == 5


def test_slots_show_what_is_in_the_making(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 2) as server:
        idle = server.get("/slots")[2]
        assert [slot["id"] for slot in idle] == [0, 1] and not any(slot["is_processing"] for slot in idle)
        assert server.get("/slots?fail_on_no_slot=1")[0] == 200
        connection = endless(server)
        busy, free = server.get("/slots")[2]
        assert busy["is_processing"] and not free["is_processing"] and busy["n_ctx"] == free["n_ctx"] == 65536
        assert busy["params"]["temperature"] == 0 and busy["params"]["stop"] == ["xyz"] and busy["params"]["lora"] == []
        assert busy["next_token"]["n_decoded"] > 0 and busy["id_task"] > 0
        assert busy["next_token"]["n_remain"] + busy["next_token"]["n_decoded"] == 60000
        assert "prompt" not in busy
        other = endless(server)
        assert all(slot["is_processing"] for slot in server.get("/slots")[2])
        deadline = time.monotonic() + 10
        while server.get("/slots?fail_on_no_slot=1")[0] == 200:  # told after the step that gave the token
            assert time.monotonic() < deadline
        status, headers, body = server.get("/slots?fail_on_no_slot=1")
        assert status == 503 and body["error"]["type"] == "unavailable_error" and headers["Retry-After"]
        connection.close()
        other.close()
        deadline = time.monotonic() + 10
        while any(slot["is_processing"] for slot in server.get("/slots")[2]):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_slots_of_others_show_no_more_than_that_they_are_taken(long_model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('{"key": "k1", "name": "one"}\n{"key": "k2", "name": "two"}\n')
    with ServerProcess(long_model, "-c", 65536, "--api-key", "root", "--api-key-file", keys) as server:
        connection = endless(server, "k1")
        for key, shown in (("k1", True), ("k2", False), ("root", True)):
            slot = server.get("/slots", Authorization=f"Bearer {key}")[2][0]
            assert slot["is_processing"] and ("params" in slot) == shown
        assert server.get("/slots")[0] == 401
        connection.close()


def test_slots_can_be_off(model):
    with ServerProcess(model, "--no-slots") as server:
        assert server.get("/slots")[0] == 404


def test_health_says_when_the_server_drains_and_a_second_signal_ends_it(long_model):
    with ServerProcess(long_model, "-c", 65536, "--drain", 60) as server:
        assert server.get("/health")[2] == server.get("/v1/health")[2] == {"status": "ok"}
        connection = endless(server)
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while server.get("/health")[0] == 200:
            assert time.monotonic() < deadline
        status, headers, body = server.get("/health")
        assert status == 503 and headers["Retry-After"] and body["error"]["type"] == "unavailable_error"
        assert "Service Unavailable" in body["error"]["message"]
        status, headers, body = server.post("/v1/completions", {"prompt": "a"})
        assert status == 503 and headers["Retry-After"] and body["error"]["type"] == "ServiceUnavailableError"
        assert server.get("/v1/models")[0] == 200 and connection.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == 0
        connection.close()
