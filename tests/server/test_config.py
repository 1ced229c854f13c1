"""Where the options of `patchbay serve` come from."""

import json
import os
import tomllib

import pytest

from fixtures import GREEDY, folder, model  # noqa: F401
from server_process import ServerProcess

from command import patchbay, refusal  # noqa: E402


def printed(*arguments, **environment):
    done = patchbay("serve", "--print-config", *arguments, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout.decode()), done.stdout.decode()


def test_flags_stand_above_the_environment_above_the_file_above_the_default(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("port = 1001\nparallel = 3\nctx-size = 100\nhost = \"1.2.3.4\"\n")
    assert printed()[0]["port"] == 8080
    config, _ = printed("--config", file, "-c", 300, LLAMA_ARG_N_PARALLEL="5", PATCHBAY_CTX_SIZE="200")
    assert (config["port"], config["parallel"], config["ctx-size"], config["host"]) == (1001, 5, 300, "1.2.3.4")
    assert printed(PATCHBAY_CONFIG=str(file))[0]["port"] == 1001
    assert printed("--config", file, "--kv-memory", "1G")[0]["kv-memory"] == "1G"


def test_what_is_printed_is_a_configuration_that_prints_the_same(tmp_path):
    file = tmp_path / "c.toml"
    flags = ("-np", 7, "--lora", "a,b", "--lora", "c='d\\e", "--temp", 0.25, "--no-metrics", "--alias", "naïve # 'x'",
             "--cors-origins", "https://a,https://b", "--log-format", "json", "--timeout-idle", 9, "-c", 0, "--seed", -1)
    config, text = printed(*flags)
    assert config["lora"] == ["a,b", "c='d\\e"] and config["no-metrics"] and config["alias"] == "naïve # 'x'"
    file.write_text(text)
    assert printed("--config", file)[1] == text
    file.write_text(json.dumps(config))
    assert printed("--config", file)[1] == text


def test_keys_are_not_printed():
    _, text = printed("--api-key", "s3cret", "--api-key", "other", "--api-key-file", "keys")
    assert "s3cret" not in text and "other" not in text and 'api-key-file = ["keys"]' in text
    assert "s3cret" not in printed(LLAMA_API_KEY="s3cret")[1]


@pytest.mark.parametrize(("text", "words"), [
    ("prot = 1", ["c.toml", "prot"]), ("[serve]\nport = 1", ["c.toml", "line 1"]), ("port 8080", ["c.toml", "line 1"]),
    ("port = 70000", ["c.toml", "port", "70000"]), ("port = [1, 2]", ["c.toml", "port"]), ('{"port": {}}', ["c.toml", "port"]),
    ("metrics = 3", ["c.toml", "metrics"]), ('{"port": 1', ["c.toml", "JSON"]), ("log-format = 'x'", ["c.toml", "log-format"])])
def test_what_a_file_gets_wrong_is_named(tmp_path, text, words):
    (tmp_path / "c.toml").write_text(text)
    done = patchbay("serve", "--config", tmp_path / "c.toml")
    assert done.returncode in (1, 2)
    said = refusal(done, done.returncode)
    assert all(word in said for word in words), said


def test_what_the_environment_gets_wrong_is_named():
    for name, value in (("LLAMA_ARG_PORT", "x"), ("PATCHBAY_METRICS", "perhaps"), ("PATCHBAY_LOG_FORMAT", "xml")):
        done = patchbay("serve", env=os.environ | {name: value})
        assert name in refusal(done, 2)
    assert "none.toml" in refusal(patchbay("serve", "--config", "none.toml"), 1)


def test_a_variable_that_is_no_options_is_told(model):
    with ServerProcess(model, env={"PATCHBAY_PROT": "1"}) as server:
        assert any("PATCHBAY_PROT" in line and "no effect" in line for line in server.stop().splitlines())


def test_command_lines_for_llama_server_start(model, folder):
    flags = ("-np", 2, "-ub", 64, "-b", 32, "-ngl", 99, "-fa", "on", "-c", 0, "-n", 3, "--temp", 0, "--seed", -1, "--jinja",
             "--no-webui", "-cram", 100, "--kv-unified", "-to", 60, "--metrics", "--slots", "--embedding", "--pooling", "last",
             "--lora-scaled", f"{folder / 'jump.gguf'}:0.5", "--lora-init-without-apply", "--cache-type-k", "f16", "-lv", 3,
             "--flash-attn", "--verbose", "-a", "mine", "--tags", "x", "--context-shift", "--no-mmap")
    with ServerProcess(model, *flags) as server:
        assert server.post("/completion", {"prompt": "a"})[2]["content"] == "bcd"
        assert server.get("/v1/models")[2]["data"][0]["max_model_len"] == 32
        said = server.stop()
    warned = [line for line in said.splitlines() if "has no meaning here" in line]
    assert len(warned) == 10 and sum("--flash-attn" in line for line in warned) == 1, said


def test_flags_that_nobody_knows_are_usage_errors():
    for flags in (("--frobnicate",), ("--hf-repo", "a/b"), ("-zz", 3)):
        assert patchbay("serve", *flags).returncode == 2


def test_a_bad_adapter_ends_the_start_unless_it_may_be_left_out(model, folder, tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and nothing else")
    loras = ("--lora", f"{folder / 'jump.gguf'},{tmp_path / 'broken.gguf'}")
    assert "broken.gguf" in refusal(patchbay("serve", "-m", model, "--port", 0, *loras), 1)
    with ServerProcess(model, *loras, "--skip-bad-adapters") as server:
        assert [entry["name"] for entry in server.get("/lora-adapters")[2]] == ["jump"]
        assert server.post("/v1/completions", GREEDY)[2]["choices"][0]["text"].startswith("m")
        assert "broken" in server.stop()
