"""What llama-server's clients ask about the server."""

import json
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fixtures import folder, long_model, model  # noqa: F401
from server_process import ServerProcess

from alphabet_model import SPELLED, write_adapter  # noqa: E402
from command import patchbay, refusal  # noqa: E402


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


def test_fields_of_an_answers_length_and_penalties_are_read_on_every_route(model):
    with ServerProcess(model, "--chat-template", "{{ messages[0].content }}") as server:
        chat = {"messages": [{"role": "user", "content": "a"}], "temperature": 0}
        plain = {"prompt": "a"}
        bodies = {"/completion": plain, "/v1/completions": plain, "/v1/chat/completions": chat, "/chat/completions": chat}
        for path, body in bodies.items():
            def asked(**changes):
                return server.post(path, body | {"temperature": 0} | changes)

            def text(**changes):
                answer = asked(**changes)[2]
                if path == "/completion":
                    return answer["content"]
                [choice] = answer["choices"]
                return choice["text"] if "prompt" in body else choice["message"]["content"]

            assert text(n_predict=2) == text(max_tokens=2) == "bc", path
            for wrong in ({"n_predict": "x"}, {"n_predict": -2}, {"repeat_penalty": 0}, {"repeat_penalty": "x"}, {"repeat_last_n": -2},
                          {"repetition_penalty": []}):
                status, _, answer = asked(**wrong)
                assert status == 400 and next(iter(wrong)) in answer["error"]["message"], (path, wrong)
        assert server.post("/v1/chat/completions", chat | {"max_completion_tokens": 1, "max_tokens": 2, "n_predict": 3})[2][
            "choices"][0]["message"]["content"] == "b"


def test_a_repeat_penalty_acts_in_a_chat_as_in_a_completion(model):
    with ServerProcess(model, "--chat-template", "{{ messages[0].content }}") as server:
        # What follows "a" is "b", which was there already: divided by this its logit is below the others' 0.
        common = {"temperature": 0, "n_predict": 1, "repeat_penalty": 1000, "logit_bias": {"2": 0.5}}
        assert server.post("/completion", common | {"prompt": "ba"})[2]["content"] == "c"
        body = common | {"messages": [{"role": "user", "content": "ba"}]}
        assert server.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"] == "c"
        near = body | {"repeat_last_n": 1}
        assert server.post("/v1/chat/completions", near)[2]["choices"][0]["message"]["content"] == "b"


def test_busy_slots_per_step_count_answers_in_the_making(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 2) as server:
        def value(name):
            lines = server.get("/metrics")[2].splitlines()
            return float(next(line for line in lines if line.startswith(f"llamacpp:{name} ")).split()[1])

        assert value("n_busy_slots_per_decode") == 0
        server.post("/completion", {"prompt": [0] * 60, "n_predict": 5, "temperature": 0})
        assert value("n_busy_slots_per_decode") == 1 and value("n_tokens_max") == 65
        server.post("/completion", {"prompt": "a", "n_predict": 200, "temperature": 0, "n": 2, "logit_bias": [[16, False]]})
        assert 1.5 < value("n_busy_slots_per_decode") <= 2 and value("n_tokens_max") == 201
        server.post("/completion", {"prompt": [0] * 60, "n_predict": 1, "temperature": 0})
        assert value("prompt_tokens_cached_total") > 0 and value("n_tokens_max") == 201


# Slots


def test_slots_have_the_numbers_that_requests_asked_for(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 3) as server:
        def slot_of(**changes):
            return server.post("/completion", {"prompt": "a", "n_predict": 1} | changes)[2]["id_slot"]

        assert [slot_of() for _ in range(4)] == [0, 1, 2, 0]
        assert [slot_of(id_slot=2), slot_of(id_slot=-1), slot_of(id_slot=2), slot_of()] == [2, 1, 2, 0]
        for wrong in (3, -2, "0"):
            status, _, body = server.post("/completion", {"prompt": "a", "id_slot": wrong})
            assert status == 400 and "id_slot" in body["error"]["message"]
        body = {"prompt": "a", "stream": True, "n_predict": 60000, "id_slot": 2, "logit_bias": [[16, False]]}
        connection = server.connect()
        connection.request("POST", "/completion", json.dumps(body))
        answer = connection.getresponse()
        assert answer.readline()
        assert [slot["is_processing"] for slot in server.get("/slots")[2]] == [False, False, True]
        assert slot_of() in (0, 1)
        answer.close()
        connection.close()


