"""GET /metrics, read by Prometheus' own client."""

import re
import shutil
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fixtures import ENDLESS, GREEDY, folder, long_model, model  # noqa: F401
from server_process import ServerProcess


@pytest.fixture
def server(model, folder):
    with ServerProcess(model, "--lora-dir", folder) as running:
        yield running


def until(holds, patience_s=10):
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, "does not come true"
        time.sleep(0.02)


class Scrape:
    """The samples of one scrape. What repeats, or belongs to no family, fails here."""

    def __init__(self, server, **headers):
        status, answer, text = server.get("/metrics", **headers)
        assert status == 200 and answer["Content-Type"].startswith("text/plain; version=0.0.4")
        self.samples = {}
        self.types = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            assert family.documentation and family.type != "unknown", family.name
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, key
                self.samples[key] = sample.value

    def __getitem__(self, name):
        return self.of(name)

    def of(self, name, **labels):
        return self.samples[name, tuple(sorted(labels.items()))]

    def labels(self, name, label):
        return {dict(labels)[label] for found, labels in self.samples if found == name and label in dict(labels)}


def ask(server, model="alphabet", **headers):
    assert server.post("/v1/completions", GREEDY | {"model": model}, **headers)[0] == 200


def test_requests_and_tokens_are_counted_by_adapter(server):
    assert Scrape(server).of("patchbay_requests_total", adapter="base", outcome="done") == 0
    for _ in range(2):
        ask(server)
    ask(server, "jump")
    _, _, body = server.post("/v1/completions", GREEDY | {"model": "jump"})
    after = Scrape(server)
    assert after.of("patchbay_requests_total", adapter="base", outcome="done") == 2
    assert after.of("patchbay_requests_total", adapter="jump", outcome="done") == 2
    assert after.of("patchbay_output_tokens_total", adapter="jump") == 2 * body["usage"]["completion_tokens"]
    assert after.of("patchbay_prompt_tokens_total", adapter="jump") == 2
    assert after.of("patchbay_queue_seconds_count", adapter="jump") == 2
    assert after.of("patchbay_time_to_first_token_seconds_count", adapter="base") == 2
    assert after.of("patchbay_inter_token_seconds_count", adapter="jump") == 2 * (body["usage"]["completion_tokens"] - 1)
    assert after.of("patchbay_adapter_rank", adapter="jump") == 1
    assert after.of("patchbay_adapter_size_bytes", adapter="jump") == 192
    # An exchange is counted when its answer has been sent, which its client may know before.
    until(lambda: Scrape(server).of("patchbay_http_requests_total", method="POST", route="/v1/completions", code="200") == 4)
    assert after.of("patchbay_adapter_load_seconds_count", tier="host") == 1
    assert after.of("patchbay_adapter_load_seconds_count", tier="device") == 1


def test_steps_are_counted_by_the_adapter_sets_that_they_serve(server):
    ask(server)
    before = Scrape(server)
    assert before.of("patchbay_step_adapter_sets_bucket", le="0") == before["llamacpp:n_decode_total"] > 0
    ask(server, "jump")
    both = {"lora": [{"name": "jump", "scale": 0.5}, {"name": "skip", "scale": 0.5}]}
    server.post("/v1/load_lora_adapter", {"lora_name": "skip", "lora_path": "skip.gguf"})
    assert server.post("/v1/completions", GREEDY | both)[0] == 200
    after = Scrape(server)
    assert after.of("patchbay_step_adapter_sets_bucket", le="0") == before["llamacpp:n_decode_total"]
    assert after.of("patchbay_step_adapter_sets_bucket", le="1") == after["llamacpp:n_decode_total"]
    assert after["patchbay_step_adapter_sets_sum"] == after["llamacpp:n_decode_total"] - before["llamacpp:n_decode_total"]


def test_what_goes_wrong_is_counted_by_its_outcome(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 1, "--queue-max", 1) as server:
        body = b'{"prompt": "a", "stream": true, "max_tokens": 60000, "logit_bias": {"16": -100}}'
        head = f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()

        def begin():
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(head + body)
            return connection

        running = begin()
        wait_for(server, "patchbay_answers_running", 1)
        waiting = begin()
        wait_for(server, "patchbay_requests_waiting", 1)
        scrape = Scrape(server)
        assert scrape["vllm:num_requests_running"] == scrape["vllm:num_requests_waiting"] == 1
        assert scrape["llamacpp:requests_processing"] == scrape["llamacpp:requests_deferred"] == 1
        assert 0 < scrape["vllm:kv_cache_usage_perc"] <= 1
        status, headers, answer = server.post("/v1/completions", ENDLESS)
        assert status == 429 and headers["Retry-After"] and answer["error"]["type"] == "RateLimitError"
        running.close()
        waiting.close()
        wait_for(server, "patchbay_answers_running", 0)
        deadline = time.monotonic() + 10
        while Scrape(server).of("patchbay_requests_total", adapter="base", outcome="cancelled") < 2:
            assert time.monotonic() < deadline
        assert Scrape(server).of("patchbay_requests_total", adapter="base", outcome="refused") == 1


def wait_for(server, name, value):
    deadline = time.monotonic() + 10
    while Scrape(server)[name] != value:
        assert time.monotonic() < deadline, name
        time.sleep(0.01)


