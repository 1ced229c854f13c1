"""POST /generate and /generate_stream, in the dialects of TGI, LoRAX and SGLang."""

import json

import pytest

from fixtures import folder, model  # noqa: F401
from server_process import ServerProcess

from alphabet_model import SPELLED  # noqa: E402


@pytest.fixture(scope="module")
def server(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as running:
        yield running


def tgi(**parameters):
    return {"inputs": "a", "parameters": {"max_new_tokens": 30} | parameters}


def test_tgi_answers_with_its_text(server):
    assert server.post("/generate", tgi())[::2] == (200, {"generated_text": SPELLED})
    assert server.post("/generate", tgi(return_full_text=True))[2] == {"generated_text": "a" + SPELLED}
    assert server.post("/generate", {"inputs": "a"})[2] == {"generated_text": SPELLED}
    assert server.post("/generate", tgi(stop=["fg"]))[2] == {"generated_text": "bcde"}
    assert server.post("/generate", tgi(do_sample=True, temperature=0.01, seed=3))[0] == 200


def test_tgi_tells_details_when_asked(server):
    details = server.post("/generate", tgi(max_new_tokens=2, details=True, seed=7))[2]["details"]
    assert (details["finish_reason"], details["generated_tokens"], details["seed"]) == ("length", 2, 7)
    assert [token["text"] for token in details["tokens"]] == ["b", "c"] and details["tokens"][0]["id"] == 1
    assert all(token["logprob"] <= 0 and not token["special"] for token in details["tokens"])
    assert server.post("/generate", tgi(details=True))[2]["details"]["finish_reason"] == "eos_token"
    assert server.post("/generate", tgi(details=True, stop=["d"]))[2]["details"]["finish_reason"] == "stop_sequence"


def test_tgi_streams_tokens_and_all_of_the_text_at_the_end(server):
    for path, body in (("/generate_stream", tgi()), ("/generate", tgi() | {"stream": True})):
        events = [json.loads(event) for event in server.events(path, body)]
        assert [event["index"] for event in events] == list(range(1, len(events) + 1))
        assert [event["generated_text"] for event in events] == [None] * (len(events) - 1) + [SPELLED]
        assert events[0]["token"]["text"] == "b" and events[-1]["token"]["special"]
        assert events[-1]["details"]["finish_reason"] == "eos_token" and events[0]["details"] is None
    [event] = [json.loads(event) for event in server.events("/generate_stream", tgi(max_new_tokens=0))]
    assert event["generated_text"] == "" and event["token"] is None


def test_adapters_by_every_name_that_dialects_have(server):
    status, headers, body = server.post("/generate", tgi(adapter_id="jump"))
    assert body["generated_text"].startswith("m") and headers["x-adapter-id"] == "jump"
    sglang = {"text": "a", "sampling_params": {"temperature": 0}}
    assert server.post("/generate", sglang | {"lora_path": "skip"})[2]["text"].startswith("p")
    assert server.post("/generate", sglang | {"lora_path": None})[2]["text"] == SPELLED
    tensorrt = {"prompt": "a", "temperature": 0, "max_tokens": 5}
    for wish in ({"lora_request": {"lora_name": "jump", "lora_int_id": 1}}, {"adapter_id": "jump"}, {"lora_path": "jump"},
                 {"adapter_id": "jump", "model": "jump"}, {"adapter_id": "jump", "lora": [{"name": "jump", "scale": 1}]}):
        assert server.post("/v1/completions", tensorrt | wish)[2]["choices"][0]["text"].startswith("m"), wish
    for wish, status in (({"adapter_id": "none"}, 404), ({"lora_path": "/etc/passwd"}, 404), ({"lora_path": 3}, 400),
                         ({"adapter_id": "jump", "lora_path": "skip"}, 400), ({"adapter_id": "jump", "model": "skip"}, 400),
                         ({"lora_request": "jump"}, 400), ({"adapter_id": "jump", "lora": []}, 400)):
        assert server.post("/v1/completions", tensorrt | wish)[0] == status, wish


def test_sglang_answers_with_its_text(server):
    body = {"text": "a", "sampling_params": {"temperature": 0, "max_new_tokens": 30}}
    answer = server.post("/generate", body)[2]
    assert answer["text"] == SPELLED
    info = answer["meta_info"]
    assert info["finish_reason"]["type"] == "stop" and info["prompt_tokens"] == 1 and info["completion_tokens"] == 16
    short = server.post("/generate", body | {"sampling_params": {"temperature": 0, "max_new_tokens": 2}})[2]
    assert short["text"] == "bc" and short["meta_info"]["finish_reason"] == {"type": "length", "length": 2}
    assert server.post("/generate", {"input_ids": [0], "sampling_params": {"temperature": 0}})[2]["text"] == SPELLED
    logprobs = server.post("/generate", body | {"return_logprob": True})[2]["meta_info"]["output_token_logprobs"]
    assert logprobs[0][0] <= 0 and logprobs[0][1] == 1
    many = server.post("/generate", body | {"sampling_params": {"temperature": 0, "n": 2, "max_new_tokens": 1}})[2]
    assert [one["text"] for one in many] == ["b", "b"]


def test_sglang_streams_all_of_the_text_in_every_event(server):
    body = {"text": "a", "sampling_params": {"temperature": 0, "max_new_tokens": 30}, "stream": True}
    events = server.events("/generate", body)
    assert events[-1] == "[DONE]"
    texts = [json.loads(event)["text"] for event in events[:-1]]
    assert texts[-1] == SPELLED and all(SPELLED.startswith(text) for text in texts)
    assert json.loads(events[-2])["meta_info"]["finish_reason"]["type"] == "stop"
    assert json.loads(events[0])["meta_info"]["finish_reason"] is None


@pytest.mark.parametrize("body", [
    {}, {"inputs": 3}, {"inputs": ""}, {"inputs": "a", "parameters": []}, {"inputs": "a", "parameters": {"max_new_tokens": -1}},
    {"inputs": "a", "parameters": {"temperature": "hot"}}, {"inputs": "a", "parameters": {"details": 1}}, {"text": ["a", "b"]},
    {"text": 3}, {"input_ids": "a", "sampling_params": 3}, {"text": "a", "sampling_params": {"n": 0}}])
def test_what_is_wrong_is_refused(server, body):
    status, _, answer = server.post("/generate", body)
    assert status == 400 and answer["error"]["message"], body