PROMPT = [*range(15)] * 6 + [0]
BLOCK = 32  # tokens of the cache that are known or not together, at most


@pytest.fixture
def saving(long_model, tmp_path):
    """Starts servers that save into one folder, with adapters on which the cache depends."""
    (tmp_path / "slots").mkdir()
    loras = [write_adapter(tmp_path / "jump.gguf", keys_too=True), write_adapter(tmp_path / "skip.gguf", say="p", keys_too=True)]

    def start():
        return ServerProcess(long_model, "-c", 4096, "--parallel", 2, "--lora", ",".join(map(str, loras)),
                             "--slot-save-path", tmp_path / "slots")

    start.folder = tmp_path / "slots"
    return start


def complete(server, **changes):
    """Text and how many tokens of the prompt were not computed again."""
    status, _, body = server.post("/completion", {"prompt": PROMPT, "temperature": 0, "n_predict": 30, "id_slot": 1,
                                                  "lora": [{"id": 0, "scale": 1}]} | changes)
    assert status == 200, body
    return body["content"], body["timings"]["cache_n"]


def act(server, action, name="chat.bin", slot=1):
    status, _, body = server.post(f"/slots/{slot}?action={action}", {"filename": name})
    return body if status == 200 else status


def test_a_saved_slot_goes_on_in_another_process(saving):
    with saving() as server:
        assert complete(server) == ("mnéop", 0)
        saved = act(server, "save")
        assert saved["id_slot"] == 1 and saved["filename"] == "chat.bin" and saved["timings"]["save_ms"] > 0
        assert len(PROMPT) - BLOCK < saved["n_saved"] < len(PROMPT) + 7  # of the answer's tokens the last one was not computed
        assert saved["n_written"] == (saving.folder / "chat.bin").stat().st_size
        assert act(server, "save", slot=0) == 404  # nothing was computed there
    with saving() as server:
        restored = act(server, "restore", slot=0)
        assert (restored["n_restored"], restored["n_read"]) == (saved["n_saved"], saved["n_written"])
        assert complete(server, lora=[{"id": 1, "scale": 1}]) == ("p", 0)  # was computed wearing another
        text, n_cached = complete(server)
        assert text == "mnéop" and len(PROMPT) - BLOCK <= n_cached < len(PROMPT)
        erased = act(server, "erase")
        assert erased["id_slot"] == 1 and len(PROMPT) < erased["n_erased"] <= len(PROMPT) + 7
        assert act(server, "erase") == {"id_slot": 1, "n_erased": 0} and act(server, "save") == 404


def test_a_slot_whose_adapter_is_another_by_now_is_refused(saving, folder, long_model, tmp_path):
    with saving() as server:
        complete(server)
        assert act(server, "save")["n_saved"]
    with ServerProcess(long_model, "-c", 4096, "--lora", f"jump={folder / 'skip.gguf'}", "--slot-save-path", saving.folder) as server:
        status, _, body = server.post("/slots/0?action=restore", {"filename": "chat.bin"})
        assert status == 400 and body["error"]["type"] == "invalid_request_error" and "jump" in body["error"]["message"]


def test_nothing_but_saved_sessions_is_replaced_or_restored(saving, folder):
    shutil.copy(folder / "jump.gguf", saving.folder / "jump.gguf")
    (saving.folder / "empty").write_bytes(b"")
    (saving.folder / "under").mkdir()
    (saving.folder / "link.bin").symlink_to(folder / "jump.gguf")
    before = (folder / "jump.gguf").read_bytes()
    with saving() as server:
        complete(server)
        for name in ("jump.gguf", "empty", "under", "link.bin", ".hidden", "a/b", "..", "", "x" * 300, "a\\b", "a\nb"):
            assert act(server, "save", name) == 400, name
        assert act(server, "restore", "jump.gguf") == 400 and act(server, "restore", "none") == 404
        for body in ({}, {"filename": 3}, [], "x"):
            assert server.post("/slots/1?action=save", body)[0] == 400
        for path in ("/slots/2?action=save", "/slots/-1?action=save", "/slots/1x?action=save", "/slots/1?action=dance", "/slots/1"):
            assert server.post(path, {"filename": "x"})[0] == 400, path
        assert act(server, "save") and act(server, "save")  # one of its own is
    assert (saving.folder / "jump.gguf").read_bytes() == (folder / "jump.gguf").read_bytes() == before