def test_the_gateways_see_one_series_of_adapters_that_changes_with_them(server):
    def info(scrape):
        [(labels, value)] = [(dict(labels), value) for (name, labels), value in scrape.samples.items()
                             if name == "vllm:lora_requests_info"]
        assert set(labels) == {"max_lora", "running_lora_adapters", "waiting_lora_adapters"}
        return labels, value

    empty, first_change = info(Scrape(server))
    assert empty["running_lora_adapters"] == empty["waiting_lora_adapters"] == "" and int(empty["max_lora"]) >= 64
    assert info(Scrape(server))[1] == first_change
    ask(server, "jump")
    ask(server, "skip")
    labels, changed = info(Scrape(server))
    assert labels["running_lora_adapters"] == "jump,skip" and first_change < changed <= time.time()
    scrape = Scrape(server)
    assert scrape.of("vllm:lora_adapter_loaded", adapter_name="jump", level="gpu", pinned="false", rank="1") == 1
    assert scrape["vllm:num_gpu_loaded_lora_adapters"] == scrape["vllm:num_cpu_loaded_lora_adapters"] == 2
    assert scrape["vllm:max_gpu_lora_adapters"] >= 2 and scrape["vllm:lora_adapter_load_seconds_count"] == 2
    assert scrape.of("vllm:cache_config_info", block_size="32", num_gpu_blocks="1") == 1
    server.post("/v1/unload_lora_adapter", {"lora_name": "skip"})
    assert info(Scrape(server))[0]["running_lora_adapters"] == "jump"


def test_counters_of_a_name_go_on_when_it_comes_back_and_others_leave(server):
    ask(server, "jump")
    server.post("/v1/unload_lora_adapter", {"lora_name": "jump"})
    assert Scrape(server).labels("patchbay_requests_total", "adapter") == {"base"}
    ask(server, "jump")
    assert Scrape(server).of("patchbay_requests_total", adapter="jump", outcome="done") == 2


def test_names_of_any_script_and_quotes_are_labels(server, folder):
    for name in ('qu"ote', "back\\slash", "naïve/文:1", "{}=~"):
        shutil.copy(folder / "jump.gguf", folder / "copy.gguf")
        wish = {"lora_name": name, "lora_path": "copy.gguf"}
        assert server.post("/v1/load_lora_adapter", wish)[0] == 200
        ask(server, name)
        assert Scrape(server).of("patchbay_requests_total", adapter=name, outcome="done") == 1
        assert name in Scrape(server).labels("vllm:lora_adapter_loaded", "adapter_name")
    (folder / "copy.gguf").unlink()


def test_unknown_names_paths_and_methods_make_no_series(server):
    for i in range(5):
        server.post("/v1/completions", GREEDY | {"model": f"none{i}"})
        server.get(f"/none{i}")
        server.ask(f"ODD{i}", "/health")
    scrape = Scrape(server)
    assert scrape.labels("patchbay_requests_total", "adapter") == {"base"}
    assert scrape.labels("patchbay_http_requests_total", "method") == {"POST", "other"}


def test_the_process_is_described(server):
    scrape = Scrape(server)
    assert scrape["process_resident_memory_bytes"] > 1e6 and scrape["process_open_fds"] >= 5
    assert 0 <= scrape["process_cpu_seconds_total"] < 100
    assert abs(scrape["process_start_time_seconds"] - time.time()) < 300
    assert scrape["process_max_fds"] > 0 and scrape["process_virtual_memory_bytes"] > 1e6


def test_a_key_sees_what_it_may_wear(model, folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('{"key": "k1", "name": "team", "adapters": ["jump"]}\n')
    admin = {"Authorization": "Bearer secret"}
    with ServerProcess(model, "--lora-dir", folder, "--api-key", "secret", "--api-key-file", keys) as server:
        assert server.get("/metrics")[0] == 401
        for name in ("jump", "skip"):
            ask(server, name, **admin)
        assert Scrape(server, **admin).labels("patchbay_requests_total", "adapter") == {"base", "jump", "skip"}
        team = {"Authorization": "Bearer k1"}
        scrape = Scrape(server, **team)
        assert scrape.labels("patchbay_requests_total", "adapter") == {"base", "jump"}
        assert scrape.labels("vllm:lora_requests_info", "running_lora_adapters") == {"jump"}
        assert "skip" not in server.get("/metrics", **team)[2]


def test_metrics_can_be_off(model):
    with ServerProcess(model, "--no-metrics") as server:
        assert server.get("/metrics")[0] == 404


def test_adapters_that_leave_are_counted(model, folder):
    with ServerProcess(model, "--lora-dir", folder, "--adapter-memory", 500) as server:
        ask(server, "jump")
        ask(server, "skip")
        scrape = Scrape(server)
        assert scrape["patchbay_adapter_evictions_total"] == 1 and scrape["patchbay_adapters_resident"] == 1
        assert scrape.of("patchbay_adapter_resident", adapter="jump", tier="device") == 0
        assert scrape.of("patchbay_adapter_resident", adapter="jump", tier="host") == 1


def test_help_is_one_line_each(server):
    assert not re.search(r"^[^#\w]", server.get("/metrics")[2], re.M)
