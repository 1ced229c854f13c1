"""Many callers at once who ask all kinds of things, go away and change adapters, and what must be true all the while.

    python tests/load/mixed_load.py --minutes 5

Starts `patchbay serve` (a release build) on the default model with random adapters and plays `--streams` callers against it: answers
whole and streamed, in every dialect, greedy and with fixed seeds, wearing nothing, one adapter or two; callers that go
away before, during and after the first token; requests that are wrong; adapters loaded, replaced and unloaded; the
default set changed. Checks, and ends with 1 where one does not hold:

- every request is answered with the status it has to have, and no other;
- every answer, and the part of one that was cut, is what the same request gets alone on a server without a prefix cache;
- memory stays flat: the most that was resident in the last quarter is at most 3 % above the most in the first quarter
  after the warm-up (the first third of the time);
- as many descriptors are open in the end as in the beginning;
- /metrics agrees with what was asked, and with itself.
"""

import argparse
import asyncio
import collections
import dataclasses
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/server"), str(ROOT / "bench")]

from http_client import Client, request_bytes  # noqa: E402
from make_adapters import MODEL, make_adapters  # noqa: E402
from metrics_check import Metrics, contradictions, decreases, miscounts  # noqa: E402
from questions import DIALECTS, WRONG, Question, make_questions, text_of  # noqa: E402
from served_names import Controllers, Names, Worn  # noqa: E402
from server_process import ServerProcess  # noqa: E402

STRENGTH = 64  # of the random adapters, so that answers differ


@dataclasses.dataclass
class Load:
    n_streams: int = 64
    n_adapters: int = 16
    n_questions: int = 120
    n_rank: int = 8
    seconds: float = 300
    n_threads: int = 2
    n_ctx: int = 1024  # less than all streams need, so that some wait
    pause_s: float = 2  # between two changes of a name
    seed: int = 1
    growth_bound: float = 0.03  # of memory; a load of seconds is all warm-up


@dataclasses.dataclass
class Seen:
    """One answer to a question, and what it may have been asked of."""

    question: Question
    candidates: set[Worn | None]
    text: str
    is_whole: bool
    how: str


@dataclasses.dataclass
class Count:
    n_sent: int = 0
    n_whole: int = 0
    n_cut: int = 0
    n_refused: int = 0  # as they had to be


