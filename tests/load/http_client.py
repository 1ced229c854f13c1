"""A client on asyncio that can do what well-behaved ones do not: go away in the middle, send nonsense."""

import asyncio
import dataclasses
import json


@dataclasses.dataclass
class Answer:
    status: int = 0  # 0: nothing came before one side went away
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: str = ""  # of a stream all events so far
    is_whole: bool = False

    def json(self):
        return json.loads(self.body)

    def events(self) -> list:
        """The values of whole server-sent events; what is no JSON ("[DONE]") is left out."""
        texts = [block.removeprefix("data: ") for block in self.body.split("\n\n")[:-1] if block.startswith("data: ")]
        return [json.loads(text) for text in texts if text.startswith("{")]


def request_bytes(method: str, path: str, body=None) -> bytes:
    """`body`: bytes as they are, anything else as JSON, None: without one."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    length = f"Content-Length: {len(data)}\r\n" if body is not None else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + data


class Client:
    """One caller, which keeps its connection from one whole answer to the next."""

    def __init__(self, port: int):
        self._port = port
        self._reader = self._writer = None

    async def ask(self, data: bytes, cut_after: int | None = None) -> Answer:
        """Sends one request. `cut_after`: goes away after that many parts of a stream, 0: without reading anything."""
        answer = Answer()
        for is_last_try in (False, True):
            is_kept = self._writer is not None
            try:
                await self._connect()
                self._writer.write(data)
                await self._writer.drain()
                if cut_after != 0:
                    await self._read(answer, cut_after)
                break
            except (ConnectionError, asyncio.IncompleteReadError):
                await self.close()
                # The server may have closed a connection that was kept just before the request came.
                if not is_kept or answer.status != 0 or is_last_try:
                    return answer
        if not answer.is_whole or answer.headers.get("connection") == "close":
            await self.close(abort=not answer.is_whole and len(data) % 2 == 0)
        return answer

    async def close(self, abort: bool = False) -> None:
        """`abort`: by a reset, as a client that is killed with unread bytes does."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is None:
            return
        if abort:
            writer.transport.abort()
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass

    async def _connect(self) -> None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def _read(self, answer: Answer, cut_after: int | None) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        answer.status = int(head[0].split()[1])
        answer.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        if answer.headers.get("transfer-encoding") == "chunked":
            await self._read_parts(answer, cut_after)
        else:
            answer.body = (await self._reader.readexactly(int(answer.headers.get("content-length", 0)))).decode()
            answer.is_whole = True

    async def _read_parts(self, answer: Answer, cut_after: int | None) -> None:
        parts = []
        while cut_after is None or len(parts) < cut_after:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            part = (await self._reader.readexactly(size + 2))[:-2]
            if size == 0:
                answer.is_whole = True
                break
            parts.append(part)
        answer.body = b"".join(parts).decode()
