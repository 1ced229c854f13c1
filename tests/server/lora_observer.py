"""Asks one server, ours or llama-server, what the points of lora_points.py ask. Servers are kept from one point to the next."""

from llama_peer import LlamaServerProcess
from lora_points import FLAGS
from server_process import ServerProcess


class Observer:
    def __init__(self, files, is_ours):
        self.is_ours = is_ours
        self._files = files
        self._process = ServerProcess if is_ours else LlamaServerProcess
        self._running = {}  # by the name of its flags: server and its scales at first

    def __enter__(self):
        return self

    def __exit__(self, *ended):
        for server, _ in self._running.values():
            server.__exit__(*ended)

    def observe(self, point):
        """What the server answers."""
        if not point.flags:
            return point.observe(self._launch, self._files)
        server, scales = self._server(point.flags)
        server.post("/lora-adapters", [{"id": i, "scale": scale} for i, scale in enumerate(scales)])
        return point.observe(server)

    def _server(self, name):
        if name not in self._running:
            server = self._process(self._files.model, *self._files.common(), *FLAGS[name](self._files)).__enter__()
            self._running[name] = server, [entry["scale"] for entry in server.get("/lora-adapters")[2]]
        return self._running[name]

    def _launch(self, *flags):
        """A server that has started, to be ended by `with`, or what it said instead."""
        server = self._process(self._files.model, *self._files.common(), *flags)
        try:
            return Started(server.__enter__())
        except AssertionError:
            said = server.said()
            server.__exit__(None, None, None)
            return said


class Started:
    def __init__(self, server):
        self._server = server

    def __enter__(self):
        return self._server

    def __exit__(self, *ended):
        self._server.__exit__(*ended)
