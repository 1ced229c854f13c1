"""The scripts of bench/: the adapters they make, the server they drive and the figures they print."""

import http.server
import json
import pathlib
import sys
import threading

import pytest

from command import ROOT, patchbay

sys.path.insert(0, str(ROOT / "bench"))

from compare import summarise  # noqa: E402
from engines import Server  # noqa: E402
from make_adapters import MODEL, make_adapters  # noqa: E402
from workloads import Workload  # noqa: E402


def test_made_adapters_fit_the_model_and_differ(tmp_path):
    first, second = make_adapters(pathlib.Path(MODEL), tmp_path, 2, 8)
    assert first.read_bytes() != second.read_bytes()
    done = patchbay("inspect", first, "--base", MODEL, "--json")
    assert done.returncode == 0, done.stderr
    shown = patchbay("inspect", first, "--base", MODEL).stdout.decode()
    assert "8 (210 pairs)" in shown  # seven linear weights in each of 30 layers


def test_made_adapters_are_kept(tmp_path):
    (path,) = make_adapters(pathlib.Path(MODEL), tmp_path, 1, 4)
    before = path.stat().st_mtime_ns
    assert make_adapters(pathlib.Path(MODEL), tmp_path, 1, 4) == [path]
    assert path.stat().st_mtime_ns == before


@pytest.fixture
def server():
    """Answers each completion as its `answer` function says and keeps the requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.requests.append(request)
            answer = json.dumps(self.server.answer(request)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.requests = []
        running.answer = lambda request: {
            "tokens_predicted": request["n_predict"],
            "tokens_evaluated": len(request["prompt"]),
            "timings": {"predicted_per_second": 70.0, "prompt_per_second": 900.0},
        }
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def engine(server) -> Server:
    return Server(f"http://127.0.0.1:{server.server_address[1]}")


def test_one_stream_is_measured_by_the_servers_clock(server):
    assert engine(server).speed(Workload("w", "decode")) == 70
    assert engine(server).speed(Workload("w", "prefill", n_prompt=128)) == 900


def test_each_stream_wears_its_own_adapter_and_no_other(server):
    engine(server).speed(Workload("w", "decode", n_streams=4, n_adapters=2))
    worn = sorted(tuple(one["scale"] for one in request["lora"]) for request in server.requests)
    assert worn == [(0.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.0)]
    assert len({tuple(request["prompt"]) for request in server.requests}) == 4


def test_an_answer_shorter_than_asked_for_is_no_measurement(server):
    server.answer = lambda request: {"tokens_predicted": 1, "tokens_evaluated": 16, "timings": {}}
    with pytest.raises(SystemExit, match="did not do all"):
        engine(server).speed(Workload("w", "decode"))


def test_the_ratio_is_the_median_of_the_rounds():
    summary = summarise({"patchbay": [10.0, 20.0, 30.0], "peer": [10.0, 10.0, 10.0]})
    assert summary["patchbay"]["tokens_per_s"] == 20
    assert summary["peer"]["ratio"] == 2
    assert "ratio" not in summary["patchbay"]