def test_slots_are_saved_by_whoever_may_change_the_server_and_where_there_is_a_folder(model, tmp_path):
    with ServerProcess(model) as server:
        for action in ("save", "restore", "erase"):
            status, _, body = server.post(f"/slots/0?action={action}", {"filename": "x"})
            assert status == 403 and "--slot-save-path" in body["error"]["message"]
    keys = tmp_path / "keys"
    keys.write_text('{"key": "k1", "name": "one"}\n')
    with ServerProcess(model, "--api-key", "root", "--api-key-file", keys, "--slot-save-path", tmp_path) as server:
        for key, status in (("k1", 403), ("none", 401), ("root", 404)):
            assert server.post("/slots/0?action=save", {"filename": "x"}, Authorization=f"Bearer {key}")[0] == status
    assert "none" in refusal(patchbay("serve", "-m", model, "--port", 0, "--slot-save-path", tmp_path / "none"), 1)


# Names of adapters


def test_hidden_adapters_are_served_and_not_listed(model, folder):
    with ServerProcess(model, "--lora-dir", folder, "--lora", folder / "jump.gguf", "--hidden-adapters", "jump,skip") as server:
        def text(name):
            return server.post("/completion", {"prompt": "a", "temperature": 0, "model": name})[2]["content"]

        assert text("jump").startswith("m") and text("skip").startswith("p")
        assert [card["id"] for card in server.get("/v1/models")[2]["data"]] == ["alphabet"]
        assert server.get("/v1/models/jump")[0] == 200  # to who knows its name
        assert [entry["name"] for entry in server.get("/lora-adapters")[2]] == ["jump", "skip"]


def test_an_adapters_file_may_be_named_as_the_base_or_as_no_name_is(model, folder, tmp_path):
    for name in ("alphabet.gguf", "com,ma.gguf"):
        shutil.copy(folder / "jump.gguf", tmp_path / name)
    with ServerProcess(model, "--lora", f'{tmp_path}/alphabet.gguf,"{tmp_path}/com,ma.gguf"', "--lora-init-without-apply") as server:
        assert [entry["name"] for entry in server.get("/lora-adapters")[2]] == ["alphabet-2", "com_ma"]
        for wish, wanted in (("alphabet", SPELLED), ("alphabet-2", "mnéop"), ("com_ma", "mnéop")):
            assert server.post("/completion", {"prompt": "a", "temperature": 0, "model": wish})[2]["content"] == wanted
    said = refusal(patchbay("serve", "-m", model, "--port", 0, "--lora", f"alphabet={folder / 'jump.gguf'}"), 2)
    assert "alphabet" in said and "base" in said


def test_what_is_odd_about_an_adapter_is_in_the_list(model, tmp_path):
    named = {"general.base_model.count": 1, "general.base_model.0.name": "another"}
    odd, plain = write_adapter(tmp_path / "odd.gguf", **named), write_adapter(tmp_path / "plain.gguf")
    with ServerProcess(model, "--lora", f"{odd},{plain}") as server:
        entries = {entry["name"]: entry for entry in server.get("/lora-adapters")[2]}
        [note] = entries["odd"]["notes"]
        assert "another" in note and "notes" not in entries["plain"]
        assert note in server.stop()


def test_names_with_the_base_in_front(model, folder):
    loras = f"x={folder / 'jump.gguf'},base:x={folder / 'skip.gguf'}"
    with ServerProcess(model, "--alias", "base", "--lora", loras, "--lora-init-without-apply") as server:
        def text(name):
            status, _, body = server.post("/completion", {"prompt": "a", "temperature": 0, "model": name})
            return body["content"] if status == 200 else status

        assert text("base") == SPELLED and text("x") == "mnéop" and text("base:base:x") == "p"
        assert text("base:x") == "p"  # the served name stands above base and adapter
        assert text("base:") == text("base:none") == text("x:base") == 404


