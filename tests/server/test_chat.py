"""Chats over HTTP: messages in, messages out, on a model that says what the tests wrote down."""

import json
import socket
import sys
import time
from pathlib import Path

import pytest

from server_process import ServerProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from command import patchbay, refusal  # noqa: E402
from script_model import write_script_model  # noqa: E402

CHAT = "/v1/chat/completions"
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather at a place.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}
NOW = {"type": "function", "function": {"name": "now"}}
TEMPLATE = ("{% for m in messages %}{% if m.content == 'boom' %}{{ raise_exception('no boom here') }}{% endif %}"
            "{{ m.content }}{% endfor %}{{ suffix }}{# tools tool_calls <tool_call> arguments #}")
ROME = '{"name": "weather", "arguments": {"place": "Rome"}}'
SCRIPTS = {
    "h": ["Hel", "lo", " wor", "ld"],
    "u": [b"\xc3", b"\xa9 ", b"\xf0\x9f", b"\x99", b"\x82", " ok", b"\xe2\x82"],
    "t": ["Let me", " see.\n\n<tool", "_call>\n{\"na", 'me": "weather", "argu', 'ments": {"place": "Z', b"\xc3", b"\xbcrich\"}", "}\n</tool_",
          "call>\n<tool_call>", ROME, "</tool_call>\n"],
    "m": ["<tool_call>", '{"name": "weather", "arguments": {"place": }}', "</tool_call>"],
    "o": ["<tool_call>", '{"name": "other", "arguments": {}}', "</tool_call>"],
    "l": ['{"name": "wea', 'ther", "parameters": ', '{"place": "Rome"}', "}"],
    "j": ['{"name": "Bob", ', '"age": 3}'],
    "x": [f"{i:03} " for i in range(400)],
}


def scripted(letter):
    return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in SCRIPTS[letter]).decode(errors="replace")


def say(letter, **changes):
    return {"messages": [{"role": "user", "content": letter}], "temperature": 0} | changes


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_script_model(tmp_path_factory.mktemp("model") / "script.gguf", SCRIPTS, TEMPLATE)


@pytest.fixture(scope="module")
def server(model):
    with ServerProcess(model) as running:
        yield running


def ask(server, letter, **changes):
    status, _, body = server.post(CHAT, say(letter, **changes))
    assert status == 200, body
    return body["choices"][0]


def refused(server, body, path=CHAT):
    status, _, answer = server.post(path, body)
    assert status == 400, answer
    return answer["error"]["message"]