class Callers:
    def __init__(self, port: int, load: Load, names: Names, problems: list[str]):
        self._port = port
        self._names = names
        self._chance = random.Random(load.seed)
        self._questions = make_questions(load.n_questions, self._chance)
        self._problems = problems
        self.seen: list[Seen] = []
        self.counts: dict[str, Count] = collections.defaultdict(Count)
        # Answered to the end, and left.
        self.by_adapter: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        self.by_route: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])

    async def run(self, n: int, is_over: asyncio.Event) -> None:
        await asyncio.gather(*(self._call(is_over) for _ in range(n)))

    async def _call(self, is_over: asyncio.Event) -> None:
        client = Client(self._port)
        while not is_over.is_set():
            if self._chance.random() < 0.1:
                await self._ask_wrongly(client)
            else:
                await self._ask(client, self._chance.choice(self._questions))
        await client.close()

    async def _ask_wrongly(self, client: Client) -> None:
        method, path, body, status = self._chance.choice(WRONG)
        count = self.counts["other routes, faults"]
        count.n_sent += 1
        answer = await client.ask(request_bytes(method, path, body))
        if answer.status != status:
            self._problems.append(f"{method} {path} {str(body)[:80]}: want {status}, found {answer.status} {answer.body[:300]}")
        count.n_whole += status == 200
        count.n_refused += status != 200

    async def _ask(self, client: Client, question: Question) -> None:
        dialect = self._chance.choice(DIALECTS[question.kind])
        is_stream = dialect.stream_path is not None and self._chance.random() < 0.6
        wish, meaning, is_known_by_list = self._choose_adapters()
        cut_after = self._chance.choice((0, 1, 2, 4, 8)) if self._chance.random() < 0.25 else None
        if not is_stream and cut_after is not None:
            cut_after = 0
        path = dialect.stream_path if is_stream else dialect.path
        i_first = meaning.i_confirmed
        answer = await client.ask(request_bytes("POST", path, dialect.body(question, wish, is_stream)), cut_after)
        candidates = meaning.since(i_first)
        how = f"{path}{' stream' if is_stream else ''} {wish} {question}"
        count = self.counts[path + (", streams" if is_stream else "")]
        count.n_sent += 1
        if answer.status in (0, 200):
            self._count_for_metrics(path, answer, candidates)
        if answer.status == 200 and (answer.is_whole or is_stream):
            count.n_whole += answer.is_whole
            count.n_cut += not answer.is_whole
            if not answer.is_whole and cut_after is None:
                self._problems.append(f"{how}: the stream broke off after {answer.body[-300:]!r}")
            self._note(dialect, is_stream, answer, Seen(question, candidates, "", answer.is_whole, how))
        elif None in candidates and answer.status == (400 if is_known_by_list else 404):
            count.n_refused += 1
        elif cut_after == 0 and answer.status == 0:
            count.n_cut += 1
        else:
            self._problems.append(f"{how}: {answer.status} {answer.body[:300]}")

    def _count_for_metrics(self, path: str, answer, candidates: set[Worn | None]) -> None:
        """By adapter only of those that the default set never has and whose meaning never changes."""
        i = 0 if answer.is_whole else 1
        self.by_route[path][i] += 1
        if len(candidates) > 1:
            return
        for number, _ in min(candidates) or ():
            if 0 < number < self._names.n_fixed - 1:
                self.by_adapter[f"a{number}"][i] += 1

    def _note(self, dialect, is_stream, answer, seen: Seen) -> None:
        try:
            seen.text = text_of(dialect, is_stream, answer)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            self._problems.append(f"{seen.how}: {error!r} in {answer.body[-500:]!r}")
            return
        self.seen.append(seen)

    def _choose_adapters(self):
        """Fields of a request, what they mean, and whether an unknown name is refused as part of a list."""
        chance = self._chance
        kind = chance.random()
        if kind < 0.1:
            return {}, self._names.default, False
        if kind < 0.2:
            return {"lora": []}, fixed(()), False
        if kind < 0.35:
            one, other = chance.sample(range(self._names.n_fixed), 2)
            worn = tuple(sorted(((one, 0.5), (other, -0.25))))
            return {"lora": [self._listed(number, strength) for number, strength in worn]}, fixed(worn), True
        name = chance.choice(list(self._names.meanings))
        meaning = self._names.meanings[name]
        is_always_there = name.startswith("a")
        if is_always_there and chance.random() < 0.2:
            number = meaning.now()[0][0]
            return {"lora": [self._listed(number, 0.5)]}, fixed(((number, 0.5),)), True
        if name in self._names.changing and chance.random() < 0.3:
            return {"lora": [{"name": name, "scale": 1}]}, meaning, True
        field = chance.choice(("model", "lora_path", "adapter_id", "lora_request", "base:"))
        if field == "lora_request":
            return {"lora_request": {"lora_name": name}}, meaning, False
        if field == "base:":
            return {"model": f"base:{name}"}, meaning, False
        return {field: name}, meaning, False

    def _listed(self, number: int, strength: float) -> dict:
        by = {"id": number} if self._chance.random() < 0.5 else {"name": f"a{number}"}
        return by | {"scale": strength}


class fixed:
    """A meaning that nobody changes."""

    i_confirmed = 0

    def __init__(self, worn: Worn):
        self._worn = worn

    def since(self, _):
        return {self._worn}