def test_a_model_card_says_where_it_comes_from(model, folder):
    with ServerProcess(model, "--lora", folder / "jump.gguf") as server:
        base, adapter = server.get("/v1/models")[2]["data"]
        assert base.pop("created") > 0 and adapter.pop("created") > 0
        assert base == {"id": "alphabet", "object": "model", "owned_by": "patchbay", "root": str(model), "parent": None,
                        "max_model_len": 32, "permission": []}
        assert adapter == {"id": "jump", "object": "model", "owned_by": "patchbay", "root": str(folder / "jump.gguf"),
                           "parent": "alphabet", "max_model_len": None, "permission": []}


def test_links_that_lead_out_of_the_folder_are_not_followed(model, folder, tmp_path):
    inside = tmp_path / "adapters"
    inside.mkdir()
    (inside / "out.gguf").symlink_to(folder / "jump.gguf")
    (inside / "deep").symlink_to(folder)
    shutil.copy(folder / "jump.gguf", inside / "real.gguf")
    (inside / "in.gguf").symlink_to(inside / "real.gguf")
    with ServerProcess(model, "--lora-dir", inside) as server:
        def load(name, path):
            return server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})[0]

        for path in ("out.gguf", inside / "out.gguf", "deep/jump.gguf", folder / "jump.gguf"):
            assert load("a", path) == 403
        assert load("e", "in.gguf") == 200
        for name in ("out", "deep/jump", "../jump", "/etc/passwd"):
            assert server.post("/completion", {"prompt": "a", "model": name})[0] in (403, 404), name
        for name in ("a,b", "a\nb", "x" * 257, "../x", "a/../../x", "/x"):
            status, _, body = server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "real.gguf"})
            assert status == 400 and body["error"]["type"] == "InvalidUserInput", name
        for name in ("x" * 256, "team/sql:v2", "naïve ☃"):
            assert load(name, "real.gguf") == 200


def test_an_adapter_that_is_unloaded_stays_with_who_wears_it(long_model, folder):
    with ServerProcess(long_model, "-c", 65536, "--lora-dir", folder) as server:
        body = {"prompt": "p", "model": "round", "temperature": 0, "n_predict": 3000, "stream": True}
        write_adapter(folder / "round.gguf", after="p", say="m")  # mnéopmnéop...
        connection = server.connect()
        connection.request("POST", "/completion", json.dumps(body))
        answer = connection.getresponse()
        said = [answer.readline()]
        assert server.post("/v1/unload_lora_adapter", {"lora_name": "round"})[0] == 200
        (folder / "round.gguf").unlink()
        assert server.post("/completion", {"prompt": "p", "model": "round"})[0] == 404
        assert server.get("/lora-adapters")[2] == []
        said += answer.readlines()
        connection.close()
        events = [json.loads(line.removeprefix(b"data: ")) for line in said if line.startswith(b"data: {")]
        text = "".join(event["content"] for event in events)
        assert ("mnéop" * 700).startswith(text) and len(text) > 2000


def test_an_adapter_is_loaded_once_on_first_use_and_a_miss_is_not_for_ever(model, folder, tmp_path):
    with ServerProcess(model, "--lora-dir", tmp_path) as server:
        def ask(name):
            return server.post("/completion", {"prompt": "a", "temperature": 0, "model": name})[0]

        assert ask("new") == ask("other") == 404
        shutil.copy(folder / "jump.gguf", tmp_path / "new.gguf")
        deadline = time.monotonic() + 10
        while ask("new") == 404:  # the miss is remembered for a moment
            assert time.monotonic() < deadline
            time.sleep(0.05)
        shutil.copy(folder / "skip.gguf", tmp_path / "many.gguf")
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, ["many"] * 16)) == [200] * 16
        assert [(entry["id"], entry["name"]) for entry in server.get("/lora-adapters")[2]] == [(0, "new"), (1, "many")]
        assert "vllm:lora_adapter_load_seconds_count 2\n" in server.get("/metrics")[2]
