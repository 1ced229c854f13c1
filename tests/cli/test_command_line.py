"""`patchbay run`, `tokenize` and `bench` as a user meets them: answers, refusals, exit codes, files and streams."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest

from alphabet_model import (CHAIN, EOS, N_CTX, N_VOCAB, SPELLED, TOKENS, metadata, tensors, tokenizer, write_adapter,
                            write_model, write_shards)
from command import FAILURE, HAS_PRODUCTS, PATCHBAY, ROOT, USAGE, patchbay, refusal, run, run_json, run_text
from gguf_writer import write_gguf

ORACLE = ROOT / "tests/data/oracle"
DEFAULT_MODEL = os.environ.get("PATCHBAY_MODEL", str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "alphabet.gguf")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    """After "a" it says "m" in place of "b"."""
    return write_adapter(tmp_path_factory.mktemp("adapter") / "jump.gguf")


# Answers


def test_greedy_answer_is_streamed_text_that_ends_with_the_end_of_generation_token(model):
    assert run_text(model, "-p", "a") == SPELLED
    answer = run_json(model, "-p", "a")
    assert (answer["text"], answer["stop_reason"]) == (SPELLED, "eos")
    assert answer["tokens"][-1] == EOS and answer["n_tokens_out"] == len(answer["tokens"]) == len(CHAIN) - 1


def test_json_is_one_object_with_these_fields(model, adapter):
    answer = run_json(model, "-p", "a", "-n", 3, "-s", 5, "--lora", f"jump={adapter}:0.5")
    assert list(answer) == ["text", "tokens", "stop_reason", "n_tokens_prompt", "n_tokens_cached", "n_tokens_out", "seed", "lora", "timings"]
    assert (answer["n_tokens_prompt"], answer["n_tokens_out"], answer["seed"]) == (1, 3, 5)
    assert answer["lora"] == [{"name": "jump", "path": str(adapter), "scale": 0.5, "active_from": 0}]
    assert all(value >= 0 for value in answer["timings"].values())


def test_timings_go_to_standard_error_unless_quiet(model):
    arguments = ["run", "-m", model, "-t", 1, "-p", "a", "-n", 2]
    assert b"tokens/s" in patchbay(*arguments).stderr
    assert patchbay(*arguments, "-q").stderr == b""


@pytest.mark.parametrize("n, text, reason", [(0, "", "length"), (1, "b", "length"), (15, SPELLED, "length"),
                                             (-1, SPELLED, "eos"), (99, SPELLED, "eos")])
def test_n_tokens_are_generated_at_most(model, n, text, reason):
    answer = run_json(model, "-p", "a", "-n", n)
    assert (answer["text"], answer["stop_reason"]) == (text, reason)


def test_token_ids_replace_the_prompt(model):
    assert run_text(model, "--tokens", "0,1,2", "-n", 2) == "de"
    assert run_text(model, "-p", "abc", "-n", 2) == "de"


def test_prompt_comes_from_a_file_or_standard_input(model, tmp_path):
    (tmp_path / "prompt").write_text("ab")
    assert run_text(model, "-f", tmp_path / "prompt", "-n", 2) == "cd"
    assert run(model, "-f", "-", "-n", 2, input=b"ab").stdout == b"cd\n"


@pytest.mark.parametrize("prompt", ["-n", "--", "--stop", "-", "[a,b]"])
def test_prompt_may_look_like_an_option(prompt):
    base = ORACLE / "bases/base.gguf"
    tokens = json.loads(patchbay("tokenize", "-m", base, "--json", input=prompt.encode()).stdout)["tokens"]
    assert run_json(base, "-p", prompt, "-n", 1)["n_tokens_prompt"] == len(tokens) > 0


@pytest.mark.parametrize("stops, text", [
    (["de"], "bc"),  # over two tokens
    (["j"], "bcdefghi"),  # within a token, with text before it
    (["ijkl"], "bcdefgh"),
    (["efx", "fg"], "bcde"),  # one begins within another that never comes
    (["cdef", "de"], "bc"),  # the first to be complete wins
    (["é"], "bcdefghijklmn"),  # a character over two tokens
    (["b"], ""),
])
def test_answer_ends_before_a_stop_string(model, stops, text):
    options = [part for stop in stops for part in ("--stop", stop)]
    answer = run_json(model, "-p", "a", *options)
    assert (answer["text"], answer["stop_reason"]) == (text, "stop")
    assert run_text(model, "-p", "a", *options) == text


@pytest.mark.parametrize("stop", ["", "opq", "zz", "[b,c]", "%%"])
def test_stop_string_that_never_comes_holds_nothing_back(model, stop):
    assert run_text(model, "-p", "a", "--stop", stop) == SPELLED
    assert run_json(model, "-p", "a", "--stop", stop)["text"] == SPELLED


def test_half_a_character_is_never_shown(model):
    n_half = CHAIN.index("Ã")
    text = SPELLED[:SPELLED.index("é")] + "\ufffd"
    assert run_text(model, "-p", "a", "-n", n_half) == text
    assert run_json(model, "-p", "a", "-n", n_half)["text"] == text


def test_ignored_end_of_generation_token_is_never_drawn(model):
    answer = run_json(model, "-p", "a", "-n", 20, "--ignore-eos")
    assert answer["n_tokens_out"] == 20 and EOS not in answer["tokens"]
    assert answer["text"].startswith(SPELLED)


def test_logit_bias_forbids_and_favours(model):
    b, m = TOKENS.index("b"), TOKENS.index("m")
    assert run_text(model, "-p", "a", "-n", 1, "--logit-bias", f"{m}=99") == "m"
    assert run_json(model, "-p", "a", "-n", 1, "--logit-bias", f"{b}=-inf")["tokens"] != [b]


def test_seed_reproduces_and_an_unstated_one_is_told(model):
    def draw(*seed):
        done = patchbay("run", "-m", model, "-t", 1, "--temp", 9, "--top-k", 0, "--top-p", 1, "--min-p", 0, "-p", "a",
                        "-n", 24, "--ignore-eos", "--json", *seed)
        return json.loads(done.stdout)

    assert draw("-s", 7)["tokens"] == draw("-s", 7)["tokens"] != draw("-s", 8)["tokens"]
    unstated = draw()
    assert draw("-s", unstated["seed"])["tokens"] == unstated["tokens"]
    assert draw()["seed"] != unstated["seed"]


def test_sampled_answer_is_the_same_streamed_or_not(model):
    options = ["-t", "1", "--temp", "2", "-s", "3", "-p", "a", "-n", "24", "--ignore-eos"]
    streamed = patchbay("run", "-m", model, "-q", *options).stdout.decode()
    text = json.loads(patchbay("run", "-m", model, "--json", *options).stdout)["text"]
    assert streamed in (text, text + "\n")


# Context


def test_prompt_may_fill_the_context_but_not_exceed_it(model):
    for n_prompt in (N_CTX - 1, N_CTX):
        answer = run_json(model, "--tokens", ",".join(["0"] * n_prompt), "-n", -1)
        assert (answer["stop_reason"], answer["n_tokens_out"]) == ("length", N_CTX - n_prompt + 1)
    told = refusal(run(model, "--tokens", ",".join(["0"] * (N_CTX + 1))), USAGE)
    assert f"{N_CTX + 1} tokens" in told and f"context holds {N_CTX}" in told


def test_stated_context_is_a_limit_up_to_that_of_the_model(model):
    assert run_json(model, "-p", "a", "-c", 4)["n_tokens_out"] == 4
    for n_ctx in (N_CTX + 1, 1 << 26):
        answer = run_json(model, "-p", "a", "-c", n_ctx, "-n", -1, "--ignore-eos")
        assert (answer["stop_reason"], answer["n_tokens_out"]) == ("length", N_CTX)


def test_cache_keeps_within_its_memory(model):
    told = refusal(run(model, "-p", "a", "--kv-memory", 100), FAILURE)
    assert "100 bytes, and one block of 32 tokens takes" in told
    assert run_json(model, "-p", "a", "-n", 4, "--kv-memory", "1M", "--ignore-eos")["n_tokens_out"] == 4
    assert "excludes" in refusal(run(model, "-p", "a", "--kv-memory", "1M", "-c", 8), USAGE)


def test_host_tier_changes_no_answer(model):
    assert run_text(model, "-p", "a", "--cache-memory", "1M") == SPELLED


# Sessions


def test_restored_session_is_gone_on_from(model, tmp_path):
    session = tmp_path / "a b,c.session"
    saved = run_json(model, "-p", "abc", "-n", 4, "--save-session", session)
    assert saved["n_tokens_cached"] == 0
    again = run_json(model, "-p", "abc", "-n", 4, "--restore-session", session)
    assert (again["text"], again["n_tokens_cached"]) == (saved["text"], 2)
    longer = run_json(model, "-p", "abcdef", "--restore-session", session, "--save-session", session)
    assert longer["n_tokens_cached"] == 5 and longer["text"] == run_json(model, "-p", "abcdef")["text"]
    assert run_json(model, "-p", "abcdefgh", "--restore-session", session)["n_tokens_cached"] == 7
    assert run_json(model, "-p", "b", "--restore-session", session)["n_tokens_cached"] == 0
    assert [path.name for path in tmp_path.iterdir()] == [session.name]


def test_session_is_refused_where_it_does_not_belong(model, adapter, tmp_path):
    session = tmp_path / "a.session"
    run_text(model, "-p", "abc", "--lora", adapter, "--save-session", session)

    def told(*options, prompt="abc"):
        return refusal(run(model, "-p", prompt, "--restore-session", session, *options), FAILURE)

    assert "a.session: cache type differs: want f32, found f16" in told("--cache-type", "f32")
    other = write_adapter(tmp_path / adapter.name, say="k")
    assert "adapter 'jump' has other content than when the session was saved" in told("--lora", other)
    other_model = write_model(tmp_path / "other.gguf", n_ctx=N_CTX + 1)
    done = run(other_model, "-p", "abc", "--restore-session", session)
    assert "a.session: digest of the model differs: want" in refusal(done, FAILURE)
    whole = session.read_bytes()
    for damaged, problem in [(b"", "is empty"), (b"GGUF", "is not a saved session"), (whole[:-1], "truncated or damaged"),
                             (whole[:-30] + b"?" + whole[-29:], "checksum differs")]:
        session.write_bytes(damaged)
        assert problem in told()
    session.unlink()
    assert "No such file" in told()


def test_session_that_cannot_be_written_is_a_failure(model, tmp_path):
    for path in [tmp_path, tmp_path / "missing" / "a.session", "/dev/null"]:
        done = run(model, "-p", "abc", "--save-session", path)
        assert done.returncode == FAILURE and str(path) in done.stderr.decode()
        assert not done.stdout, "known before the answer is computed"
    assert not list(tmp_path.iterdir())


def test_session_never_replaces_what_is_in_use(model, adapter):
    for path in [model, adapter]:
        before = path.read_bytes()
        done = run(model, "-p", "abc", "--lora", adapter, "--save-session", path)
        assert f"--save-session would replace {path}" in refusal(done, USAGE)
        assert path.read_bytes() == before


def test_session_knows_adapters_by_the_names_they_are_served_under(model, adapter, tmp_path):
    session = tmp_path / "a.session"
    other = write_adapter(tmp_path / "other.gguf", say="k")
    run_text(model, "-p", "abc", "--lora", f"a={adapter},b={other}:0.5", "--save-session", session)
    for loras, is_known in [(f"a={adapter},b={other}:0.5", True), (f"c={other}", True), (f"a={other}", False)]:
        done = run(model, "-p", "abc", "--restore-session", session, "--lora", loras)
        assert (done.returncode == 0) == is_known, done.stderr
    assert "adapter 'a' has other content" in done.stderr.decode()


# Adapters


def test_adapter_acts_by_its_strength(model, adapter):
    def first(*options):
        return run_text(model, "-p", "a", "-n", 1, *options)

    assert first("--lora", adapter) == first("--lora-scaled", f"{adapter}:1") == "m"
    assert first("--lora", f"{adapter}:0") == first("--lora", f"{adapter}:-1") == "b"
    assert first("--lora", f"{adapter}:0.05") == "b"  # half of what the base wants


def test_same_adapter_twice_has_two_names_and_acts_twice(model, adapter):
    answer = run_json(model, "-p", "a", "-n", 1, "--lora", f"{adapter}:0.07,{adapter}:0.07")
    assert [lora["name"] for lora in answer["lora"]] == ["jump", "jump-2"]
    assert answer["text"] == "m"
    assert run_text(model, "-p", "a", "-n", 1, "--lora", f"{adapter}:0.07") == "b"


def test_fifty_adapters_act_at_once(model, adapter):
    assert run_text(model, "-p", "a", "-n", 1, "--lora", ",".join([f"{adapter}:0.003"] * 50)) == "m"
    assert run_text(model, "-p", "a", "-n", 1, "--lora", ",".join([f"{adapter}:0.001"] * 50)) == "b"


@pytest.mark.parametrize("name", ["a b.gguf", "a:1.gguf", "a:1", "x=y.gguf", "é日本.gguf", "a,b.gguf", 'say "a".gguf', b"\xff.gguf"])
def test_adapter_path_may_hold_anything(model, adapter, tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + os.fsencode(name)
    shutil.copy(adapter, path)
    quoted = b'"' + path.replace(b'"', b'""') + b'"'
    answer = run_json(model, "-p", "a", "-n", 1, "--lora", quoted + b":0.5")
    assert answer["text"] == "m" and answer["lora"][0]["scale"] == 0.5


def test_huge_adapter_leaves_tokens_that_do_not_wear_it_alone(model, tmp_path):
    huge = write_adapter(tmp_path / "huge.gguf", after="ef", size=1e30, **{"adapter.alora.invocation_tokens": [TOKENS.index("f")]})
    write_logits(model, tmp_path / "base.npy", "-p", "abcdefg")
    write_logits(model, tmp_path / "worn.npy", "-p", "abcdefg", "--lora", huge)
    base, worn = np.load(tmp_path / "base.npy"), np.load(tmp_path / "worn.npy")
    at = "abcdefg".index("f")
    assert np.array_equal(base[:at], worn[:at]) and worn[at].max() > 1e30


def test_adapter_that_overflows_is_a_failure_and_no_answer(model, tmp_path):
    huge = write_adapter(tmp_path / "huge.gguf", size=3e38)
    assert "not finite" in refusal(run(model, "-p", "a", "--lora", f"{huge}:9e37"), USAGE)


def test_uninvoked_adapter_is_warned_of(model, tmp_path):
    alora = write_adapter(tmp_path / "rater.gguf", **{"adapter.alora.invocation_tokens": [TOKENS.index("f")]})
    done = run(model, "-p", "a", "-n", 1, "--lora", alora)
    assert done.stdout == b"b\n" and b"rater" in done.stderr


def test_adapter_for_another_base_is_refused(model, tmp_path):
    other = write_adapter(tmp_path / "other.gguf", **{"general.architecture": "gemma3"})
    told = refusal(run(model, "-p", "a", "--lora", other), FAILURE)
    assert "other.gguf" in told and "want 'llama', found 'gemma3'" in told
    told = refusal(run(model, "-p", "a", "--lora", ORACLE / "adapters_gguf/plain.gguf"), FAILURE)
    assert "the graph of this llama base (1 layers) reads no such weight (another base model?)" in told


def test_one_bad_adapter_of_several_is_named(model, adapter, tmp_path):
    assert "none.gguf" in refusal(run(model, "-p", "a", "--lora", f"{adapter},{tmp_path}/none.gguf"), FAILURE)


# Logits


def write_logits(model, path, *arguments):
    done = run(model, "-n", 0, "--logits", path, *arguments)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    return done


def test_logits_are_one_row_per_prompt_token(model, tmp_path):
    write_logits(model, tmp_path / "x.npy", "-p", "abc")
    logits = np.load(tmp_path / "x.npy")
    assert (logits.shape, logits.dtype) == ((3, N_VOCAB), np.float32)
    assert [TOKENS[i] for i in logits.argmax(axis=1)] == ["b", "c", "d"]
    assert os.listdir(tmp_path) == ["x.npy"]


def test_logits_do_not_depend_on_how_the_prompt_is_cut(model, tmp_path):
    write_logits(model, tmp_path / "one.npy", "-p", "abcdefgh")
    write_logits(model, tmp_path / "cut.npy", "-p", "abcdefgh", "--ubatch-size", 3)
    assert np.array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "cut.npy"))


def test_logits_and_an_answer_can_be_had_together(model, tmp_path):
    assert run_text(model, "-p", "a", "-n", 2, "--logits", tmp_path / "x.npy") == "bc"
    assert run_json(model, "-p", "a", "-n", 0, "--logits", tmp_path / "x.npy")["tokens"] == []


def test_logits_work_on_a_model_without_a_tokenizer(tmp_path):
    bare = write_gguf(tmp_path / "bare.gguf", metadata(), tensors())
    write_logits(bare, tmp_path / "x.npy", "--tokens", "0,1")
    assert np.load(tmp_path / "x.npy").shape == (2, N_VOCAB)
    assert "--tokens" in refusal(run(bare, "-p", "a"), USAGE)


def test_logits_go_through_a_pipe_which_stays_one(model, tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_logits(model, pipe, "-p", "a")
    reader.join(10)
    assert read[0].startswith(b"\x93NUMPY") and pipe.is_fifo()


def test_logits_are_written_where_a_link_leads(model, tmp_path):
    (tmp_path / "real.npy").touch()
    (tmp_path / "link.npy").symlink_to("real.npy")
    write_logits(model, tmp_path / "link.npy", "-p", "a")
    assert (tmp_path / "link.npy").is_symlink() and np.load(tmp_path / "real.npy").shape == (1, N_VOCAB)


def test_logits_that_cannot_be_written_are_a_failure_that_leaves_nothing(model, tmp_path):
    for path in (tmp_path / "none/x.npy", tmp_path, "/dev/full"):
        told = refusal(run(model, "-p", "a", "--logits", path), FAILURE)
        assert f"{path}: cannot be written" in told
    assert os.listdir(tmp_path) == []


# Usage


@pytest.mark.parametrize("arguments, told", [
    ([], "subcommand is required"),
    (["frob"], "'frob'"),
    (["--frob"], "'--frob'"),
    (["run"], "-p,--prompt,-f,--file,--tokens"),
    (["run", "-p", "a", "--tokens", "1"], "2 were given"),
    (["run", "-p", "a", "--frob"], "--frob"),
    (["run", "-p", "a", "more"], "more"),
    (["run", "-p"], "--prompt"),
    (["run", "-p", "a", "-m", ""], "--model: names no file"),
    (["run", "-p", "a", "--logits", ""], "--logits: names no file"),
    (["run", "-p", "a", "--cache-type", "q4_0"], "'q4_0' is none of f16, f32, q8_0"),
    (["run", "-p", "a", "--lora-form", "fast"], "'fast' is none of auto, portable and fused"),
    (["run", "-p", "a", "--lora", ""], "empty item"),
    (["run", "-p", "a", "--lora", "a,,b"], "empty item"),
    (["run", "-p", "a", "--lora", '"a'], "unfinished quote"),
    (["run", "-p", "a", "--lora", "n=a,n=b"], "two adapters are named 'n'"),
    (["run", "-p", "a", "--lora-scaled", "a.gguf"], "PATH:STRENGTH"),
    (["tokenize", "-m", ""], "--model: names no file"),
    (["inspect"], "file is required"),
    (["inspect", ""], "names no file"),
    (["bench", "more"], "more"),
])
def test_command_line_that_cannot_be_meant_is_a_usage_error(arguments, told):
    assert told in refusal(patchbay(*arguments), USAGE)


NO_NUMBERS = ["", "x", "1x", " 1", "0x1", "nan", "inf", "+-1", "-", "18446744073709551616"]


@pytest.mark.parametrize("command, option, beyond", [
    ("run", "--ctx-size", ["0", "-1"]), ("run", "--ubatch-size", ["0", "-1"]), ("run", "--threads", ["0", "513"]),
    ("run", "--n-predict", ["-2", "1.5"]), ("run", "--top-k", ["-1", "1.5"]), ("run", "--top-p", ["-0.1", "1.1"]),
    ("run", "--min-p", ["-0.1", "1.1"]), ("run", "--temp", ["-1"]), ("run", "--repeat-penalty", ["0", "-1"]),
    ("run", "--presence-penalty", ["1e9"]), ("run", "--frequency-penalty", ["-1e9"]), ("run", "--repeat-last-n", ["-2"]),
    ("run", "--seed", ["-1"]), ("run", "--kv-memory", ["0", "-1", "1.5M", "1T", "M"]), ("run", "--cache-memory", ["-1", "1.5M", "1T", "M"]),
    ("bench", "--cache-memory", ["x"]), ("bench", "--n-prompt", ["0"]), ("bench", "--n-gen", ["0"]), ("bench", "--repeat", ["0"]),
    ("bench", "--streams", ["0", "513"]), ("bench", "--n-adapters", ["-1"]), ("bench", "--rank", ["0", "1025"]),
])
def test_wrong_number_is_a_usage_error_that_names_the_option(command, option, beyond):
    prompt = ["-p", "a"] if command == "run" else []
    for value in NO_NUMBERS + beyond:
        told = refusal(patchbay(command, *prompt, option, value), USAGE)
        shown = value.rstrip("KMG") if option.endswith("-memory") else value
        assert option in told and f"'{shown}' is not a number from" in told


@pytest.mark.parametrize("tokens", ["", "x", "1,", ",1", "1,,2", "-1", "1 2", "1.5", "4294967297"])
def test_wrong_token_list_is_a_usage_error(tokens):
    assert "--tokens: " in refusal(patchbay("run", "--tokens", tokens), USAGE)


@pytest.mark.parametrize("bias", ["", "1", "=1", "1=", "a=1", "1=x", "1=nan", "1=inf", "-1=1", "1=1=1"])
def test_wrong_logit_bias_is_a_usage_error(bias):
    assert "--logit-bias: " in refusal(patchbay("run", "-p", "a", "--logit-bias", bias), USAGE)


def test_request_that_the_model_cannot_take_is_a_usage_error(model):
    assert f"token {N_VOCAB} is not in the vocabulary of {N_VOCAB}" in refusal(run(model, "--tokens", N_VOCAB), USAGE)
    assert f"token {N_VOCAB}" in refusal(run(model, "-p", "a", "--logit-bias", f"{N_VOCAB}=1"), USAGE)
    assert "prompt is empty" in refusal(run(model, "-p", ""), USAGE)
    assert "prompt is empty" in refusal(run(model, "-f", "-", input=b""), USAGE)


@pytest.mark.parametrize("strength", ["nan", "inf", "-inf", "1e39"])
def test_strength_that_is_not_finite_is_refused(model, adapter, strength):
    done = run(model, "-p", "a", "--lora", f"{adapter}:{strength}")
    assert done.returncode in (USAGE, FAILURE) and not done.stdout and strength in done.stderr.decode()


def test_help_and_version_are_successes_on_standard_output():
    for arguments in (["--help"], ["run", "--help"], ["tokenize", "-h"], ["inspect", "-h"], ["bench", "-h"], ["--version"]):
        done = patchbay(*arguments)
        assert (done.returncode, done.stderr) == (0, b"") and b"atchbay" in done.stdout


@pytest.mark.parametrize(("command", "option"), [("run", "--save-session"), ("chat", "--system"), ("tokenize", "--pieces"),
                                                 ("inspect", "--tensors"), ("bench", "--streams"), ("serve", "--hidden-adapters"),
                                                 ("serve", "--slot-save-path")])
def test_help_of_a_command_shows_its_options(command, option):
    for flag in ("-h", "--help"):
        assert option.encode() in patchbay(command, flag).stdout


# Files


def wrong_files(folder, model, adapter):
    """What is no model, by the words that the refusal must hold."""
    whole, peft = model.read_bytes(), ORACLE / "adapters/plain"
    contents = {"is empty": b"", "unknown kind": bytes(range(1, 200)) * 9, "pickle": b"\x80\x02}q\x00.",
                "zip archive": b"PK\x03\x04" + bytes(99), "Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
                "web page": b"<!DOCTYPE html><html>", "text file": b"hello", "truncated": whole[:len(whole) // 20]}
    paths = {}
    for told, content in contents.items():
        paths[told] = folder / f"{told}.gguf"
        paths[told].write_bytes(content)
    os.mkfifo(folder / "fifo")
    return paths | {"No such file": folder / "none.gguf", "is a directory": peft, "not a regular file": folder / "fifo",
                    "safetensors": peft / "adapter_model.safetensors", "Not a directory": model / "x", "is an adapter": adapter}


def test_file_that_is_no_model_is_refused_by_its_kind(model, adapter, tmp_path):
    for told, path in wrong_files(tmp_path, model, adapter).items():
        for command in (["run", "-p", "a"], ["bench", "-r", "1"], ["tokenize", "-p", "a"]):
            if command[0] == "tokenize" and told == "is an adapter":
                continue  # it is refused too, as a file without tokenizer
            found = refusal(patchbay(*command, "-m", path), FAILURE)
            assert told in found and str(path) in found


def test_file_that_is_no_adapter_is_refused(model, adapter, tmp_path):
    paths = wrong_files(tmp_path, model, adapter)
    for told in ("is empty", "unknown kind", "pickle", "truncated", "No such file", "not a regular file", "text file"):
        found = refusal(run(model, "-p", "a", "--lora", paths[told]), FAILURE)
        assert told in found and str(paths[told]) in found
    assert "-m" in refusal(run(model, "-p", "a", "--lora", model), FAILURE)
    assert "adapter_config.json" in refusal(run(model, "-p", "a", "--lora", tmp_path), FAILURE)


def test_tensor_that_is_missing_or_misshapen_is_named(tmp_path):
    name = "blk.0.ffn_down.weight"
    lacking = {key: value for key, value in tensors().items() if key != name}
    told = refusal(run(write_gguf(tmp_path / "x.gguf", metadata() | tokenizer(), lacking), "-p", "a"), FAILURE)
    assert f"x.gguf: {name} is missing" in told
    wider = tensors() | {name: np.zeros((N_VOCAB, N_VOCAB + 1), np.float32)}
    told = refusal(run(write_gguf(tmp_path / "x.gguf", metadata() | tokenizer(), wider), "-p", "a"), FAILURE)
    assert f"want [{N_VOCAB}, {N_VOCAB}], found [{N_VOCAB + 1}, {N_VOCAB}]" in told


def test_tokenizer_with_more_tokens_than_embeddings_is_refused(tmp_path):
    more = tokenizer() | {"tokenizer.ggml.tokens": TOKENS + ["t"]}
    del more["tokenizer.ggml.token_type"]
    told = refusal(run(write_gguf(tmp_path / "x.gguf", metadata() | more, tensors()), "-p", "a"), FAILURE)
    assert "tokenizer.ggml.tokens" in told and f"found {N_VOCAB + 1}" in told


def test_model_in_shards_is_opened_by_its_first(tmp_path):
    first, second = write_shards(tmp_path)
    assert run_text(first, "-p", "a") == SPELLED
    assert first.name in refusal(run(second, "-p", "a"), FAILURE)
    second.unlink()
    assert second.name in refusal(run(first, "-p", "a"), FAILURE)


@pytest.mark.parametrize("name", [b"a b,c:1.gguf", "é日本.gguf".encode(), b"\xff.gguf", b"-m"])
def test_model_path_may_hold_anything(model, tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name
    shutil.copy(model, path)
    assert run_text(path, "-p", "a") == SPELLED


def test_prompt_file_that_cannot_be_read_is_a_failure(model, tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        assert f"{path}: cannot be read" in refusal(run(model, "-f", path), FAILURE)


@pytest.mark.parametrize("prompt", [b"a\0b", b"\xff\xfe", b"caf\xc3", b"\xed\xa0\x80", b"\xef\xbf\xbd"])
def test_prompt_may_hold_any_bytes(prompt, tmp_path):
    (tmp_path / "prompt").write_bytes(prompt)
    answer = run_json(ORACLE / "bases/base.gguf", "-f", tmp_path / "prompt", "-n", 4)
    assert answer["n_tokens_prompt"] > 0 and answer["n_tokens_out"] == 4


def test_default_model_comes_from_the_environment(model):
    done = patchbay("run", "-t", 1, "--temp", 0, "-q", "-p", "a", env=os.environ | {"PATCHBAY_MODEL": str(model)})
    assert done.stdout.decode() == SPELLED + "\n"


# Streams and signals


def test_full_or_closed_standard_output_is_a_failure(model):
    commands = [["run", "-m", model, "-t", 1, "-p", "a"], ["run", "-m", model, "-t", 1, "-p", "a", "--json"],
                ["run", "-m", model, "-t", 1, "-p", "a", "-n", 0], ["tokenize", "-m", model, "-p", "a"],
                ["inspect", model], ["bench", "-m", model, "-t", 1, "-p", 2, "-n", 2, "-r", 1], ["--help"]]
    for command in commands:
        for redirection in (">/dev/full", ">&-"):
            done = shell(f'exec "$0" "$@" {redirection}', *command)
            assert done.returncode == FAILURE and b"patchbay: " in done.stderr, command


def shell(script, *arguments):
    return subprocess.run(["sh", "-c", script, PATCHBAY, *map(str, arguments)], capture_output=True, timeout=60)


def test_full_or_closed_standard_error_changes_no_answer_and_no_exit_code(model):
    for redirection in ("2>/dev/full", "2>&-"):
        done = shell(f'exec "$0" "$@" {redirection}', "run", "-m", model, "-t", 1, "-p", "a", "--temp", 0)
        assert (done.returncode, done.stdout.decode()) == (0, SPELLED + "\n")
        assert shell(f'exec "$0" "$@" {redirection}', "run", "-m", "none", "-p", "a").returncode == FAILURE
        assert shell(f'exec "$0" "$@" {redirection}', "frob").returncode == USAGE


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A command whose answer takes longer than any test."""
    n_ctx = 1 << 20
    path = write_model(tmp_path_factory.mktemp("endless") / "long.gguf", n_ctx)
    return [PATCHBAY, "run", "-m", path, "-t", "1", "-c", str(n_ctx // 8), "-p", "a", "-n", "-1", "--ignore-eos", "-q"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_at_once(endless, number):
    # A shell that starts the tests in the background has told them to ignore SIGINT, and children inherit that.
    with subprocess.Popen(endless, stdout=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
        assert process.stdout.read(1) == b"b"
        process.send_signal(number)
        assert process.wait(10) == -number


def test_reader_that_leaves_ends_the_command(endless):
    with subprocess.Popen(endless, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"b"
        process.stdout.close()
        assert process.wait(10) in (-signal.SIGPIPE, FAILURE)


def test_processes_share_a_model_file(model):
    command = [PATCHBAY, "run", "-m", model, "-t", "1", "--temp", "0", "-q", "-p", "a"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate(timeout=60)[0].decode() for process in running] == [SPELLED + "\n"] * 4


def test_more_threads_than_cores_do_not_stall(model):
    done = patchbay("run", "-m", model, "-t", 512, "--temp", 0, "-q", "-p", "a", "-n", 2)
    assert done.stdout == b"bc\n" and b"512 threads on" in done.stderr


# tokenize and bench


def test_tokens_are_shown_as_ids_pieces_or_json(model):
    assert patchbay("tokenize", "-m", model, "-p", "abijk").stdout == b"0 1 8\n"
    assert patchbay("tokenize", "-m", model, input=b"ab").stdout == b"0 1\n"
    pieces = patchbay("tokenize", "-m", model, "-p", "aé", "--pieces").stdout.decode().split()
    assert pieces == ["0", '"a"', str(TOKENS.index("Ã")), '"\ufffd"', str(TOKENS.index("©")), '"\ufffd"']
    for text, tokens, shown in (("ab", [0, 1], ["a", "b"]), ("", [], [])):
        answer = json.loads(patchbay("tokenize", "-m", model, "-p", text, "--json", "--pieces").stdout)
        assert answer == {"tokens": tokens, "pieces": shown}


def test_special_tokens_are_text_on_demand(model):
    assert patchbay("tokenize", "-m", model, "-p", "a<eos>").stdout.split() == [b"0", str(EOS).encode()]
    plain = patchbay("tokenize", "-m", model, "-p", "a<eos>", "--no-parse-special")
    assert str(EOS).encode() not in plain.stdout.split()


def test_bench_measures_with_adapters(model, adapter):
    done = patchbay("bench", "-m", model, "-t", 1, "-p", 4, "-n", 4, "-r", 1, "--streams", 3, "--n-adapters", 2, "--rank",
                    4, "--lora", adapter, "--json")
    report = json.loads(done.stdout)
    assert (report["n_prompt"], report["n_gen"], report["n_streams"], report["n_adapters"]) == (4, 4, 3, 3)
    assert report["prefill_tokens_per_s"] > 0 and report["decode_tokens_per_s"] > 0


def weights_by_layout(*arguments):
    """What -v says of the default model: packed, interleaved, as stored."""
    done = run(DEFAULT_MODEL, "-v", "-p", "Once", "-n", 1, *arguments)
    assert done.returncode == 0, done.stderr
    return [int(n) for n in re.search(r"weights (\d+) packed.*, (\d+) interleaved, (\d+) as stored, in \d+ ms",
                                      done.stderr.decode()).groups()]


@pytest.mark.skipif(not HAS_PRODUCTS, reason="this processor has no products of ours")
def test_weights_are_left_to_ggml_or_as_stored_on_demand():
    if not os.path.exists(DEFAULT_MODEL):
        pytest.skip(f"no default model at {DEFAULT_MODEL}: scripts/setup fetches it")
    n_packed, _, n_as_stored = weights_by_layout()
    assert n_packed > n_as_stored > 0
    assert weights_by_layout("--ggml-products")[0] == 0
    assert weights_by_layout("--no-repack")[:2] == [0, 0]


# Memory


def peak_bytes(*arguments):
    process = subprocess.Popen([PATCHBAY, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_memory_stays_within_file_and_cache_and_150_mb():
    if not os.path.exists(DEFAULT_MODEL):
        pytest.skip(f"no default model at {DEFAULT_MODEL}: scripts/setup fetches it")
    n_ctx, f16_bytes = 1024, 2
    hparams = json.loads(patchbay("inspect", DEFAULT_MODEL, "--json").stdout)["hyper_parameters"]
    n_embd_kv = hparams["n_embd"] // hparams["n_head"] * hparams["n_head_kv"]
    kv_bytes = 2 * hparams["n_layer"] * n_embd_kv * n_ctx * f16_bytes
    limit = os.path.getsize(DEFAULT_MODEL) + kv_bytes + 150_000_000
    found = peak_bytes("run", "-m", DEFAULT_MODEL, "-t", "1", "-p", "Once upon a time", "-n", "4", "-c", str(n_ctx), "-q")
    assert found <= limit, f"{found / 1e6:.0f} MB, wanted at most {limit / 1e6:.0f} MB"
