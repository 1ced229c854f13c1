"""`patchbay serve` as clients and controllers meet it."""

import json
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from server_process import ServerProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from alphabet_model import SPELLED, Typed, write_adapter, write_model  # noqa: E402
from command import PATCHBAY, patchbay, refusal  # noqa: E402

GREEDY = {"prompt": "a", "temperature": 0, "max_tokens": 30}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "alphabet.gguf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Adapters: jump says "m" after "a", skip says "p"; broken is none."""
    folder = tmp_path_factory.mktemp("adapters")
    write_adapter(folder / "jump.gguf")
    write_adapter(folder / "skip.gguf", say="p")
    (folder / "broken.gguf").write_bytes(b"GGUF and nothing else")
    return folder


@pytest.fixture(scope="module")
def server(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as running:
        yield running


@pytest.fixture
def fresh(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as running:
        yield running


def text_of(server, **changes):
    status, _, body = server.post("/v1/completions", GREEDY | changes)
    assert status == 200, body
    return body["choices"][0]["text"]


# Answers


def test_a_completion_says_what_openai_clients_read(server):
    status, headers, body = server.post("/v1/completions", GREEDY)
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert body["object"] == "text_completion" and body["model"] == "alphabet" and body["id"].startswith("cmpl-")
    assert body["choices"] == [{"index": 0, "text": SPELLED, "logprobs": None, "finish_reason": "stop"}]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 0


def test_a_stream_is_the_same_answer_in_parts(server):
    events = server.events("/v1/completions", GREEDY | {"stream": True, "stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == SPELLED
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]][-1] == "stop"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] > 0


def test_several_choices_echo_and_logprobs(server):
    _, _, body = server.post("/v1/completions", GREEDY | {"n": 3, "echo": True, "logprobs": 2, "max_tokens": 2})
    assert [choice["text"] for choice in body["choices"]] == ["abc"] * 3
    logprobs = body["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["b", "c"] and logprobs["text_offset"] == [0, 1]
    assert all(value <= 0 for value in logprobs["token_logprobs"]) and len(logprobs["top_logprobs"][0]) == 2


def test_token_ids_are_a_prompt_and_stops_end_an_answer(server):
    assert text_of(server, prompt=[0]) == SPELLED
    assert text_of(server, prompt=["a"]) == SPELLED
    assert text_of(server, stop=["fg", "d"]) == "bc"
    assert text_of(server, logit_bias={"1": -100}) != SPELLED


def test_llama_servers_completion(server):
    status, _, body = server.post("/completion", {"prompt": "a", "temperature": 0, "n_predict": 3, "n_probs": 1})
    assert status == 200 and body["content"] == "bcd" and body["stop_type"] == "limit" and body["tokens"] == [1, 2, 3]
    assert body["generation_settings"]["lora"] == [] and len(body["completion_probabilities"]) == 3
    events = [json.loads(event) for event in server.events("/completion", {"prompt": "a", "temperature": 0, "stream": True})]
    assert "".join(event["content"] for event in events) == SPELLED
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]


def test_tokens_and_text(server):
    assert server.post("/tokenize", {"content": "ab"})[2] == {"tokens": [0, 1]}
    assert server.post("/tokenize", {"content": "a", "with_pieces": True})[2] == {"tokens": [{"id": 0, "piece": "a"}]}
    assert server.post("/detokenize", {"tokens": [0, 1]})[2] == {"content": "ab"}
    assert server.post("/detokenize", {"tokens": [999]})[0] == 400


# Adapters


def test_an_adapter_is_a_model(server):
    assert text_of(server, model="jump").startswith("m")
    assert text_of(server, model="alphabet:skip").startswith("p")
    assert text_of(server, model="alphabet") == SPELLED
    status, headers, body = server.post("/v1/completions", GREEDY | {"model": "jump"})
    assert headers["x-adapter-id"] == "jump" and body["model"] == "jump"
    assert server.post("/v1/completions", GREEDY)[1].get("x-adapter-id") is None
    cards = {card["id"]: card for card in server.get("/v1/models")[2]["data"]}
    assert cards["jump"]["parent"] == "alphabet" and cards["alphabet"]["parent"] is None
    assert server.get("/v1/models/jump")[2]["id"] == "jump"
    status, _, body = server.get("/v1/models/none")
    assert status == 404 and body["error"]["type"] == "NotFoundError"


def test_the_field_lora_lists_what_is_worn(server):
    text_of(server, model="jump")
    entries = {entry["name"]: entry["id"] for entry in server.get("/lora-adapters")[2]}
    assert text_of(server, lora=[{"id": entries["jump"], "scale": 1}]).startswith("m")
    assert text_of(server, lora=[{"name": "jump", "scale": 0}]) == SPELLED
    assert text_of(server, lora=[]) == SPELLED
    _, _, body = server.post("/completion", {"prompt": "a", "n_predict": 1, "lora": [{"name": "jump", "scale": 0.5}]})
    assert body["generation_settings"]["lora"] == [
        {"id": entries["jump"], "name": "jump", "scale": 0.5, "active_from": 0}]
    for wrong in ([{"id": 99}], [{"name": "none"}], [{"id": 0, "name": "jump"}], [{}], ["jump"], "jump", [{"id": "0"}],
                  [{"name": "jump"}, {"name": "jump"}], [{"name": "jump", "scale": "1"}]):
        status, _, body = server.post("/v1/completions", GREEDY | {"lora": wrong})
        assert status == 400 and body["error"]["type"] == "BadRequestError", wrong
    status, _, body = server.post("/v1/completions", GREEDY | {"model": "jump", "lora": []})
    assert status == 400 and "jump" in body["error"]["message"]


def test_the_default_set_rules_requests_that_say_nothing_and_start_later(fresh):
    text_of(fresh, model="jump")
    jump = fresh.get("/lora-adapters")[2][0]
    assert jump["scale"] == 0
    assert fresh.post("/lora-adapters", [{"id": jump["id"], "scale": 1}])[2] == {"success": True}
    assert text_of(fresh).startswith("m") and text_of(fresh, lora=[]) == SPELLED
    for wrong in ({}, [{"id": 99, "scale": 1}], [{"id": 0}], [{"id": 0, "scale": 1}] * 2):
        status, _, body = fresh.post("/lora-adapters", wrong)
        assert status == 400 and body["error"]["type"] == "invalid_request_error", wrong
    assert text_of(fresh).startswith("m")
    assert fresh.post("/lora-adapters", [])[2] == {"success": True} and text_of(fresh) == SPELLED


def test_vllms_controllers_load_twice_unload_and_replace(fresh, folder):
    load, unload = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
    path = folder / "mine.gguf"
    shutil.copy(folder / "jump.gguf", path)
    wish = {"lora_name": "mine", "lora_path": str(path)}
    assert fresh.post(load, wish)[::2] == (200, "Success: LoRA adapter 'mine' added successfully.")
    status, _, body = fresh.post(load, wish)
    assert status == 400 and "has already been loaded" in body["message"]
    assert body["error"]["type"] == body["type"] == "InvalidUserInput"
    assert text_of(fresh, model="mine").startswith("m")
    shutil.copy(folder / "skip.gguf", path)
    assert fresh.post(load, wish | {"load_inplace": True})[0] == 200
    assert text_of(fresh, model="mine").startswith("p")
    assert fresh.post(unload, {"lora_name": "mine"})[::2] == (200, "Success: LoRA adapter 'mine' removed successfully.")
    path.unlink()
    assert fresh.post(unload, {"lora_name": "mine"})[0] == 404
    assert fresh.post("/v1/completions", GREEDY | {"model": "mine"})[0] == 404
    for changes, status, kind in (({"lora_name": ""}, 400, "InvalidUserInput"), ({"lora_path": ""}, 400, "InvalidUserInput"),
                                  ({"lora_name": "alphabet"}, 400, "InvalidUserInput"),
                                  ({"lora_path": "none.gguf"}, 404, "NotFoundError"),
                                  ({"lora_path": "broken.gguf"}, 400, "BadRequestError"),
                                  ({"lora_path": "/etc/passwd"}, 403, "PermissionDeniedError"),
                                  ({"lora_path": "../../../../etc/passwd"}, 403, "PermissionDeniedError")):
        found, _, body = fresh.post(load, {"lora_name": "new", "lora_path": "jump.gguf"} | changes)
        assert (found, body["error"]["type"]) == (status, kind), changes
    assert fresh.get("/lora-adapters")[2] == []


def test_sglangs_and_dynamos_controllers(fresh, folder):
    status, _, body = fresh.post("/load_lora_adapter", {"lora_name": "s", "lora_path": "jump.gguf"})
    assert status == 200 and body["success"] and body["loaded_adapters"] == {"s": str(folder / "jump.gguf")}
    status, _, body = fresh.post("/load_lora_adapter", {"lora_name": "s", "lora_path": "jump.gguf"})
    assert status == 400 and not body["success"] and "already" in body["error_message"]
    uri = {"uri": f"file://{folder}/skip.gguf"}
    status, _, body = fresh.post("/v1/loras", {"lora_name": "d/x", "source": uri})
    assert status == 200 and body["status"] == "success" and body["lora_id"] == 2
    assert fresh.get("/v1/loras")[2] == {"status": "success", "loras": {"s": 1, "d/x": 2}, "count": 2}
    assert text_of(fresh, model="d/x").startswith("p")
    assert fresh.ask("DELETE", "/v1/loras/d%2Fx")[0] == 200
    assert fresh.post("/v1/loras", {"lora_name": "e", "source": {"uri": "s3://x"}})[0] == 400
    assert fresh.post("/unload_lora_adapter", {"lora_name": "s"})[2]["loaded_adapters"] == {}


def test_without_a_folder_nothing_is_loaded_over_http(model, folder):
    with ServerProcess(model, "--lora", f"mine={folder / 'jump.gguf'}") as server:
        assert text_of(server).startswith("m")
        wish = {"lora_name": "new", "lora_path": str(folder / "jump.gguf")}
        assert server.post("/v1/load_lora_adapter", wish)[0] == 403
    with ServerProcess(model, "--lora", f"mine={folder / 'jump.gguf'}", "--lora-init-without-apply") as server:
        assert text_of(server) == SPELLED and text_of(server, model="mine").startswith("m")


# Keys


def test_keys_open_what_they_may(model, folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('{"key": "k1", "name": "team", "adapters": ["jump"]}\n\n{"key": "k2", "name": "root", "admin": true}\n')
    with ServerProcess(model, "--lora-dir", folder, "--api-key", "secret", "--api-key-file", keys) as server:
        def ask(key, **changes):
            return server.post("/v1/completions", GREEDY | changes, Authorization=f"Bearer {key}")[0]
        assert server.get("/health")[0] == 200
        status, headers, body = server.post("/v1/completions", GREEDY)
        assert status == 401 and body["error"]["type"] == "AuthenticationError" and headers["WWW-Authenticate"] == "Bearer"
        assert ask("wrong") == ask("") == ask("secre") == 401
        assert ask("secret") == ask("k1") == ask("k1", model="jump") == 200
        assert ask("k1", model="skip") == 403 and ask("k2", model="skip") == 200
        # Who may not use an adapter does not learn whether there is one.
        assert ask("k1", model="none") == 403 and ask("k2", model="none") == 404
        for listed in ({"name": "skip"}, {"name": "none"}, {"id": 1}, {"id": 77}):
            assert ask("k1", lora=[listed]) == 403, listed
        assert ask("k1", lora=[{"name": "jump"}]) == 200
        wish = {"lora_name": "new", "lora_path": "jump.gguf"}
        assert server.post("/v1/load_lora_adapter", wish, Authorization="Bearer k1")[0] == 403
        assert server.post("/v1/load_lora_adapter", wish, X_Api_Key="k2")[0] == 200
        names = [card["id"] for card in server.get("/v1/models", Authorization="Bearer k1")[2]["data"]]
        assert names == ["alphabet", "jump"]


def test_a_key_that_may_not_wear_the_default_set_is_told_the_way_out(model, folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('{"key": "k1", "name": "team", "adapters": ["jump"]}\n')
    with ServerProcess(model, "--lora", f"secret={folder / 'skip.gguf'}", "--lora-dir", folder, "--api-key-file", keys) as server:
        def ask(**changes):
            return server.post("/v1/completions", GREEDY | changes, Authorization="Bearer k1")
        status, _, body = ask()
        assert status == 403 and '"lora": []' in body["error"]["message"] and "secret" not in str(body)
        assert ask(lora=[])[0] == ask(model="jump")[0] == 200


def test_the_list_of_a_request_names_adapters_that_nobody_has_loaded(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as server:
        assert text_of(server, lora=[{"name": "jump"}]).startswith("m")
        assert text_of(server, lora=[{"name": "skip", "scale": 0}]) == SPELLED
        status, _, body = server.post("/v1/completions", GREEDY | {"lora": [{"name": "none"}]})
        assert status == 400 and "'none'" in body["error"]["message"]


def test_a_file_that_changes_or_shrinks_neither_ends_the_server_nor_changes_answers(model, folder, tmp_path):
    path = tmp_path / "moving.gguf"
    shutil.copy(folder / "jump.gguf", path)
    # So little memory for adapters that each use loads anew.
    with ServerProcess(model, "--lora-dir", tmp_path, "--lora-dir", folder, "--adapter-memory", "1") as server:
        assert text_of(server, model="moving").startswith("m")
        for content in ((folder / "skip.gguf").read_bytes(), path.read_bytes()[:100], b""):
            with path.open("r+b") as file:
                file.truncate(0)
                file.write(content)
            assert text_of(server, model="skip").startswith("p")
            assert text_of(server, model="moving").startswith("m")


def test_an_adapter_of_the_folder_has_one_name(model, folder, tmp_path):
    nested = tmp_path / "ad"
    shutil.copytree(folder, nested)
    with ServerProcess(model, "--lora-dir", nested) as server:
        assert text_of(server, model="jump").startswith("m")
        for alias in ("./jump", "././jump", "jump/", "jump//", "jump.gguf", "x/../jump", ".", "..", "../ad/jump"):
            assert server.post("/v1/completions", GREEDY | {"model": alias})[0] in (400, 404), alias
        assert len(server.get("/v1/models")[2]["data"]) == 2


def test_what_generate_would_leave_out_is_refused(model):
    with ServerProcess(model) as server:
        for body in ({"inputs": "a", "parameters": {"grammar": {"type": "json"}}}, {"inputs": "a", "parameters": {"merged_adapters": {"ids": []}}},
                     {"text": "a", "sampling_params": {"regex": "a"}}, {"text": "a", "sampling_params": {"stop_token_ids": [1]}},
                     {"inputs": "a", "lora_request": {"name": "x"}}):
            assert server.post("/generate", body)[0] == 400, body
        assert server.post("/generate", {"text": "a", "sampling_params": {"regex": None, "stop_token_ids": [], "min_new_tokens": 0}})[0] == 200


def test_an_alora_that_is_not_invoked_is_named(model, tmp_path):
    write_adapter(tmp_path / "late.gguf", "c", "m", **{"adapter.alora.invocation_tokens": Typed("u32", [1, 2])})
    with ServerProcess(model, "--lora-dir", tmp_path) as server:
        def headers_of(prompt):
            status, headers, _ = server.post("/v1/completions", GREEDY | {"model": "late", "prompt": prompt})
            assert status == 200
            return headers.get("x-adapter-id"), headers.get("x-adapter-not-invoked")
        found = {prompt: headers_of(prompt) for prompt in ("a", "zabc", "zbbc", "abab")}
        assert set(found.values()) == {("late", None), (None, "late")}, found


# What is wrong


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"nonsense", b"[]", b"3", b'"a"', b"null", b"\xff\xfe", b"[" * 100000,
                                  b'{"a":' * 100000, b'{"prompt": "a", "temperature": 1e400}'])
def test_a_body_that_is_no_request_is_refused(server, body):
    status, _, answer = server.post("/v1/completions", body)
    assert status == 400 and answer["error"]["message"]
    assert server.get("/health")[0] == 200


@pytest.mark.parametrize("changes", [
    {"prompt": None}, {"prompt": ""}, {"prompt": {}}, {"prompt": [1.5]}, {"prompt": [-1]}, {"prompt": [999]},
    {"prompt": ["a", "b"]}, {"prompt": [2**40]}, {"temperature": "hot"}, {"temperature": -1},
    {"top_p": 2}, {"max_tokens": -5}, {"max_tokens": 1.5}, {"max_tokens": 2**40}, {"n": 0}, {"n": 65}, {"n": 5000}, {"suffix": "x"}, {"best_of": 2}, {"best_of": "x"}, {"stream": "yes"},
    {"stop": 3}, {"stop": ["a", 3]}, {"stop": ["x"] * 100}, {"logit_bias": {"a": 1}}, {"logit_bias": 5},
    {"logit_bias": {"1": "x"}}, {"seed": 1.5}, {"logprobs": 1000}, {"model": 3}, {"stream_options": []}])
def test_a_field_that_is_wrong_is_named(server, changes):
    status, _, body = server.post("/v1/completions", GREEDY | changes)
    assert status == 400, body
    field = next(iter(changes))
    assert field in body["error"]["message"] or field == "prompt" or field == "n", body


def test_a_prompt_that_is_too_long_says_how_long(server):
    status, _, body = server.post("/completion", {"prompt": [0] * 40})
    assert status == 400 and body["error"]["type"] == "exceed_context_size_error"
    assert (body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]) == (40, 32)


def test_paths_and_methods_that_are_not_there(server):
    status, _, body = server.get("/nothing")
    assert status == 404 and "/nothing" in body["error"]["message"]
    status, headers, _ = server.get("/v1/completions")
    assert status == 405 and headers["Allow"] == "POST"
    assert server.ask("HEAD", "/health")[0] == 200


def raw(server, data, limit=5.0):
    """What the server says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=limit) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


@pytest.mark.parametrize(("data", "status"), [
    (b"GARBAGE\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 400), (b"GET /%zz HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nX: " + b"y" * 100000 + b"\r\n\r\n", 431),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -3\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    (b"GET /health HTTP/1.0\r\n\r\n", 200)])
def test_what_is_no_http_gets_an_answer_and_no_more(server, data, status):
    assert raw(server, data).startswith(f"HTTP/1.1 {status} ".encode())


def test_requests_may_follow_each_other(server):
    one = b"GET /health HTTP/1.1\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert raw(server, one * 3 + last).count(b"HTTP/1.1 200 OK") == 4


def test_a_client_that_asks_whether_to_go_on_is_told_to(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(b"POST /tokenize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"content":"a"}')
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


# Life


def test_clients_that_go_away_leave_nothing_behind(fresh):
    n_before = fresh.n_descriptors()
    body = json.dumps(GREEDY | {"stream": True, "n": 4, "max_tokens": 20}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for n_sent in (1, len(head), len(head) + 5, len(head) + len(body)):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", fresh.port)) as connection:
                connection.sendall((head + body)[:n_sent])
    assert text_of(fresh) == SPELLED
    deadline = time.monotonic() + 10
    while fresh.n_descriptors() > n_before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fresh.n_descriptors() <= n_before


def test_a_signal_lets_running_requests_finish(model):
    with ServerProcess(model) as server:
        assert text_of(server) == SPELLED
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0


def test_what_cannot_be_served_is_said_before_anything_listens(model, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = patchbay("serve", "-m", model, "--port", taken.getsockname()[1])
        assert "cannot be listened on" in refusal(done, 1)
    assert "keys" in refusal(patchbay("serve", "-m", model, "--port", 0, "--api-key-file", tmp_path / "keys"), 1)
    assert "folder" in refusal(patchbay("serve", "-m", model, "--port", 0, "--lora-dir", tmp_path / "none"), 1)
    broken = tmp_path / "cert.pem"
    broken.write_text("no certificate")
    assert "certificate" in refusal(
        patchbay("serve", "-m", model, "--port", 0, "--ssl-cert-file", broken, "--ssl-key-file", broken), 1)
    assert PATCHBAY
