"""`patchbay run` with grammars and schemas, on the default model."""

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHBAY = os.environ.get("PATCHBAY", str(ROOT / "build/release/bin/patchbay"))
MODEL = os.environ.get("PATCHBAY_MODEL", str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
USAGE = 2


def run(*arguments, **options):
    return subprocess.run([PATCHBAY, "run", "-m", MODEL, *map(str, arguments)], capture_output=True, timeout=300, **options)


def chat(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def answer(prompt, *arguments):
    done = run("-p", chat(prompt), "--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


SCHEMAS = {
    "person": ({"type": "object", "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}},
        "required": ["name", "age", "email"]}, "Describe a person as JSON with name, age, email and tags."),
    "date": ({"type": "object", "properties": {"born": {"type": "string", "format": "date"}}, "required": ["born"]},
             "When was Ada Lovelace born? Answer as JSON."),
    "choice": ({"enum": ["positive", "negative", "neutral"]}, "Is this a good review? \"I loved it.\""),
    "rating": ({"type": "object", "properties": {"rating": {"type": "number", "minimum": 0, "maximum": 5},
                                                 "why": {"type": ["string", "null"], "maxLength": 60}},
                "required": ["rating", "why"]}, "Rate the film Casablanca from 0 to 5, as JSON."),
    "shape": ({"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "size": {"type": "integer", "maximum": 99, "minimum": 1}},
                          "required": ["kind", "size"]} for kind in ("circle", "square")]}, "Draw a shape, as JSON."),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("sampling", [["--temp", "0"], ["--temp", "1", "-s", "1"], ["--temp", "1.5", "-s", "2", "--top-k", "0"]])
def test_answers_of_the_model_are_valid(name, sampling, tmp_path):
    schema, prompt = SCHEMAS[name]
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    told = answer(prompt, "--json-schema-file", tmp_path / "schema.json", "-n", 400, *sampling)
    assert told["stop_reason"] == "eos", told["text"]
    jsonschema.validate(json.loads(told["text"]), schema)


def test_any_object():
    told = answer("Answer in JSON: what is 2+2?", "--json-schema", '{"type": "object"}', "--temp", 0, "-n", 100)
    assert told["text"].startswith("{")
    if told["stop_reason"] == "eos":
        json.loads(told["text"])


def test_grammar_of_a_file_or_standard_input(tmp_path):
    grammar = 'root ::= "yes" | "no" | "may" "be"'
    (tmp_path / "answer.gbnf").write_text(grammar)
    texts = {answer("Is the sky blue?", "--temp", 0, "--grammar", grammar)["text"],
             answer("Is the sky blue?", "--temp", 0, "--grammar-file", tmp_path / "answer.gbnf")["text"],
             run("-p", chat("Is the sky blue?"), "--temp", 0, "-q", "--grammar-file", "-", input=grammar.encode()).stdout.decode().strip()}
    assert len(texts) == 1 and texts <= {"yes", "no", "maybe"}


def test_characters_of_several_tokens():
    told = answer("Write some emoji.", "--temp", 1, "-s", 3, "--grammar", 'root ::= [\U0001F600-\U0001F64F]{3} [а-я]{4} "数据"')
    assert told["stop_reason"] == "eos"
    assert re.fullmatch("[\U0001F600-\U0001F64F]{3}[а-я]{4}数据", told["text"])


@pytest.mark.parametrize("arguments, told", [
    (["--grammar", "root ::= a"], "line 1, column 10: rule a is not defined"),
    (["--json-schema", '{"not": {}}'], "#/not: not is not supported"),
    (["--json-schema", "{"], "not valid JSON"),
    (["--grammar", 'root ::= "a"', "--json-schema", "{}"], "Requires"),
    (["--grammar", ""], "--grammar"),
    (["--grammar-file", "/nowhere/x.gbnf"], "/nowhere/x.gbnf"),
    (["--json-schema-file", ""], "names no file"),
])
def test_what_cannot_be_meant_is_refused(arguments, told):
    done = run("-p", "x", *arguments)
    assert done.returncode != 0 and not done.stdout
    assert told in done.stderr.decode(), done.stderr.decode()
