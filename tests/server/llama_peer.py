"""llama-server under the same small client as `patchbay serve`: $LLAMA_SERVER is its program."""

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from server_process import ServerProcess

LLAMA_SERVER = os.environ.get("LLAMA_SERVER")


def environment():
    """Its libraries lie beside it."""
    return os.environ | {"LD_LIBRARY_PATH": str(Path(LLAMA_SERVER).parent)}


def llama_version():
    done = subprocess.run([LLAMA_SERVER, "--version"], env=environment(), capture_output=True, text=True, timeout=60)
    [line] = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("version: ")]
    return line.removeprefix("version: ").split()[0]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class LlamaServerProcess(ServerProcess):
    """It does not say which port it was given, so it is told one."""

    def __init__(self, model, *arguments):
        super().__init__(model)
        self.port = free_port()
        self._command = [LLAMA_SERVER, "-m", str(model), "-t", "1", "--port", str(self.port), *map(str, arguments)]

    def __enter__(self):
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment())
        deadline = time.monotonic() + 60
        while not self.is_healthy():
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return self

    def is_healthy(self):
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False