def streamed(server, letter, **changes):
    """The chunks of a stream, checked for what all of them have."""
    events = server.events(CHAT, say(letter, stream=True, **changes))
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1 and {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    return chunks


def joined(chunks, index=0):
    """What the deltas of one choice make when they are put together, as a choice of a whole answer."""
    message, reason, calls = {"role": None, "content": ""}, None, []
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            assert reason is None
            reason = choice["finish_reason"]
            delta = choice["delta"]
            if "role" in delta:
                assert message["role"] is None and not message["content"]
                message["role"] = delta["role"]
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls", []):
                if part["index"] == len(calls):
                    assert part["id"] and part["type"] == "function" and part["function"]["arguments"] == ""
                    calls.append({"name": part["function"]["name"], "arguments": ""})
                calls[part["index"]]["arguments"] += part["function"]["arguments"]
    return message | {"calls": calls}, reason


def parts_of(choice):
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return {"role": message["role"], "content": message["content"] or "", "calls": calls}, choice["finish_reason"]


# Answers


def test_an_answer_is_a_message(server):
    status, headers, body = server.post(CHAT, say("h"))
    assert status == 200 and body["object"] == "chat.completion" and body["id"].startswith("chatcmpl-")
    assert body["choices"] == [{"index": 0, "message": {"role": "assistant", "content": "Hello world", "refusal": None},
                                "logprobs": None, "finish_reason": "stop"}]
    assert body["usage"] | {"prompt_tokens_details": None} == {
        "prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6, "prompt_tokens_details": None}
    assert "x-adapter-id" not in headers
    assert server.post("/chat/completions", say("h"))[2]["choices"] == body["choices"]


@pytest.mark.parametrize("letter", SCRIPTS)
@pytest.mark.parametrize("changes", [{}, {"n": 3}, {"max_tokens": 3}, {"stop": ["lo w", "l\"}"]}, {"tools": [WEATHER]},
                                     {"tools": [WEATHER], "stop": ["\"Z"], "n": 2}, {"tools": [WEATHER], "max_completion_tokens": 4}],
                         ids=lambda changes: ",".join(changes))
def test_a_stream_is_the_same_answer_in_parts(server, letter, changes):
    status, _, body = server.post(CHAT, say(letter, **changes))
    assert status == 200, body
    chunks = streamed(server, letter, stream_options={"include_usage": True}, **changes)
    usage = chunks.pop()
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == body["usage"]["completion_tokens"]
    assert all(chunk["usage"] is None for chunk in chunks)
    for choice in body["choices"]:
        assert joined(chunks, choice["index"]) == parts_of(choice)
    assert len(body["choices"]) == changes.get("n", 1)


def test_characters_that_are_split_over_tokens_stay_whole(server):
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in streamed(server, "u")]
    assert "".join(deltas) == "é 🙂 ok�" and not any("�" in delta for delta in deltas[:-2])


def test_every_token_has_its_logprob(server):
    whole = ask(server, "h", logprobs=True, top_logprobs=2)["logprobs"]["content"]
    assert [entry["token"] for entry in whole] == ["Hel", "lo", " wor", "ld", ""]
    assert all(entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 2 for entry in whole)
    assert bytes(whole[2]["bytes"]) == b" wor"
    chunks = streamed(server, "h", logprobs=True, top_logprobs=2)
    parts = [entry for chunk in chunks if chunk["choices"][0]["logprobs"] for entry in chunk["choices"][0]["logprobs"]["content"]]
    assert parts == whole
    held = streamed(server, "t", logprobs=True, tools=[WEATHER])
    n_entries = sum(len(chunk["choices"][0]["logprobs"]["content"]) for chunk in held if chunk["choices"][0]["logprobs"])
    assert n_entries == len(SCRIPTS["t"]) + 1
    assert ask(server, "h", logprobs=True)["logprobs"]["content"][0]["top_logprobs"] == []


def test_text_parts_are_one_text(server):
    parts = [{"type": "text", "text": ""}, {"type": "text", "text": "h"}]
    assert ask(server, parts)["message"]["content"] == "Hello world"


def test_a_limit_ends_an_answer(server):
    assert ask(server, "h", max_tokens=2)["finish_reason"] == "length"
    assert ask(server, "h", max_tokens=1, max_completion_tokens=2)["message"]["content"] == "Hello"
    choice = ask(server, "x")
    assert choice["finish_reason"] == "stop" and choice["message"]["content"] == scripted("x")


# What is asked wrongly


@pytest.mark.parametrize(("changes", "word"), [
    ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": "h"}, "messages"), ({"messages": [3]}, "messages[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"), ({"messages": [{"content": "h"}]}, "messages[0].role"),
    ({"messages": [{"role": "critic", "content": "h"}]}, "critic"), ({"messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "image_url"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
    ({"messages": [{"role": "user", "content": ["h"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": "boom"}]}, "no boom here"),
    ({"messages": [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}, "arguments"),
    ({"messages": [{"role": "assistant", "content": None, "tool_calls": 3}]}, "tool_calls"),
    ({"tools": {}}, "tools"), ({"tools": "x"}, "tools"), ({"tools": [3]}, "tools[0]"), ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"), ({"tools": [NOW, NOW]}, "twice"),
    ({"tool_choice": "required"}, "no tools"), ({"tools": [NOW], "tool_choice": "maybe"}, "tool_choice"),
    ({"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "'x'"),
    ({"tools": [NOW], "tool_choice": {"type": "custom"}}, "tool_choice"), ({"tools": [NOW], "tool_choice": 5}, "tool_choice"),
    ({"tools": [NOW], "parallel_tool_calls": "no"}, "parallel_tool_calls"), ({"functions": []}, "functions"),
    ({"tools": [NOW], "response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": "json"}, "response_format"), ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "json_schema"), ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "schema"),
    ({"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""}, "exclude"), ({"grammar": "root ::= a"}, "line 1"),
    ({"grammar": 3}, "grammar"), ({"json_schema": {"not": {}}}, "#/not"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"uniqueItems": True}}}}}}, "#/properties/a/uniqueItems"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"if": {}}}}}}], "tool_choice": "required"},
     "tools[0].function.parameters: json_schema: #/properties/a/if"),
    ({"logprobs": 3}, "logprobs"), ({"top_logprobs": 2}, "logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"max_tokens": "x"}, "max_tokens"), ({"max_completion_tokens": 1.5}, "max_completion_tokens"), ({"n": 0}, "n"), ({"n": 4000}, "n"),
    ({"stream": 1}, "stream"), ({"stream_options": 3}, "stream_options"), ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"messages": []}}, "messages"), ({"continue_final_message": True, "add_generation_prompt": True}, "exclude"),
    ({"model": 3}, "model")])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_named(server, changes, word, stream):
    assert word in refused(server, {"stream": stream} | say("h", **changes))
    assert server.get("/health")[0] == 200


