"""What adapters' names mean while they change, and the controllers that change them in every dialect."""

import asyncio
import dataclasses
import random
from pathlib import Path

from http_client import Client, request_bytes

# What a request wears: adapters by their number among the files, each with its strength.
Worn = tuple[tuple[int, float], ...]


@dataclasses.dataclass
class Meaning:
    """What a name, or the default set, means: one controller at a time changes it. A request may meet any meaning from
    the last one confirmed when it was sent to the last one asked for when it was answered."""

    asked: list[Worn | None] = dataclasses.field(default_factory=lambda: [None])  # None: the name is unknown
    i_confirmed: int = 0

    def begin(self, worn: Worn | None) -> None:
        self.asked.append(worn)

    def confirm(self) -> None:
        self.i_confirmed = len(self.asked) - 1

    def now(self) -> Worn | None:
        return self.asked[self.i_confirmed]

    def since(self, i_first: int) -> set[Worn | None]:
        return set(self.asked[i_first:])


class Names:
    """`files`: of adapters, in a folder from which the server loads. The first `n_fixed` are loaded as a0, a1, ... all the
    time, at strength 0. The others go by two kinds of name that come and go: c0, c1, ... whose adapter is another one
    after each load, and the files' own names, which the server finds by itself."""

    def __init__(self, files: list[Path], n_fixed: int):
        self.files = files
        self.n_fixed = n_fixed
        self.meanings = {f"a{i}": Meaning([((i, 1.0),)]) for i in range(n_fixed)}
        n_others = len(files) - n_fixed
        self.changing = [f"c{i}" for i in range(max(1, n_others // 2))]
        self.found = {file.stem: i for i, file in enumerate(files) if i >= n_fixed + n_others // 2}
        self.meanings |= {name: Meaning() for name in self.changing}
        self.meanings |= {name: Meaning([((i, 1.0),)]) for name, i in self.found.items()}
        self.default = Meaning([()])

    def others(self) -> range:
        return range(self.n_fixed, len(self.files))


class Controllers:
    """Loads, replaces and unloads, each name by one task. `problems` collects what should not have happened."""

    def __init__(self, port: int, names: Names, seed: int, problems: list[str]):
        self._port = port
        self._names = names
        self._chance = random.Random(seed)
        self._problems = problems
        self.n_changes = 0

    async def run(self, is_over: asyncio.Event, pause_s: float) -> None:
        tasks = [self._change(name, pause_s, is_over) for name in self._names.changing]
        tasks += [self._forget(name, pause_s, is_over) for name in self._names.found]
        await asyncio.gather(*tasks, self._set_defaults(pause_s, is_over))

    async def _pause(self, pause_s: float, is_over: asyncio.Event) -> None:
        try:
            await asyncio.wait_for(is_over.wait(), pause_s * self._chance.uniform(0.2, 1.8))
        except TimeoutError:
            pass

    async def _ask(self, client: Client, method: str, path: str, body, statuses=(200,)) -> int:
        answer = await client.ask(request_bytes(method, path, body))
        self.n_changes += 1
        if answer.status not in statuses:
            self._problems.append(f"{method} {path} {body}: {answer.status} {answer.body}")
        return answer.status

    async def _change(self, name: str, pause_s: float, is_over: asyncio.Event) -> None:
        """One name: loaded, replaced, unloaded, over and over."""
        client = Client(self._port)
        meaning = self._names.meanings[name]
        while not is_over.is_set():
            number = self._chance.choice(self._names.others())
            path = self._names.files[number]
            is_loaded = meaning.now() is not None
            if is_loaded and self._chance.random() < 0.5:
                meaning.begin(None)
                await self._unload(client, name)
            elif is_loaded:
                meaning.begin(((number, 1.0),))
                wish = {"lora_name": name, "lora_path": path.name, "load_inplace": True}
                await self._ask(client, "POST", "/v1/load_lora_adapter", wish)
            else:
                meaning.begin(((number, 1.0),))
                await self._load(client, name, path)
            meaning.confirm()
            await self._pause(pause_s, is_over)
        await client.close()

    async def _load(self, client: Client, name: str, path: Path) -> None:
        how = self._chance.choice(("vllm", "sglang", "dynamo"))
        if how == "dynamo":
            wish = {"lora_name": name, "source": {"uri": f"file://{path.resolve()}"}}
            await self._ask(client, "POST", "/v1/loras", wish)
        else:
            route = "/v1/load_lora_adapter" if how == "vllm" else "/load_lora_adapter"
            await self._ask(client, "POST", route, {"lora_name": name, "lora_path": path.name})

    async def _unload(self, client: Client, name: str, is_known: bool = True) -> None:
        how = self._chance.choice(("vllm", "sglang", "dynamo"))
        if how == "dynamo":
            await self._ask(client, "DELETE", f"/v1/loras/{name}", None, (200,) if is_known else (200, 404))
        else:
            route, missing = ("/v1/unload_lora_adapter", 404) if how == "vllm" else ("/unload_lora_adapter", 400)
            await self._ask(client, "POST", route, {"lora_name": name}, (200,) if is_known else (200, missing))

    async def _forget(self, name: str, pause_s: float, is_over: asyncio.Event) -> None:
        """A name that the next request that wears it brings back: nobody notices."""
        client = Client(self._port)
        while not is_over.is_set():
            await self._unload(client, name, is_known=False)
            await self._pause(pause_s, is_over)
        await client.close()

    async def _set_defaults(self, pause_s: float, is_over: asyncio.Event) -> None:
        """What requests wear that say nothing, among sets of adapters that are always there."""
        client = Client(self._port)
        sets = [(), ((0, 1.0),), ((0, 0.5), (self._names.n_fixed - 1, 0.5))]
        while not is_over.is_set():
            worn = self._chance.choice(sets)
            self._names.default.begin(worn)
            scales = [{"id": number, "scale": strength} for number, strength in worn]
            await self._ask(client, "POST", "/lora-adapters", scales)
            self._names.default.confirm()
            await self._pause(pause_s, is_over)
        await client.close()
