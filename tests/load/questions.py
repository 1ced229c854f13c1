"""What the load asks, in every dialect, and where an answer's text is in each."""

import dataclasses
import random
from typing import Callable

from http_client import Answer

TEXTS = [
    "The capital of France is", "Once upon a time", "2, 4, 6, 8,", "Dear Sir or Madam,", "The sea", "def add(a, b):",
    "Zürich, 東京 and", "List three colours:", "It was a dark night and the", "To be or not to be,",
]
# Beginnings that many requests share, longer than a block of the cache.
SHARED = "You are a careful assistant who answers briefly, in plain words and without any decoration. " * 3


@dataclasses.dataclass(frozen=True)
class Question:
    """Asked twice by whoever, however, beside whatever: the same answer."""

    kind: str  # "text", "chat" or "embedding"
    text: str
    n_tokens: int
    seed: int | None  # None: greedy

    def sampling(self) -> dict:
        if self.seed is None:
            return {"temperature": 0}
        return {"temperature": 0.9, "top_k": 50, "top_p": 0.95, "min_p": 0.05, "seed": self.seed}


def make_questions(n: int, chance: random.Random) -> list[Question]:
    questions = []
    for i in range(n):
        text = TEXTS[i % len(TEXTS)]
        if i % 3 == 0:
            text = SHARED + text
        kind = ("text", "text", "chat", "text", "chat", "embedding")[i % 6]
        seed = None if i % 2 else chance.randrange(1000)
        # Some outgrow the block of the cache that is kept free for them.
        n_tokens = chance.randrange(40, 70) if i % 8 == 3 else chance.randrange(6, 25)
        questions.append(Question(kind, f"{text} {chance.randrange(100)}", n_tokens, seed))
    return questions


@dataclasses.dataclass(frozen=True)
class Dialect:
    path: str
    stream_path: str | None  # None: no streams
    body: Callable[[Question, dict, bool], dict]  # of a question, the fields that choose adapters, whether to stream
    text: Callable[[dict], str]  # of a whole answer
    text_of_events: Callable[[list], str] | None  # of those that came so far; None: no streams


def _openai(question, wish, stream):
    return {"prompt": question.text, "max_tokens": question.n_tokens, "stream": stream} | question.sampling() | wish


def _chat(question, wish, stream):
    messages = [{"role": "user", "content": question.text}]
    return {"messages": messages, "max_tokens": question.n_tokens, "stream": stream} | question.sampling() | wish


def _llama(question, wish, stream):
    return {"prompt": question.text, "n_predict": question.n_tokens, "stream": stream} | question.sampling() | wish


def _tgi(question, wish, stream):
    return {"inputs": question.text, "parameters": {"max_new_tokens": question.n_tokens} | question.sampling()} | wish


def _sglang(question, wish, stream):
    params = {"max_new_tokens": question.n_tokens} | question.sampling()
    return {"text": question.text, "sampling_params": params, "stream": stream} | wish


def _embedding(question, wish, stream):
    return {"input": question.text, "encoding_format": "base64"} | wish


def _tgi_events(events):
    """Pieces of characters that several tokens make up are shown by replacement characters: compared up to there."""
    if events and events[-1]["generated_text"] is not None:
        return events[-1]["generated_text"]
    return "".join(event["token"]["text"] for event in events).split("\ufffd")[0]


def _choices(events):
    return [choice for event in events for choice in event["choices"]]


DIALECTS = {
    "text": [
        Dialect("/v1/completions", "/v1/completions", _openai, lambda body: body["choices"][0]["text"],
                lambda events: "".join(choice["text"] for choice in _choices(events))),
        Dialect("/completion", "/completion", _llama, lambda body: body["content"],
                lambda events: "".join(event["content"] for event in events)),
        Dialect("/generate", "/generate_stream", _tgi, lambda body: body["generated_text"], _tgi_events),
        Dialect("/generate", "/generate", _sglang, lambda body: body["text"],
                lambda events: events[-1]["text"] if events else ""),
    ],
    "chat": [
        Dialect("/v1/chat/completions", "/v1/chat/completions", _chat, lambda body: body["choices"][0]["message"]["content"],
                lambda events: "".join(choice["delta"].get("content") or "" for choice in _choices(events))),
    ],
    "embedding": [
        Dialect("/v1/embeddings", None, _embedding, lambda body: body["data"][0]["embedding"], None),
    ],
}


def text_of(dialect: Dialect, is_stream: bool, answer: Answer) -> str:
    return dialect.text_of_events(answer.events()) if is_stream else dialect.text(answer.json())


# Each is answered with this status, whatever else goes on.
PLAIN = {"prompt": "a", "max_tokens": 1}
WRONG = [
    ("POST", "/v1/completions", b"{", 400),
    ("POST", "/v1/completions", b"", 400),
    ("POST", "/v1/completions", [1], 400),
    ("POST", "/v1/completions", PLAIN | {"temperature": "hot"}, 400),
    ("POST", "/v1/completions", PLAIN | {"prompt": "word " * 20000}, 400),
    ("POST", "/v1/completions", PLAIN | {"n": 1000}, 400),
    ("POST", "/v1/completions", PLAIN | {"model": "nobody"}, 404),
    ("POST", "/v1/completions", PLAIN | {"lora": [{"id": 10**6}]}, 400),
    ("POST", "/v1/chat/completions", {"messages": [{"role": "critic", "content": "x"}]}, 400),
    ("POST", "/completion", {"prompt": "a", "grammar": "root ::= ("}, 400),
    ("POST", "/generate", {"inputs": "a", "parameters": {"max_new_tokens": -5}}, 400),
    ("POST", "/v1/load_lora_adapter", {"lora_name": "none", "lora_path": "none.gguf"}, 404),
    ("POST", "/v1/load_lora_adapter", {"lora_name": "bad", "lora_path": "damaged.gguf"}, 400),
    ("POST", "/v1/load_lora_adapter", {"lora_name": "far", "lora_path": "/etc/passwd"}, 403),
    ("POST", "/load_lora_adapter", {"lora_name": "none", "lora_path": "none.gguf"}, 400),
    ("DELETE", "/v1/loras/none", None, 404),
    ("POST", "/lora-adapters", [{"id": 10**6, "scale": 1}], 400),
    ("GET", "/nothing", None, 404),
    ("GET", "/v1/completions", None, 405),
    ("GET", "/health", None, 200),
    ("GET", "/slots", None, 200),
    ("GET", "/v1/models", None, 200),
    ("GET", "/metrics", None, 200),
]
