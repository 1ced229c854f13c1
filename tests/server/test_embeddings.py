"""Embeddings over HTTP, beside what is known of the model that spells."""

import base64
import json
import socket

import numpy as np
import pytest

from fixtures import folder, model  # noqa: F401
from server_process import ServerProcess

from alphabet_model import N_EMBD, TOKENS, metadata, tensors, tokenizer, write_adapter  # noqa: E402
from gguf_writer import write_gguf  # noqa: E402


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """With an adapter of a layer: those of the head change no hidden state."""
    adapters = tmp_path_factory.mktemp("adapters")
    a, b = np.ones((1, N_EMBD), np.float32), np.arange(N_EMBD, dtype=np.float32)[:, None]
    layer = {"blk.0.attn_v.weight.lora_a": a, "blk.0.attn_v.weight.lora_b": b,
             "blk.0.attn_output.weight.lora_a": a, "blk.0.attn_output.weight.lora_b": b}
    keys = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 1.0}
    write_gguf(adapters / "layer.gguf", keys, layer)
    write_gguf(adapters / "alora.gguf", keys | {"adapter.alora.invocation_tokens": [2]}, layer)
    write_adapter(adapters / "head.gguf")
    with ServerProcess(model, "--lora-dir", adapters) as running:
        yield running


def unit(letters):
    """The mean of the embeddings, which the final norm leaves as they are, of length one."""
    vector = np.zeros(N_EMBD)
    for letter in letters:
        vector[TOKENS.index(letter)] += 1
    return vector / np.linalg.norm(vector)


def embed(server, body, **headers):
    status, answer_headers, answer = server.post("/v1/embeddings", body, **headers)
    assert status == 200, answer
    return [item["embedding"] for item in answer["data"]], answer, answer_headers


def test_texts_ids_and_lists_of_them(server):
    vectors, answer, _ = embed(server, {"input": "abb", "model": "alphabet"})
    assert answer["object"] == "list" and answer["model"] == "alphabet"
    assert answer["data"][0] | {"embedding": 0} == {"object": "embedding", "index": 0, "embedding": 0}
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert np.allclose(vectors[0], unit("abb"), atol=1e-5)
    for many in (["a", "abb", "a"], [[0], [0, 1, 1], "a"]):
        vectors, answer, _ = embed(server, {"input": many})
        assert [item["index"] for item in answer["data"]] == [0, 1, 2] and answer["usage"]["prompt_tokens"] == 5
        assert np.allclose(vectors, [unit("a"), unit("abb"), unit("a")], atol=1e-5)
    assert np.allclose(embed(server, {"input": [0, 1, 1]})[0][0], unit("abb"), atol=1e-5)


def test_base64_is_the_same_to_the_bit(server):
    plain = embed(server, {"input": ["abc", "q"], "encoding_format": "float"})[0]
    packed = embed(server, {"input": ["abc", "q"], "encoding_format": "base64"})[0]
    for one, other in zip(plain, packed, strict=True):
        assert np.array_equal(np.float32(one), np.frombuffer(base64.b64decode(other), "<f4"))


def test_batched_equals_alone(server):
    texts = [TOKENS[i % 10] * (1 + i % 7) + "abc"[: i % 4] for i in range(100)]
    together = embed(server, {"input": texts})[0]
    assert together == [embed(server, {"input": text})[0][0] for text in texts]


def test_adapters_change_vectors_where_they_act(server):
    base = embed(server, {"input": "abcab"})[0][0]
    layer, _, headers = embed(server, {"input": "abcab", "model": "layer"})
    assert headers["x-adapter-id"] == "layer" and not np.allclose(layer[0], base, atol=1e-3)
    assert embed(server, {"input": "abcab", "lora": [{"name": "layer", "scale": 0}]})[0][0] == base
    head, answer, _ = embed(server, {"input": "abcab", "model": "head"})
    assert head[0] == base and answer["model"] == "head"


