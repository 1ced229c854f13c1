"""JSON schemas as masks over tokens, with python-jsonschema as the judge."""

import copy
import datetime
import json
import os
import random
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

from schemas import BY_HAND, REFUSED, Maker

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("PATCHBAY", ROOT / "build/release/bin/patchbay")).parent
MODEL = os.environ.get("PATCHBAY_MODEL", str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
N_GENERATED = 160

CHECKER = jsonschema.FormatChecker()


@CHECKER.checks("time", raises=ValueError)
def is_time(text):
    return not isinstance(text, str) or is_date_time("2000-01-01T" + text)


@CHECKER.checks("date-time", raises=ValueError)
def is_date_time(text):
    if not isinstance(text, str):
        return True
    form = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
    matched = re.fullmatch(form, text)
    return bool(matched) and bool(datetime.datetime.fromisoformat(matched[1]))


def is_valid(schema, instance):
    return jsonschema.Draft202012Validator(denullable(schema), format_checker=CHECKER).is_valid(instance)


def denullable(schema):
    """OpenAPI's nullable in words that jsonschema knows."""
    if isinstance(schema, list):
        return [denullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: value if key in ("enum", "const") else denullable(value) for key, value in schema.items()}
    if schema.get("nullable") is True and "type" in schema:
        changed["type"] = [schema["type"], "null"]
    return changed


def ask(questions, *model):
    """One answer of the driver for each question."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([BIN / "grammar_driver", *model], input=lines, capture_output=True, encoding="utf-8", timeout=900)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]  # splitlines() also splits at U+2028


def generated():
    made, seed = [], 0
    while len(made) < N_GENERATED:
        made.append((seed, *Maker(seed).schema()))
        seed += 1
    return made


def question(schema, **more):
    return {"schema": json.dumps(schema)} | more


def check_walks(schemas, answers):
    """Every walk parses and is valid. Returns how many there were."""
    n_walks = 0
    for schema, answer in zip(schemas, answers, strict=True):
        assert "error" not in answer, (schema, answer)
        for text in answer["walks"]:
            assert is_valid(schema, json.loads(text)), (schema, text)
            n_walks += 1
    return n_walks


def test_random_walks_over_bytes_are_valid():
    schemas = [schema for _, schema, _ in generated()] + BY_HAND
    assert len(schemas) >= 200
    answers = ask([question(schema, n_walks=8, seed=i) for i, schema in enumerate(schemas)])
    assert check_walks(schemas, answers) == 8 * len(schemas)


def test_random_walks_over_a_models_tokens_are_valid():
    schemas = [schema for _, schema, _ in generated()] + BY_HAND
    answers = ask([question(schema, n_walks=3, seed=7 * i) for i, schema in enumerate(schemas)], MODEL)
    assert check_walks(schemas, answers) == 3 * len(schemas)


def spellings(instance):
    return [json.dumps(instance, ensure_ascii=False, separators=separators) for separators in ((",", ":"), (", ", ": "))]


def test_valid_instances_are_accepted():
    questions, wanted = [], []
    for seed, schema, sample in generated():
        instances = [sample() for _ in range(8)]
        for instance in instances:
            assert is_valid(schema, instance), f"the generator is wrong: {seed}: {schema}: {instance}"
        questions.append(question(schema, texts=[text for instance in instances for text in spellings(instance)]))
        wanted.append(instances)
    for asked, answer in zip(questions, ask(questions), strict=True):
        assert "error" not in answer, (asked, answer)
        missed = [text for text, accepted in zip(asked["texts"], answer["accepted"], strict=True) if not accepted]
        assert not missed, (asked["schema"], missed)


def mutate(value, rng):
    """Something near by: another value, member or count somewhere inside."""
    value = copy.deepcopy(value)
    others = [None, True, 0, -1, 2.5, 10**6, "", "zzzzzzzzzzzz", "2023-02-29", [], {}, {"zz": 1}]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        change = rng.randrange(4)
        if change == 0:
            del value[name]
        elif change == 1:
            value = {other: value[other] for other in sorted(value, key=lambda _: rng.random())}
        elif change == 2:
            value["zz"] = rng.choice(others)
        else:
            value[name] = mutate(value[name], rng)
    elif isinstance(value, list) and value and rng.random() < 0.8:
        change = rng.randrange(3)
        if change == 0:
            value.pop(rng.randrange(len(value)))
        elif change == 1:
            value += value
        else:
            i = rng.randrange(len(value))
            value[i] = mutate(value[i], rng)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.7:
        value += rng.choice([1, -1, 0.5, 1000, -1000])
    elif isinstance(value, str) and value and rng.random() < 0.7:
        value = rng.choice([value[:-1], value + "x", value + value, value.upper(), "\u0100" + value])
    else:
        value = rng.choice(others)
    return value


def test_what_is_accepted_is_valid():
    rng = random.Random(5)
    questions, instances = [], []
    for _, schema, sample in generated():
        changed = [mutate(sample(), rng) for _ in range(30)]
        instances.append(changed)
        questions.append(question(schema, texts=[spellings(instance)[0] for instance in changed]))
    n_refused = 0
    for asked, changed, answer in zip(questions, instances, ask(questions), strict=True):
        assert "error" not in answer, (asked, answer)
        schema = json.loads(asked["schema"])
        for instance, accepted in zip(changed, answer["accepted"], strict=True):
            assert not accepted or is_valid(schema, instance), (schema, instance)
            n_refused += not accepted
    assert n_refused > 1000


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a":1}', '{"a":1,"b":[1, "x",{"c":null}]}'])
def test_any_object_is_an_object(text):
    assert ask([question({"type": "object"}, texts=[text])])[0]["accepted"] == [True]


@pytest.mark.parametrize("text", [
    "", "[]", "1", ' {"a":1}', '{"a":1} ', '{ "a":1}', '{"a" :1}', '{"a":  1}', '{"a":1,}', '{"a":01}', '{"a":+1}', '{"a":.5}',
    '{"a":1.}', '{"a":"\t"}', '{"a":"\\x"}', '{"a":"\\ud800"}', '{"a":"\\udc00"}', '{"a":"\\ud800\\u0041"}', "{'a':1}", '{"a":tru}',
    '{"a":NaN}', '{"a":1e}', '{"a":-}', '{"a":"x}'])
def test_what_is_no_json_object_is_not_accepted(text):
    assert ask([question({"type": "object"}, texts=[text])])[0]["accepted"] == [False]


@pytest.mark.parametrize("text", ['{"a":"\\ud83d\\ude00"}', '{"a":"\\u00E9\\/\\b"}', '{"a":-0}', '{"a":1E5}', '{"a":-1.5e-3}'])
def test_every_spelling_of_strings_and_numbers_is_accepted(text):
    assert ask([question({"type": "object"}, texts=[text])])[0]["accepted"] == [True]


@pytest.mark.parametrize("schema, where, what", REFUSED)
def test_what_is_not_supported_is_refused_by_name(schema, where, what):
    error = ask([question(schema)])[0]["error"]
    assert error.startswith("json_schema: ") and where in error and what in error, error


@pytest.mark.parametrize("text, what", [
    ("{", "not valid JSON"), ("", None), ('{"type": "object"} x', "not valid JSON"), ("[" * 500 + "]" * 500, "deep"),
    ('{"title": "' + "x" * 2**20 + '"}', "bytes"), ('{"enum": ["\udc80"]}', None)])
def test_texts_that_are_no_schema(text, what):
    if what:
        assert what in ask([{"schema": text}])[0]["error"]


def test_a_schema_with_everything_at_once_compiles_soon_enough():
    members = {f"field_{i}": {"enum": [f"{i}_{j}" for j in range(50)]} for i in range(200)}
    answer = ask([question({"type": "object", "properties": members}, texts=['{"field_7":"7_49","field_199":"199_0"}'])])[0]
    assert answer["accepted"] == [True]
