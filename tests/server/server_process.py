"""`patchbay serve` over the model that spells, and a small client."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from command import PATCHBAY  # noqa: E402


class ServerProcess:
    """A server on a free port, until the block ends."""

    def __init__(self, model, *arguments, scheme="http", n_threads=1, patience_s=30, env=None):
        """`patience_s`: for one answer; `env`: variables beside the usual ones."""
        self._env = os.environ | (env or {})
        self._scheme = scheme
        self._patience_s = patience_s
        self._command = [PATCHBAY, "serve", "-m", str(model), "-t", str(n_threads), "--port", "0", *map(str, arguments)]

    def __enter__(self):
        # A file, as nobody empties a pipe while the server logs.
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=self._env)
        line = self.process.stdout.readline()
        assert f" on {self._scheme}://" in line, self.said()
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self._errors.close()

    def said(self):
        """All that it wrote on standard error so far."""
        self._errors.seek(0)
        return self._errors.read()

    def stop(self):
        """What it wrote on standard error until its end."""
        self.process.terminate()
        self.process.wait(timeout=20)
        return self.said()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._patience_s)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body; JSON as a value."""
        connection = self.connect()
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status, answer.headers, json.loads(text) if is_json and text else text

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def get(self, path, **headers):
        return self.ask("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})

    def events(self, path, body):
        """The data of each server-sent event."""
        status, headers, text = self.post(path, body)
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), text
        return [block.removeprefix("data: ") for block in text.split("\n\n") if block.startswith("data: ")]

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