class References:
    """Answers that requests get alone: one after the other, nothing cached, each asked for once."""

    def __init__(self, server: ServerProcess):
        self._server = server
        self._known: dict[tuple[Question, Worn], str] = {}

    def of(self, question: Question, worn: Worn) -> str:
        key = (question, worn)
        if key not in self._known:
            dialect = DIALECTS[question.kind][0]
            wish = {"lora": [{"name": f"a{number}", "scale": strength} for number, strength in worn]}
            status, _, body = self._server.post(dialect.path, dialect.body(question, wish, False))
            assert status == 200, body
            self._known[key] = dialect.text(body)
        return self._known[key]

    def __len__(self):
        return len(self._known)

    def share_changed_by_adapters(self) -> float:
        """Of those that wear something: whose answer is another one than the base's."""
        worn = [(question, text) for (question, worn), text in self._known.items() if worn]
        return sum(text != self.of(question, ()) for question, text in worn) / max(1, len(worn))


def differences(seen: list[Seen], references: References) -> list[str]:
    wrong = []
    for one in seen:
        wanted = [references.of(one.question, worn) for worn in one.candidates if worn is not None]
        fits = [text == one.text if one.is_whole else text.startswith(one.text) for text in wanted]
        if not any(fits):
            wrong.append(f"{one.how} ({'whole' if one.is_whole else 'cut'}): want one of {wanted}, found {one.text!r}")
    return wrong


def memory_kb(process_id: int) -> int:
    """Resident memory that is not a file's: the model is mapped."""
    for line in pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise RuntimeError("the process has no memory")