def test_an_alora_acts_from_its_invocation_on(server):
    base = server.post("/embedding", {"content": "ababcab"})[2][0]["embedding"]
    alora, _, headers = embed(server, {"input": ["ababcab", "abab"], "model": "alora"})
    assert headers["x-adapter-id"] == "alora"
    assert not np.allclose(alora[0], base[0], atol=1e-3)
    assert alora[1] == embed(server, {"input": "abab"})[0][0]
    _, _, headers = embed(server, {"input": "abab", "model": "alora"})
    assert "x-adapter-id" not in headers


def test_llama_servers_route(server):
    for path in ("/embedding", "/embeddings"):
        for field in ("content", "input"):
            status, _, answer = server.post(path, {field: "abb"})
            assert status == 200 and [item["index"] for item in answer] == [0]
            assert np.allclose(answer[0]["embedding"], [unit("abb")], atol=1e-5)
    plain = np.array(server.post("/embedding", {"content": "abb", "embd_normalize": -1})[2][0]["embedding"][0])
    most = np.array(server.post("/embedding", {"content": "abb", "embd_normalize": 0})[2][0]["embedding"][0])
    assert np.allclose(plain / np.linalg.norm(plain), unit("abb"), atol=1e-5) and np.isclose(np.abs(most).max(), 32760)
    assert [len(item["embedding"]) for item in server.post("/embedding", {"content": ["a", "b"]})[2]] == [1, 1]


def test_pooling_is_chosen_by_flag_or_by_the_model(model, tmp_path):
    def vector(server):
        return server.post("/v1/embeddings", {"input": "abc"})[2]["data"][0]["embedding"]

    for pooling, letters in (("mean", "abc"), ("cls", "a"), ("last", "c")):
        with ServerProcess(model, "--pooling", pooling) as server:
            assert np.allclose(vector(server), unit(letters), atol=1e-5)
            assert vector(server) == vector(server)
    path = write_gguf(tmp_path / "last.gguf", metadata() | tokenizer() | {"llama.pooling_type": 3}, tensors())
    with ServerProcess(path) as server:
        assert np.allclose(vector(server), unit("c"), atol=1e-5)
    with ServerProcess(path, "--pooling", "none") as server:
        rows = server.post("/embedding", {"content": "abc"})[2][0]["embedding"]
        assert np.allclose([row / np.linalg.norm(row) for row in rows], [unit("a"), unit("b"), unit("c")], atol=1e-5)
        assert np.linalg.norm(rows[0]) > 2
        status, _, body = server.post("/v1/embeddings", {"input": "abc"})
        assert status == 400 and "none" in body["error"]["message"]


def test_what_the_prefix_cache_holds_changes_no_vector(server):
    text = "abcdefgh" * 4
    alone = embed(server, {"input": text[:30]})[0]
    server.post("/v1/completions", {"prompt": text[:30], "max_tokens": 1})
    assert embed(server, {"input": text[:30]})[0] == alone


@pytest.mark.parametrize("changes", [
    {"input": None}, {"input": ""}, {"input": []}, {"input": ["a", ""]}, {"input": [[]]}, {"input": {}}, {"input": 3},
    {"input": [1.5]}, {"input": [[0], [-1]]}, {"input": ["a", 3]}, {"input": ["a"] * 2049}, {"encoding_format": "hex"},
    {"dimensions": 3}, {"dimensions": "all"}, {"model": 3}, {"lora": "x"}])
def test_what_is_wrong_is_named(server, changes):
    status, _, body = server.post("/v1/embeddings", {"input": "a"} | changes)
    assert status == 400 and body["error"]["type"] == "BadRequestError", body
    assert next(iter(changes)) in body["error"]["message"]


def test_ids_and_lengths_that_cannot_be(server):
    assert server.post("/v1/embeddings", {"input": [999]})[0] == 400
    assert embed(server, {"input": [0], "dimensions": N_EMBD})[0]
    status, _, body = server.post("/embedding", {"content": [0] * 40})
    assert status == 400 and body["error"]["type"] == "exceed_context_size_error"
    assert (body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]) == (40, 32)
    assert server.post("/v1/embeddings", {"input": "a", "model": "none"})[0] == 404


def test_a_client_that_goes_away_leaves_nothing_behind(server):
    body = json.dumps({"input": ["abcabc"] * 2000}).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head + body)
    assert len(embed(server, {"input": ["abcabc"] * 2000})[0]) == 2000
