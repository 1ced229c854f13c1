"""Every chat template of families/ over every conversation, and random templates: ours against jinja2.

    RENDER_TEMPLATE=build/release/bin/render_template pytest tests/templates
"""

import os
import re
from pathlib import Path

import jinja2
import pytest

import conversations
import driver
import fuzz
import reference

FAMILIES = sorted((Path(__file__).parent / "families").glob("*.jinja"))
# 2025-03-07 09:05:03.000042 UTC: days, months and hours of one digit show how they are filled up.
NOW = 1741338303000042
N_FUZZ = int(os.environ.get("N_FUZZ", "2000"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
# What Python prints with an address, or computes with numbers that we do not have.
NEVER_OURS = re.compile(r"has no text that is the same|more than 128 bits|complex numbers|is not supported$")
# jinja2 evaluates constants while it compiles, and takes an error of a slice for an undefined value only then.
CONSTANT_SLICE = re.compile(r"is not subscriptable|unhashable type: 'slice'")


def request_of(template, conversation):
    messages, tools, context = conversation
    return {"template": template, "messages": messages, "tools": tools, "now": NOW,
            "context": {"bos_token": "<s>", "eos_token": "</s>"} | context}


def expected(request):
    """{"text"}, {"words"} of raise_exception, or {"error"}."""
    try:
        return {"text": reference.render(request)}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"words": error.message}
        return {"error": str(error)}
    except Exception as error:  # whatever Python raises while it renders
        return {"error": str(error)}


def agrees(want, got):
    if "words" in want:
        return got.get("stage") == "render" and got["error"] == want["words"]
    if "error" in want:
        return "error" in got
    return got.get("text") == want["text"]


def is_known_difference(want, got):
    if "text" not in want or "error" not in got:
        return False
    return " at 0x" in want["text"] or NEVER_OURS.search(got["error"]) or CONSTANT_SLICE.search(got["error"])


@pytest.mark.parametrize("path", FAMILIES, ids=[path.stem for path in FAMILIES])
def test_family_renders_as_jinja2_does(path):
    requests = [request_of(path.read_text(), conversation) for conversation in conversations.CONVERSATIONS.values()]
    answers = driver.render_all(requests)
    wanted = [expected(request) for request in requests]
    for name, want, got in zip(conversations.CONVERSATIONS, wanted, answers):
        assert agrees(want, got), f"{name}:\nwant {want}\ngot  {got}"
    assert sum("text" in want for want in wanted) >= 5, "the template renders nearly nothing"


def test_corpus_covers_what_it_should():
    assert len(FAMILIES) >= 25
    wanted = [expected(request_of(path.read_text(), conversation))
              for path in FAMILIES for conversation in conversations.CONVERSATIONS.values()]
    assert sum("text" in want for want in wanted) > 700
    assert sum("words" in want for want in wanted) > 50


def check_all(requests):
    """How many of them render; fails at the first that is rendered or refused in another way."""
    n_rendered = 0
    for request, got in zip(requests, driver.render_all(requests)):
        want = expected(request)
        n_rendered += "text" in want
        assert agrees(want, got) or is_known_difference(want, got), f"{request['template']!r}:\nwant {want}\ngot  {got}"
    return n_rendered


def test_random_templates_render_or_are_refused_as_jinja2_does():
    requests = [fuzz.make_request(FIRST_SEED + i) for i in range(N_FUZZ)]
    assert check_all(requests) > N_FUZZ // 4, "too few random templates render to say much"


def test_damaged_templates_render_or_are_refused_as_jinja2_does():
    sources = [path.read_text() for path in FAMILIES]
    talks = list(conversations.CONVERSATIONS.values())
    seeds = range(FIRST_SEED, FIRST_SEED + N_FUZZ)
    requests = [request_of(fuzz.mutate(i, sources[i % len(sources)]), talks[i % len(talks)]) for i in seeds]
    assert check_all(requests) > N_FUZZ // 10, "too few damaged templates render to say much"