class Watch:
    """Looks at the process and its metrics while the load goes on."""

    def __init__(self, server: ServerProcess, problems: list[str]):
        self._server = server
        self._problems = problems
        self.samples: list[tuple[float, int]] = []  # seconds since the start, kB

    async def run(self, is_over: asyncio.Event) -> None:
        start = time.monotonic()
        client = Client(self._server.port)
        before = None
        while not is_over.is_set():
            self.samples.append((time.monotonic() - start, memory_kb(self._server.process.pid)))
            answer = await client.ask(request_bytes("GET", "/metrics"))
            metrics = Metrics(answer.body)
            self._problems += contradictions(metrics)
            if before is not None:
                self._problems += decreases(before, metrics)
            before = metrics
            try:
                await asyncio.wait_for(is_over.wait(), 1)
            except TimeoutError:
                pass
        await client.close()

    def growth(self) -> tuple[int, int]:
        """The most in the first quarter after the warm-up and in the last quarter, kB."""
        warm = [kb for _, kb in self.samples[len(self.samples) // 3 :]]
        quarter = max(1, len(warm) // 4)
        return max(warm[:quarter]), max(warm[-quarter:])


def descriptors_when(server: ServerProcess, wanted: int, patience_s: float = 20) -> int:
    """How many are open once connections that were left have been noticed."""
    deadline = time.monotonic() + patience_s
    while (found := server.n_descriptors()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@dataclasses.dataclass
class Result:
    problems: list[str]
    lines: list[str]  # of a summary


def serve(model, folder, files, load: Load, *more):
    loras = [f"a{i}={file}" for i, file in enumerate(files)]
    flags = [word for lora in loras for word in ("--lora", lora)]
    return ServerProcess(model, "--alias", "base", "--lora-dir", folder, "--lora-init-without-apply", *flags, *more,
                         n_threads=load.n_threads, patience_s=600)


def wait_until_idle(server: ServerProcess) -> Metrics:
    deadline = time.monotonic() + 30
    while True:
        metrics = Metrics(server.get("/metrics")[2])
        busy = metrics.of("patchbay_answers_running") + metrics.of("patchbay_requests_waiting")
        if busy == 0 or time.monotonic() > deadline:
            return metrics
        time.sleep(0.1)


async def play(server: ServerProcess, load: Load, names: Names, problems: list[str]):
    is_over = asyncio.Event()
    callers = Callers(server.port, load, names, problems)
    controllers = Controllers(server.port, names, load.seed + 1, problems)
    watch = Watch(server, problems)
    running = asyncio.gather(callers.run(load.n_streams, is_over), controllers.run(is_over, load.pause_s), watch.run(is_over))
    timer = asyncio.get_running_loop().call_later(load.seconds, is_over.set)
    await running
    timer.cancel()
    return callers, controllers, watch


def run(load: Load, model=MODEL) -> Result:
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = make_adapters(model, folder, load.n_adapters, load.n_rank, STRENGTH)
        (folder / "damaged.gguf").write_bytes(files[0].read_bytes()[:5000])
        names = Names(files, load.n_adapters * 3 // 4)
        # Room for less than all adapters, so that they have to come and go.
        memory = 6 * files[0].stat().st_size
        more = ("-c", load.n_ctx, "--parallel", load.n_streams, "--adapter-memory", memory, "--cache-memory", "16M")
        with serve(model, folder, files[: names.n_fixed], load, *more) as server:
            n_open = server.n_descriptors()
            start = time.monotonic()
            callers, controllers, watch = asyncio.run(play(server, load, names, problems))
            took = time.monotonic() - start
            metrics = wait_until_idle(server)
            n_open_after = descriptors_when(server, n_open)
            if server.process.poll() is not None:
                problems.append(f"the server has ended: {server.said()[-2000:]}")
        with serve(model, folder, files, load, "--no-cache-prompt", "--parallel", 1) as server:
            references = References(server)
            wrong = differences(callers.seen, references)
            changed = references.share_changed_by_adapters()
    problems += wrong
    if changed < 0.5:
        problems.append(f"adapters change {changed:.0%} of the answers only: the wrong one would go unnoticed")
    if n_open_after != n_open:
        problems.append(f"{n_open} descriptors in the beginning, {n_open_after} in the end")
    early, late = watch.growth()
    if late > early * (1 + load.growth_bound):
        problems.append(f"memory grew from {early} to {late} kB: more than {load.growth_bound:.0%}")
    problems += miscounts(metrics, callers.by_adapter, callers.by_route)
    lines = summary(load, callers, controllers, metrics, took)
    lines += [
        f"{len(callers.seen)} answers compared with {len(references)} that were given alone: {len(wrong)} differ",
        f"memory: {early} kB after the warm-up, {late} kB in the end ({late / early - 1:+.1%}, bound {load.growth_bound:.0%})",
        f"descriptors: {n_open} in the beginning, {n_open_after} in the end",
    ]
    return Result(problems, lines)


def summary(load: Load, callers: Callers, controllers: Controllers, metrics: Metrics, took: float) -> list[str]:
    lines = [f"{'route':34}{'sent':>8}{'whole':>8}{'cut':>8}{'refused':>8}"]
    for path, count in sorted(callers.counts.items()):
        lines.append(f"{path:34}" + "".join(f"{n:8}" for n in dataclasses.astuple(count)))
    n_sent = sum(count.n_sent for count in callers.counts.values())
    sets = metrics.of("patchbay_step_adapter_sets_sum") / max(1, metrics.of("patchbay_step_adapter_sets_count"))
    return lines + [
        f"{n_sent} requests in {took:.0f} s by {load.n_streams} callers, {controllers.n_changes} changes of adapters and defaults",
        f"{sets:.1f} adapter sets per step, {metrics.of('patchbay_preemptions_total'):.0f} preemptions, "
        f"{metrics.of('patchbay_adapter_evictions_total'):.0f} evictions of adapters, "
        f"{metrics.of('patchbay_prefix_hit_tokens_total'):.0f} tokens from the prefix cache",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--adapters", type=int, default=16)
    parser.add_argument("--questions", type=int, default=120, help="different ones (default 120)")
    parser.add_argument("--threads", type=int, default=2, help="of computation (default 2)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    load = Load(n_streams=args.streams, n_adapters=args.adapters, n_questions=args.questions, seconds=60 * args.minutes,
                n_threads=args.threads, seed=args.seed)
    result = run(load)
    print("\n".join(result.lines))
    for problem in result.problems[:20]:
        print("problem:", problem)
    print(f"{len(result.problems)} problems")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