def test_huge_chats_are_too_long_and_nothing_else(server):
    status, _, body = server.post(CHAT, say("h" * 500_000))
    assert status == 400 and "500000" in body["error"]["message"]
    many = [{"role": "user", "content": "h"}] * 20_000
    status, _, body = server.post(CHAT, {"messages": many})
    assert status == 400 and body["error"]["message"]
    deep = '{"messages": [{"role": "user", "content": ' + "[" * 5000 + "]" * 5000 + "}]}"
    assert server.post(CHAT, deep)[0] == 400
    assert ask(server, "h")["message"]["content"] == "Hello world"


def test_clients_that_go_away_leave_nothing_behind(model):
    with ServerProcess(model) as server:
        n_before = server.n_descriptors()
        body = json.dumps(say("x", stream=True, n=4)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for n_read in (0, 1, 200):
            for _ in range(4):
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.sendall(head + body)
                    if n_read:
                        connection.recv(n_read)
        assert ask(server, "h")["message"]["content"] == "Hello world"
        deadline = time.monotonic() + 10
        while server.n_descriptors() > n_before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.n_descriptors() <= n_before


# Calls of tools


def test_calls_are_told_from_text(server):
    message, reason = parts_of(ask(server, "t", tools=[WEATHER]))
    assert reason == "tool_calls" and message["content"] == "Let me see."
    assert [(call["name"], json.loads(call["arguments"])) for call in message["calls"]] == [
        ("weather", {"place": "Zürich"}), ("weather", {"place": "Rome"})]
    calls = ask(server, "t", tools=[WEATHER])["message"]["tool_calls"]
    assert len({call["id"] for call in calls}) == 2 and all(call["type"] == "function" for call in calls)


@pytest.mark.parametrize("changes", [{}, {"tools": [WEATHER], "tool_choice": "none"}, {"tools": []}])
def test_without_tools_calls_are_text(server, changes):
    assert parts_of(ask(server, "t", **changes)) == ({"role": "assistant", "content": scripted("t"), "calls": []}, "stop")


def test_what_is_no_call_stays_text(server):
    for letter in "mo":
        assert parts_of(ask(server, letter, tools=[WEATHER])) == (
            {"role": "assistant", "content": scripted(letter), "calls": []}, "stop")


def test_a_stop_string_inside_a_call_leaves_text(server):
    message, reason = parts_of(ask(server, "t", tools=[WEATHER], stop="rich"))
    assert reason == "stop" and not message["calls"]
    assert message["content"] == scripted("t")[:scripted("t").index("rich")]


def test_one_call_where_no_more_are_wanted(server):
    message, _ = parts_of(ask(server, "t", tools=[WEATHER], parallel_tool_calls=False))
    assert len(message["calls"]) == 1 and ROME in message["content"]


def test_the_style_of_calls_can_be_said(model):
    with ServerProcess(model, "--tool-call-parser", "llama3") as server:
        message, reason = parts_of(ask(server, "l", tools=[WEATHER]))
        assert reason == "tool_calls" and message["calls"] == [{"name": "weather", "arguments": '{"place": "Rome"}'}] and not message["content"]
        assert parts_of(ask(server, "j", tools=[WEATHER]))[0]["content"] == scripted("j")
    with ServerProcess(model, "--tool-call-parser", "none") as server:
        assert parts_of(ask(server, "t", tools=[WEATHER]))[0]["content"] == scripted("t")
        assert "--tool-call-parser" in refused(server, say("t", tools=[WEATHER], tool_choice="required"))


@pytest.mark.parametrize(("middle", "calls"), [('{"name": "now", "arguments": {}}', [{"name": "now", "arguments": "{}"}]), ('{"name": "now"', [])])
def test_tags_that_are_control_tokens_are_read(tmp_path, middle, calls):
    tags = ("<tool_call>", "</tool_call>")
    model = write_script_model(tmp_path / "control.gguf", {"c": [tags[0], middle, tags[1]]}, TEMPLATE, control=tags)
    with ServerProcess(model) as server:
        message, reason = parts_of(ask(server, "c", tools=[NOW]))
        assert message["calls"] == calls and message["content"] == ("" if calls else tags[0] + middle + tags[1])
        assert reason == ("tool_calls" if calls else "stop")
        assert ask(server, "c")["message"]["content"] == middle


@pytest.mark.parametrize(("style", "choice"), [("hermes", "required"), ("llama3", "required"),
                                               ("hermes", {"type": "function", "function": {"name": "now"}})])
@pytest.mark.parametrize("stream", [False, True])
def test_calls_can_be_a_must(model, style, choice, stream):
    """The model has other plans."""
    tool = {"type": "function", "function": {"name": "pick", "parameters": {
        "type": "object", "properties": {"size": {"enum": ["S", "M"]}}, "required": ["size"]}}}
    with ServerProcess(model, "--tool-call-parser", style) as server:
        changes = {"tools": [tool, NOW], "tool_choice": choice, "parallel_tool_calls": False}
        message, reason = joined(streamed(server, "h", **changes)) if stream else parts_of(ask(server, "h", **changes))
        assert reason == "tool_calls" and not message["content"] and len(message["calls"]) == 1
        call = message["calls"][0]
        arguments = json.loads(call["arguments"])
        assert (call["name"], arguments) == ("now", {}) or (call["name"] == "pick" and arguments["size"] in ("S", "M"))
        assert isinstance(choice, str) or call["name"] == "now"


# Forms


@pytest.mark.parametrize(("path", "body"), [(CHAT, {"messages": [{"role": "user", "content": "h"}]}),
                                            ("/v1/completions", {"prompt": "h"}), ("/completion", {"prompt": "h"})])
@pytest.mark.parametrize("form", [
    {"grammar": 'root ::= "{\\"a\\": 1}"'}, {"json_schema": {"const": {"a": 1}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {
        "type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}}}},
    {"response_format": {"type": "json_object", "schema": {"const": {"a": 1}}}}])
def test_answers_are_of_the_form_that_is_asked_for(server, path, body, form):
    status, _, answer = server.post(path, body | form | {"temperature": 0, "max_tokens": 40, "n_predict": 40})
    assert status == 200, answer
    choice = answer if path == "/completion" else answer["choices"][0]
    text = choice.get("content") or choice.get("text") or choice["message"]["content"]
    assert json.loads(text) == {"a": 1}


def test_text_is_no_form(server):
    assert ask(server, "h", response_format={"type": "text"})["message"]["content"] == "Hello world"
    assert ask(server, "h", response_format={"type": "json_object"}, max_tokens=5)["message"]["content"].startswith("{")


# Templates


def test_a_template_sees_the_requests_variables(server):
    prompt = server.post("/apply-template", say("h", chat_template_kwargs={"suffix": "!"}))[2]
    assert prompt == {"prompt": "h!"}
    assert refused(server, say("boom"), "/apply-template") == "no boom here"
    assert server.post("/apply-template", say("h", model="none"))[0] == 404


def test_an_answer_goes_on_with_the_last_message(model):
    with ServerProcess(model, "--chat-template", "chatml") as server:
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b h"}]
        asked = {"messages": messages, "temperature": 0, "continue_final_message": True}
        assert server.post("/apply-template", asked)[2]["prompt"].endswith("assistant\nb h")
        assert server.post(CHAT, asked)[2]["choices"][0]["message"]["content"] == "Hello world"
        assert server.post("/apply-template", asked | {"continue_final_message": False})[2]["prompt"].endswith("assistant\n")
        assert server.get("/props")[2]["chat_template"].count("im_start") == 2


def test_a_model_without_a_template_says_the_way_out(tmp_path):
    model = write_script_model(tmp_path / "mute.gguf", {"h": ["Hi"]}, template=None)
    with ServerProcess(model) as server:
        assert "--chat-template" in refused(server, say("h"))
        assert server.get("/props")[2]["chat_template"] == ""
        assert server.post("/v1/completions", {"prompt": "h", "temperature": 0})[2]["choices"][0]["text"] == "Hi"
    text = tmp_path / "template.jinja"
    text.write_text("{{ messages[0].content }}")
    for flags in (["--chat-template-file", text], ["--chat-template", "{{ messages[0].content }}"]):
        with ServerProcess(model, *flags) as server:
            assert ask(server, "h")["message"]["content"] == "Hi"
    chatml = write_script_model(tmp_path / "chatml.gguf", {"h": ["Hi"], "q": ["<|im_start|>", "<|im_end|>"]}, template=None,
                                control=("<|im_start|>", "<|im_end|>"))
    with ServerProcess(chatml) as server:
        assert server.post("/apply-template", say("h"))[2]["prompt"] == "<|im_start|>user\nh<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_that_cannot_be_read(model, tmp_path):
    broken = write_script_model(tmp_path / "broken.gguf", {"h": ["Hi"]}, template="{% include 'x' %}")
    with ServerProcess(broken) as server:
        message = refused(server, say("h"))
        assert "include" in message and "--chat-template" in message
    assert "chatml" in refusal(patchbay("serve", "-m", model, "--port", 0, "--chat-template", "nonsense"), 2)
    assert "cannot be read" in refusal(patchbay("serve", "-m", model, "--port", 0, "--chat-template", "{% if %}"), 1)
    assert refusal(patchbay("serve", "-m", model, "--port", 0, "--chat-template-file", tmp_path / "none"), 1)
    assert refusal(patchbay("serve", "-m", model, "--port", 0, "--tool-call-parser", "x"), 2)


def test_tools_that_a_template_would_not_show_are_refused(tmp_path):
    model = write_script_model(tmp_path / "plain.gguf", {"h": ["Hi"]})
    with ServerProcess(model) as server:
        assert "tools" in refused(server, say("h", tools=[NOW]))
        assert ask(server, "h", tools=[NOW], tool_choice="none")["message"]["content"] == "Hi"


def test_tokens_as_llama_server_tells_them(server):
    _, _, body = server.post("/tokenize", {"content": "é<eos>", "with_pieces": True})
    assert [token["piece"] for token in body["tokens"]] == [[0xC3], [0xA9], "<eos>"]
    assert len(server.post("/tokenize", {"content": "<eos>", "parse_special": False})[2]["tokens"]) == 5
    assert server.get("/props")[2]["eos_token"] == "<eos>"
