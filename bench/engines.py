"""The engines that bench/compare.py measures. Each is a context manager, open while one workload is measured, whose
`speed(workload)` is one measurement in tokens per second. `can(workload)` says whether it is able to.
"""

import concurrent.futures
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

from workloads import Workload


def run_json_lines(command: list[str]) -> list[dict]:
    """The JSON objects that a command prints, one a line."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nfailed with {result.returncode}:\n{result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


class Patchbay:
    """`patchbay bench`, one process per measurement. Makes its random adapters itself."""

    name = "patchbay"

    def __init__(self, program: pathlib.Path, model: pathlib.Path, n_threads: int, more_arguments: list[str]):
        self._command = [str(program), "bench", "-m", str(model), "-t", str(n_threads), "--json", "-r", "1"]
        self._command += more_arguments

    def can(self, workload: Workload) -> bool:
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def speed(self, workload: Workload) -> float:
        decode = workload.phase == "decode"
        sizes = {
            # Its prefill is one prompt of which each adapter wears a part.
            "-p": 1 if decode else workload.n_prompt * workload.n_streams,
            "-n": workload.n_gen if decode else 1,
            "--streams": workload.n_streams,
            "--n-adapters": workload.n_adapters,
            "--rank": workload.n_rank,
        }
        options = [str(word) for option in sizes.items() for word in option]
        return run_json_lines(self._command + options)[0][f"{workload.phase}_tokens_per_s"]


class BatchedBench:
    """llama.cpp's `llama-batched-bench`: no HTTP, no sampling; one adapter for all streams at most."""

    name = "peer bench"

    def __init__(self, folder: pathlib.Path, model: pathlib.Path, n_threads: int, adapters):
        self._command = [str(folder / "llama-batched-bench"), "-m", str(model), "-t", str(n_threads)]
        self._command += ["--output-format", "jsonl"]
        self._adapters = adapters

    def can(self, workload: Workload) -> bool:
        return workload.n_adapters <= 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def speed(self, workload: Workload) -> float:
        n_gen = workload.n_gen if workload.phase == "decode" else 1
        command = self._command + ["-npp", str(workload.n_prompt), "-ntg", str(n_gen), "-npl", str(workload.n_streams)]
        command += ["-c", str(n_ctx(workload))]
        for path in self._adapters(workload):
            command += ["--lora", str(path)]
        found = run_json_lines(command)[0]
        return found["speed_tg" if workload.phase == "decode" else "speed_pp"]


def n_ctx(workload: Workload) -> int:
    """Room for all streams; each gets a multiple of 256 cells, as llama.cpp rounds."""
    per_stream = -(-(workload.n_prompt + workload.n_gen + 1) // 256) * 256
    return per_stream * workload.n_streams


class Server:
    """A server that speaks llama-server's /completion, at a URL that the caller looks after."""

    name = "server"

    def __init__(self, url: str):
        self._url = url.rstrip("/")

    def can(self, workload: Workload) -> bool:
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def speed(self, workload: Workload) -> float:
        """One stream: by the server's own clock. Several: tokens by our clock, first request to last answer."""
        bodies = [self._body(workload, i) for i in range(workload.n_streams)]
        with concurrent.futures.ThreadPoolExecutor(workload.n_streams) as pool:
            start = time.perf_counter()
            answers = list(pool.map(self._complete, bodies))
            seconds = time.perf_counter() - start
        self._check(workload, answers)
        if workload.n_streams == 1:
            timings = answers[0]["timings"]
            return timings["predicted_per_second" if workload.phase == "decode" else "prompt_per_second"]
        n_tokens = workload.n_gen if workload.phase == "decode" else workload.n_prompt
        return workload.n_streams * n_tokens / seconds

    @staticmethod
    def _body(workload: Workload, i: int) -> dict:
        body = {
            "prompt": [(7919 * pos + 104729 * i + 1) % 40000 + 100 for pos in range(workload.n_prompt)],
            "n_predict": workload.n_gen if workload.phase == "decode" else 1,
            "ignore_eos": True,
            "cache_prompt": False,
            "temperature": 0,
            "samplers": ["temperature"],  # others would be charged to the engine
        }
        # What is not named would keep its default strength.
        worn = i % workload.n_adapters if workload.n_adapters else None
        body["lora"] = [{"id": k, "scale": 1.0 if k == worn else 0.0} for k in range(workload.n_adapters)]
        return body

    def _complete(self, body: dict) -> dict:
        request = urllib.request.Request(
            f"{self._url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    @staticmethod
    def _check(workload: Workload, answers: list[dict]) -> None:
        """A server that did less than it was asked would look fast."""
        n_gen = workload.n_gen if workload.phase == "decode" else 1
        for answer in answers:
            if answer["tokens_predicted"] != n_gen or answer["tokens_evaluated"] != workload.n_prompt:
                raise SystemExit(f"the server did not do all of {workload}: {answer['timings']}")


class PeerServer(Server):
    """llama.cpp's `llama-server`, started for one workload with its adapters loaded and a slot for each stream."""

    name = "peer server"

    def __init__(self, folder: pathlib.Path, model: pathlib.Path, n_threads: int, adapters, workload: Workload):
        self._port = free_port()
        super().__init__(f"http://127.0.0.1:{self._port}")
        self._command = [str(folder / "llama-server"), "-m", str(model), "-t", str(n_threads), "-np"]
        self._command += [str(workload.n_streams), "-c", str(n_ctx(workload)), "--host", "127.0.0.1", "--port"]
        self._command += [str(self._port), "--log-disable", "--no-webui", "--cache-ram", "0"]
        self._workload = workload
        if paths := adapters(workload):
            self._command += ["--lora", ",".join(map(str, paths)), "--lora-init-without-apply"]
        self._process = None

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait_until_ready()
            self.speed(self._workload)  # warms caches and pages
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_ready(self) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                raise SystemExit(f"{' '.join(self._command)}\nended with {self._process.returncode}")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise SystemExit(f"{' '.join(self._command)}\nis not ready after two minutes")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def n_cpus() -> int:
    return len(os.sched_getaffinity(0))
