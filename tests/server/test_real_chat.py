"""Chats on real models: prompts as transformers would make them, answers as completions of those prompts."""

import json
import os
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest

from server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/templates"))

from reference import render  # noqa: E402

SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = ROOT / "models/gemma-3-270m-q4_k_m.gguf"
CHAT = "/v1/chat/completions"
CHATS = {
    "question": [{"role": "user", "content": "What is the capital of France?"}],
    "system": [{"role": "system", "content": "Be brief. "}, {"role": "user", "content": "Hi <|im_end|> <start_of_turn> <bos> <s>"}],
    "turns": [{"role": "user", "content": " One\n\n"}, {"role": "assistant", "content": "Two 👩‍👩‍👧"}, {"role": "user", "content": "日本語 é"}],
    "empty": [{"role": "user", "content": ""}],
}


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """pirate, and the same with a template of its own, and with one that cannot be read."""
    folder = tmp_path_factory.mktemp("adapters")
    for name in ("pirate", "spoken", "broken"):
        shutil.copytree(ROOT / "examples/adapters/pirate", folder / name)
    (folder / "spoken/chat_template.jinja").write_text("SPOKEN: {{ messages[-1].content }}")
    (folder / "broken/chat_template.jinja").write_text("{% include 'x' %}")
    return folder


@pytest.fixture(scope="module")
def smollm2(adapters):
    with ServerProcess(SMOLLM2, "--lora-dir", adapters) as running:
        yield running


@pytest.fixture(scope="module")
def gemma():
    with ServerProcess(GEMMA, "--chat-template-file", ROOT / "tests/templates/families/gemma3.jinja") as running:
        yield running


def prompt_of(server, **asked):
    status, _, body = server.post("/apply-template", asked)
    assert status == 200, body
    return body["prompt"]


def tokens_of(server, text):
    return server.post("/tokenize", {"content": text, "add_special": False})[2]["tokens"]


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize("model", ["smollm2", "gemma"])
def test_prompts_are_those_of_transformers(request, model, name):
    server = request.getfixturevalue(model)
    props = server.get("/props")[2]
    wanted = render({"template": props["chat_template"], "messages": CHATS[name],
                     "context": {"add_generation_prompt": True, "bos_token": props["bos_token"], "eos_token": props["eos_token"]}})
    assert prompt_of(server, messages=CHATS[name]) == wanted
    ids = tokens_of(server, wanted)
    whole = server.post(CHAT, {"messages": CHATS[name], "temperature": 0, "max_tokens": 8})[2]
    assert whole["usage"]["prompt_tokens"] == len(ids)
    # The prompt's ids are these: the same answer follows on them, without BOS once more.
    same = server.post("/v1/completions", {"prompt": ids, "temperature": 0, "max_tokens": 8})[2]
    assert whole["choices"][0]["message"]["content"] == same["choices"][0]["text"]
    if model == "gemma":
        assert ids.count(ids[0]) == 1 + CHATS[name][-1]["content"].count("<bos>")


def test_the_built_in_gemma_is_gemmas(gemma):
    with ServerProcess(GEMMA, "--chat-template", "gemma") as server:
        for chat in CHATS.values():
            assert prompt_of(server, messages=chat) == prompt_of(gemma, messages=chat)


def test_a_chat_with_an_adapter_is_the_completion_of_its_prompt(smollm2):
    chat = CHATS["question"]
    prompt = prompt_of(smollm2, messages=chat)
    texts = set()
    for model in (None, "pirate"):
        named = {} if model is None else {"model": model}
        status, headers, body = smollm2.post(CHAT, {"messages": chat, "temperature": 0, "max_tokens": 24} | named)
        assert status == 200 and headers.get("x-adapter-id") == model
        text = body["choices"][0]["message"]["content"]
        done = smollm2.post("/completion", {"prompt": prompt, "temperature": 0, "n_predict": 24, "repeat_penalty": 1,
                                            "lora": [] if model is None else [{"name": model}]})[2]
        assert done["content"] == text
        listed = smollm2.post(CHAT, {"messages": chat, "temperature": 0, "max_tokens": 24, "lora": [] if model is None else [{"name": model, "scale": 1}]})
        assert listed[2]["choices"][0]["message"]["content"] == text
        texts.add(text)
    assert len(texts) == 2


def test_an_adapters_own_template_speaks_when_it_is_the_model(smollm2, adapters):
    chat = CHATS["question"]
    base = prompt_of(smollm2, messages=chat)
    assert prompt_of(smollm2, messages=chat, model="spoken") == "SPOKEN: " + chat[-1]["content"]
    assert prompt_of(smollm2, messages=chat, lora=[{"name": "spoken"}]) == base == prompt_of(smollm2, messages=chat, model="pirate")
    status, _, body = smollm2.post(CHAT, {"messages": chat, "model": "broken"})
    assert status == 400 and "include" in body["error"]["message"] and "--no-adapter-chat-templates" in body["error"]["message"]
    assert smollm2.post("/v1/completions", {"prompt": "a", "model": "broken", "max_tokens": 1})[0] == 200
    with ServerProcess(SMOLLM2, "--lora-dir", adapters, "--no-adapter-chat-templates") as server:
        assert prompt_of(server, messages=chat, model="spoken") == prompt_of(server, messages=chat, model="broken") == base


def test_calls_that_are_a_must_fit_their_schema():
    tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather at a place", "parameters": {
        "type": "object", "properties": {"place": {"type": "string", "maxLength": 30}, "unit": {"enum": ["C", "F"]}, "days": {"$ref": "#/$defs/n"}},
        "required": ["place", "unit"], "additionalProperties": False, "$defs": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
    for style in ("hermes", "llama3"):
        with ServerProcess(SMOLLM2, "--chat-template", style) as server:
            for seed in range(3):
                status, _, body = server.post(CHAT, {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [tool],
                                                     "tool_choice": "required", "parallel_tool_calls": False, "seed": seed, "max_tokens": 200})
                assert status == 200, body
                call, = body["choices"][0]["message"]["tool_calls"]
                jsonschema.validate(json.loads(call["function"]["arguments"]), tool["function"]["parameters"])


def test_the_models_are_there():
    for path in (SMOLLM2, GEMMA):
        assert os.path.getsize(path) > 1e6, "scripts/setup --dev fetches it"
