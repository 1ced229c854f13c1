"""What llama-server documents about LoRA, and what ours promises beyond it, point by point: each asks a running server something that
either can be asked, and says what the answer has to be. Where llama-server answers something else, the point says what, and why ours
does not."""

import itertools
import json
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from alphabet_model import EOS, SPELLED, Typed, write_adapter, write_model  # noqa: E402

JUMPED, SKIPPED = "mnéop", "p"  # after "a", wearing jump or skip
NO_START = "does not start"
SAME = object()


@dataclass(frozen=True)
class Point:
    says: str
    observe: Callable
    wanted: object
    llama_server: object = SAME  # what that one answers
    why: str = ""  # ours differs
    flags: str = "applied"  # how the server is started: a row of FLAGS; "": it starts servers itself

    @property
    def is_same(self):
        return self.llama_server is SAME

    def wanted_of(self, is_ours):
        return self.wanted if is_ours or self.is_same else self.llama_server


POINTS = []


def point(says, wanted, llama_server=SAME, why="", flags="applied"):
    def add(observe):
        POINTS.append(Point(says, observe, wanted, llama_server, why, flags))
        return observe
    return add


class Files:
    """A model that spells and adapters for it, in a folder. jump says "m" after "a", skip says "p", loop says "a" after "p"
    and so has no end; the others are aLoRAs: late says "m"
    after "c" and is invoked by "bc", later says "p" after "f" and is invoked by "ef", twice is late invoked by "bbc"."""

    def __init__(self, folder):
        self.folder = folder
        self.model = write_model(folder / "alphabet.gguf", n_ctx=2048)
        self.template = folder / "template.jinja"
        self.template.write_text("{{ messages[0].content }}")
        words = {"adapter.lora.task_name": "leap", "adapter.lora.prompt_prefix": "now: "}
        self.jump = write_adapter(folder / "jump.gguf", keys_too=True, **words)
        self.skip = write_adapter(folder / "skip.gguf", say="p", keys_too=True)
        self.loop = write_adapter(folder / "loop.gguf", after="p", say="a")
        self.late = self.alora("late", "c", "m", [1, 2])
        self.later = self.alora("later", "f", "p", [4, 5])
        self.twice = self.alora("twice", "c", "m", [1, 1, 2])
        self.broken = folder / "broken.gguf"
        self.broken.write_bytes(b"GGUF and nothing else")
        (folder / "slots").mkdir()

    def alora(self, name, after, say, tokens):
        return write_adapter(self.folder / f"{name}.gguf", after, say, **{"adapter.alora.invocation_tokens": Typed("u32", tokens)})

    def copy(self, name):
        return shutil.copy(self.jump, self.folder / name)

    def common(self):
        return ["-c", 8192, "-np", 4, "--chat-template-file", self.template, "--metrics", "--slot-save-path", f"{self.folder}/slots/"]


JUMP, SKIP, LATE, LATER, TWICE = range(5)
FLAGS = {
    "applied": lambda files: ["--lora", ",".join(map(str, (files.jump, files.skip, files.late, files.later, files.twice)))],
    "scaled": lambda files: ["--lora-scaled", f"{files.jump}:0.5,{files.skip}:-2"],
    "unapplied": lambda files: ["--lora", f"{files.jump},{files.skip}", "--lora-init-without-apply"],
    "looping": lambda files: ["--lora", f"{files.jump},{files.loop}"],
    "doubled": lambda files: ["--lora", f"{files.jump},{files.jump}"],
}


def ask(server, path="/completion", **changes):
    return server.post(path, {"prompt": "a", "temperature": 0, "n_predict": 30} | changes)


def text(server, **changes):
    """The answer, or the status of an error."""
    status, _, body = ask(server, **changes)
    return body["content"] if status == 200 else status


def worn(i, scale=1):
    return [{"id": i, "scale": scale}]


def scales(server):
    return [entry["scale"] for entry in server.get("/lora-adapters")[2]]


def set_scales(server, body):
    """Status, and the scales afterwards."""
    status, _, answer = server.post("/lora-adapters", body)
    assert status == 200 or answer["error"]["type"] == "invalid_request_error"
    return status, scales(server)


def starts(launch, *flags):
    """Whether a server starts, and what it then lists; else whether it names what was wrong: the last flag's file."""
    ended = launch(*flags)
    if isinstance(ended, str):
        return "fails and names it" if Path(str(flags[-1]).partition(":")[0]).name in ended else "fails without naming it"
    with ended as server:
        return [Path(entry["path"]).name for entry in server.get("/lora-adapters")[2]]


# The command line

ALL_ON = [1, 1, 1, 1, 1]


@point("`--lora` takes a list, ids count up from 0, each at strength 1", [(i, 1) for i in range(5)])
def _(server):
    return [(entry["id"], entry["scale"]) for entry in server.get("/lora-adapters")[2]]


@point("`--lora-scaled` gives each its strength, negative ones too", [0.5, -2], flags="scaled")
def _(server):
    return scales(server)


@point("`--lora-init-without-apply` loads at strength 0", ([0, 0], SPELLED), ([1, 1], JUMPED), "the flag has no effect in this version",
       flags="unapplied")
def _(server):
    return scales(server), text(server)


@point("and `lora` in a request still applies them", JUMPED, flags="unapplied")
def _(server):
    return text(server, lora=worn(JUMP))


@point("the same file twice has two ids and acts twice", ([0, 1], JUMPED), flags="doubled")
def _(server):
    entries = server.get("/lora-adapters")[2]
    return [entry["id"] for entry in entries], text(server, lora=worn(0, 0.07) + worn(1, 0.07))


@point("paths may hold spaces, colons and letters of any alphabet", ["two words.gguf", "co:lon.gguf", "naïve.gguf"], flags="")
def _(launch, files):
    return starts(launch, "--lora", ",".join(map(str, map(files.copy, ("two words.gguf", "co:lon.gguf", "naïve.gguf")))))


@point("a path with a comma can be given in quotes", ["com,ma.gguf"], flags="")
def _(launch, files):
    return starts(launch, "--lora", f'"{files.copy("com,ma.gguf")}"')


@point("an adapter that cannot be loaded ends the start, by name", "fails and names it", flags="")
def _(launch, files):
    return starts(launch, "--lora", files.jump, "--lora", files.broken)


@point("a strength that is no number ends the start", "fails and names it", "fails without naming it", "the message does not say which one",
       flags="")
def _(launch, files):
    return starts(launch, "--lora-scaled", f"{files.jump}:much")


@point("a strength that is not finite ends the start", "fails and names it", ["jump.gguf"], "it is taken as it is there", flags="")
def _(launch, files):
    return starts(launch, "--lora-scaled", f"{files.jump}:inf")


@point("adapters can be loaded from a folder while the server runs", [], NO_START, "there is no such flag and no such route", flags="")
def _(launch, files):
    ended = launch("--lora-dir", files.folder)
    return NO_START if isinstance(ended, str) else starts(launch, "--lora-dir", files.folder)


# GET /lora-adapters


@point("an entry has id, path, scale, task_name and prompt_prefix", [0, "jump.gguf", 1, "leap", "now: "])
def _(server):
    entry = server.get("/lora-adapters")[2][JUMP]
    return [entry["id"], Path(entry["path"]).name, entry["scale"], entry["task_name"], entry["prompt_prefix"]]


@point("that of an aLoRA has its invocation as text and tokens too", [("bc", [1, 2]), None])
def _(server):
    fields = ("alora_invocation_string", "alora_invocation_tokens")
    entries = server.get("/lora-adapters")[2]
    return [tuple(entries[i][field] for field in fields) if fields[0] in entries[i] else None for i in (LATE, JUMP)]


@point("an entry of `GET /lora-adapters` has the name by which requests choose the adapter", "jump", None, "adapters have no names there")
def _(server):
    return server.get("/lora-adapters")[2][JUMP].get("name")


# POST /lora-adapters: the default of requests that say nothing


@point("it answers `{\"success\": true}`", (200, {"success": True}))
def _(server):
    return server.post("/lora-adapters", worn(JUMP, 0.5))[::2]


@point("it sets what is listed, all others become 0", (200, [0, 0.5, 0, 0, 0]))
def _(server):
    return set_scales(server, worn(SKIP, 0.5))


@point("`[]` turns all off", (200, [0, 0, 0, 0, 0], SPELLED))
def _(server):
    return *set_scales(server, []), text(server)


@point("strengths 0.5, 0, 1, 0, -1, 2 act one after the other", [JUMPED, SPELLED, JUMPED, SPELLED, SPELLED, JUMPED])
def _(server):
    return [set_scales(server, worn(JUMP, scale)) and text(server) for scale in (0.5, 0, 1, 0, -1, 2)]


@point("a body that is no array is refused and changes nothing", [(400, ALL_ON)] * 3)
def _(server):
    return [set_scales(server, body) for body in ({}, '"x"', "no JSON")]


TOLERANT = "what it cannot read counts there as 0, or as nobody's; ours refuses the whole list"


@point("`POST /lora-adapters`: an unknown id is refused and changes nothing", (400, ALL_ON), (200, [0] * 5), TOLERANT)
def _(server):
    return set_scales(server, worn(99))


@point("`POST /lora-adapters`: an entry without a scale is refused and changes nothing", (400, ALL_ON), (200, [0] * 5), TOLERANT)
def _(server):
    return set_scales(server, [{"id": 0}])


@point("`POST /lora-adapters`: one of another type is refused and changes nothing", [(400, ALL_ON)] * 4, [(200, [0] * 5)] * 3 + [(200,
       [1, 0, 0, 0, 0])], TOLERANT)
def _(server):
    return [set_scales(server, body) for body in ([3], [{"id": 0, "scale": "1"}], [{"id": "0", "scale": 1}], [{"id": 0.7, "scale": 1}])]


@point("`POST /lora-adapters`: an id that is there twice is refused and changes nothing", (400, ALL_ON), (200, [0.5, 0, 0, 0, 0]),
       "the last one counts there")
def _(server):
    return set_scales(server, worn(JUMP) + worn(JUMP, 0.5))


@point("`POST /lora-adapters`: a scale that no float holds is refused and changes nothing", (400, ALL_ON), (200, [None, 0, 0, 0, 0]),
       "it becomes infinite there")
def _(server):
    return set_scales(server, worn(JUMP, 1e39))


@point("a change leaves running answers as they are", ("unchanged", JUMPED), flags="looping")
def _(server):
    set_scales(server, worn(1))
    body = {"prompt": "a", "temperature": 0, "n_predict": 300, "stream": True}
    connection = server.connect()
    connection.request("POST", "/completion", json.dumps(body))
    answer = connection.getresponse()
    said = [json.loads(answer.readline().removeprefix(b"data: "))["content"]]
    set_scales(server, worn(JUMP))
    for line in answer:
        if line.startswith(b"data: {"):
            said.append(json.loads(line.removeprefix(b"data: "))["content"])
    connection.close()
    known = (SPELLED + "a") * 30
    is_whole = len("".join(said)) > 250  # é is two tokens and known.startswith("".join(said))
    return "unchanged" if is_whole else "".join(said), text(server)


# `lora` in a request


@point("`lora: []` is the base", SPELLED, JUMPED, "an empty list is the default set there; scales of 0 ask for the base")
def _(server):
    return text(server, lora=[])


@point("without `lora` the default set rules", [JUMPED, SKIPPED])
def _(server):
    first = text(server)
    set_scales(server, worn(SKIP))
    return [first, text(server)]


@point("what is listed acts, what is not is off", [JUMPED, SKIPPED])
def _(server):
    return [text(server, lora=worn(JUMP)), text(server, lora=worn(SKIP))]


@point("at the strength listed: 0.05 and 0 do not suffice, 0.2 does, -1 and 2", [SPELLED, SPELLED, JUMPED, SPELLED, JUMPED])
def _(server):
    return [text(server, lora=worn(JUMP, scale)) for scale in (0.05, 0, 0.2, -1, 2)]


@point("several add up", [SKIPPED, JUMPED])
def _(server):
    return [text(server, lora=worn(JUMP, one) + worn(SKIP, other)) for one, other in ((0.5, 1), (1, 0.5))]


@point("it changes no default", (JUMPED, ALL_ON))
def _(server):
    text(server, lora=worn(SKIP))
    return text(server), scales(server)


@point("`lora`: an unknown id is refused", [400, 400], [SPELLED, SPELLED], TOLERANT)
def _(server):
    return [text(server, lora=worn(99)), text(server, lora=worn(-1))]


@point("`lora`: without a scale an adapter acts at its own strength", JUMPED, SPELLED, "a missing scale is 0 there")
def _(server):
    return text(server, lora=[{"id": JUMP}])


@point("what is no array is refused", [400, 400])
def _(server):
    return [text(server, lora=wrong) for wrong in ("x", {})]


@point("`lora`: an element of another type is refused", [400] * 5, [SPELLED] * 4 + [JUMPED], TOLERANT)
def _(server):
    wrong = (["x"], [{"scale": 1}], [{"id": "0", "scale": 1}], [{"id": 0, "scale": "1"}], [{"id": 0.7, "scale": 1}])
    return [text(server, lora=one) for one in wrong]


@point("`lora`: an id that is there twice is refused", 400, JUMPED, "the last one counts there")
def _(server):
    return text(server, lora=worn(JUMP) + worn(JUMP, 0.5))


@point("`lora`: a scale that no float holds is refused", 400, 200, "it becomes infinite there")
def _(server):
    return ask(server, lora=worn(JUMP, 1e39), n_predict=1)[0]


@point("`null` is the same as nothing", JUMPED)
def _(server):
    return text(server, lora=None)


@point("`lora`: an adapter can be listed by name", SKIPPED, SPELLED, "adapters have no names there")
def _(server):
    return text(server, lora=[{"name": "skip", "scale": 1}])


@point("`model` chooses an adapter by name, an unknown one is 404", [SKIPPED, 404], [JUMPED, JUMPED], "`model` is not read there")
def _(server):
    return [text(server, model="skip"), text(server, model="none")]


@point("the model list has the adapters", ["jump", "skip", "late", "later", "twice"], [], "adapters are no models there")
def _(server):
    return [card["id"] for card in server.get("/v1/models")[2]["data"]][1:]


@point("an answer says what it wears: ids and scales", [(JUMP, 0.5), (SKIP, 0)])
def _(server):
    lora = ask(server, lora=worn(JUMP, 0.5) + worn(SKIP, 0))[2]["generation_settings"]["lora"]
    return [(entry["id"], entry["scale"]) for entry in lora]


@point("an answer says what it wears also when that is the default set", [(SKIP, 0.5)], [],
       "the list is empty there unless the request had one")
def _(server):
    set_scales(server, worn(SKIP, 0.5))
    return [(entry["id"], entry["scale"]) for entry in ask(server)[2]["generation_settings"]["lora"]]


@point("a streamed answer wears it as well", SKIPPED)
def _(server):
    body = {"prompt": "a", "temperature": 0, "n_predict": 30, "stream": True, "lora": worn(SKIP)}
    return "".join(json.loads(event)["content"] for event in server.events("/completion", body))


@point("so do `/v1/completions` and `/v1/chat/completions`", [SKIPPED, SKIPPED])
def _(server):
    body = {"temperature": 0, "max_tokens": 30, "lora": worn(SKIP)}
    plain = server.post("/v1/completions", body | {"prompt": "a"})[2]["choices"][0]["text"]
    chat = server.post("/v1/chat/completions", body | {"messages": [{"role": "user", "content": "a"}]})[2]
    return [plain, chat["choices"][0]["message"]["content"]]


@point("a chat reads llama-server's own fields: n_predict, repeat_penalty, repeat_last_n", ["bcd", "stop", 400])
def _(server):
    body = {"temperature": 0, "messages": [{"role": "user", "content": "a"}], "lora": worn(JUMP, 0)}
    short = server.post("/v1/chat/completions", body | {"n_predict": 3})[2]["choices"][0]
    wrong = server.post("/v1/chat/completions", body | {"repeat_penalty": "x"})[0]
    whole = server.post("/v1/chat/completions", body | {"repeat_penalty": 1.0, "repeat_last_n": 64})[2]["choices"][0]
    return [short["message"]["content"], whole["finish_reason"], wrong]


@point("all answers of `n` wear it", [SKIPPED, SKIPPED])
def _(server):
    return [one["content"] for one in ask(server, n=2, lora=worn(SKIP))[2]]


@point("requests at the same time wear different ones", "each its own")
def _(server):
    wishes = [(worn(JUMP), JUMPED), (worn(SKIP), SKIPPED), (worn(JUMP, 0), SPELLED), (worn(LATE), SPELLED)] * 3
    answers = [None] * len(wishes)

    def one(i):
        answers[i] = text(server, lora=wishes[i][0])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(wishes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "each its own" if answers == [answer for _, answer in wishes] else answers


# aLoRA


@point("an aLoRA acts when the prompt invokes it and not otherwise, whatever is generated later", ["mnéop", "cdefghijklmnéop"])
def _(server):
    return [text(server, prompt=prompt, lora=worn(LATE)) for prompt in ("abc", "ab")]


@point("an invocation is found where an attempt to match overlaps", ["mnéop"] * 3, ["defghijklmnéop", "mnéop", "mnéop"],
       "`bc` is not found in `bcc` there")
def _(server):
    return [text(server, prompt=prompt, lora=worn(i)) for prompt, i in (("abcc", LATE), ("abbbc", TWICE), ("bbcbbc", TWICE))]


@point("an answer says from which token on an aLoRA acts: the last invocation's", [[3], [-1], [0]], [[None]] * 3,
       "that field is ours")
def _(server):
    asked = [("bcabc", worn(LATE)), ("ab", worn(LATE)), ("ab", worn(JUMP))]
    return [[entry.get("active_from") for entry in ask(server, prompt=prompt, lora=lora)[2]["generation_settings"]["lora"]]
            for prompt, lora in asked]


@point("an aLoRA at a negative strength is one all the same", SPELLED[2:], 400, "it says that there are several")
def _(server):
    return text(server, prompt="abc", lora=worn(LATE, -1))


@point("an aLoRA and a plain adapter act together", ["mnéop", "mnéop", "mnéop"])
def _(server):
    both = worn(JUMP) + worn(LATE)
    return [text(server, prompt=prompt, lora=both) for prompt in ("abc", "bca", "a")]


@point("several aLoRAs act, each from its own invocation up to the next one's", ["p", "mnéop"], [400, 400],
       "one per request there, as the list is one per context")
def _(server):
    both = worn(LATE) + worn(LATER)
    return [text(server, prompt=prompt, lora=both) for prompt in ("abcdef", "abcdefbc")]


@point("one conversation wears one aLoRA, then another, then none", ["mnéop", "p", "ghijklmnéop"])
def _(server):
    turns = (("abc", worn(LATE)), ("abcdef", worn(LATER)), ("abcdef", worn(LATE)))
    return [text(server, prompt=prompt, lora=lora) for prompt, lora in turns]


@point("requests at the same time invoke the same one", "both")
def _(server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(text(server, prompt="abc", lora=worn(LATE)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "both" if answers == ["mnéop"] * 4 else answers


# What was computed

CYCLE = list(range(EOS))


PROMPT_NUMBERS = itertools.count()


def n_cached(server, prompt, lora):
    """Tokens of the prompt that were not computed again."""
    return ask(server, prompt=prompt, lora=lora, n_predict=1)[2]["timings"]["cache_n"]


def long_prompt():
    """96 tokens of which no other prompt has more than the first."""
    n = next(PROMPT_NUMBERS)
    return [n % EOS, n // EOS % EOS] + CYCLE * 5 + CYCLE[:14]


def some(counts):
    """Of long prompts: any may begin with a token that another had."""
    return ["some" if n > 50 else "none" for n in counts]


@point("a prompt that wears the same again is not computed again", ["none", "some"])
def _(server):
    prompt = long_prompt()
    return some(n_cached(server, prompt, worn(JUMP)) for _ in range(2))


@point("one that wears another is", ["none", "none"])
def _(server):
    prompt = long_prompt()
    return some(n_cached(server, prompt, worn(i)) for i in (JUMP, SKIP))


@point("what was computed wearing A is still there after B, on the same slot", ["none", "none", "some"], ["none", "none", "none"],
       "a slot's cache is dropped when its adapters change")
def _(server):
    prompt = long_prompt()
    asked = [ask(server, prompt=prompt, lora=worn(i), n_predict=1, id_slot=1)[2]["timings"]["cache_n"] for i in (JUMP, SKIP, JUMP)]
    return some(asked)


@point("an aLoRA begins with what the base computed before its invocation", ["none", "some"])
def _(server):
    prompt = [15, 14, *CYCLE[3:] * 6]
    return some([n_cached(server, prompt, worn(JUMP, 0)), n_cached(server, prompt + [1, 2], worn(LATE))])


# Slots


@point("an answer says its slot, the one that was asked for", [2, 0])
def _(server):
    return [ask(server, id_slot=slot)[2]["id_slot"] for slot in (2, 0)]


@point("a slot is saved, restored and erased, and says how much", [["filename", "id_slot", "n_saved", "n_written", "timings"], 1,
                                                                   ["filename", "id_slot", "n_read", "n_restored", "timings"], True,
                                                                   ["id_slot", "n_erased"]])
def _(server):
    ask(server, prompt=long_prompt(), id_slot=1, n_predict=1)
    save, restore, erase = (server.post(f"/slots/1?action={action}", {"filename": "one.bin"})[2]
                            for action in ("save", "restore", "erase"))
    return [sorted(save), save["id_slot"], sorted(restore), save["n_saved"] == restore["n_restored"] > 90, sorted(erase)]


@point("a file name that leaves the folder is refused", [400] * 6)
def _(server):
    ask(server, id_slot=1)
    names = ("../x", "/tmp/x", "", ".", "a/b", "..")
    return [server.post("/slots/1?action=save", {"filename": name})[0] for name in names]


@point("to restore a slot from a file that is not there is refused", 404, 400, "404 says which of its faults")
def _(server):
    return server.post("/slots/1?action=restore", {"filename": "none.bin"})[0]


@point("a slot that is none is refused, an action that is none, a missing file name", [400, 400, 400])
def _(server):
    ask(server, id_slot=1)
    return [server.post(path, body)[0] for path, body in (("/slots/x?action=save", {"filename": "x"}),
                                                           ("/slots/1?action=dance", {"filename": "x"}), ("/slots/1?action=save", {}))]


@point("a slot beyond the last one is refused", 400, 200, "numbers wrap around there")
def _(server):
    ask(server)
    return server.post("/slots/99?action=save", {"filename": "x"})[0]


@point("a slot that has computed nothing is not saved", 404, 200, "an empty file is written there")
def _(server):
    ask(server, id_slot=3)
    server.post("/slots/3?action=erase", {})
    return server.post("/slots/3?action=save", {"filename": "nothing.bin"})[0]


# Metrics

FAMILIES = ["prompt_tokens_total", "prompt_tokens_cached_total", "prompt_seconds_total", "tokens_predicted_total",
            "tokens_predicted_seconds_total", "n_decode_total", "n_tokens_max", "prompt_tokens_seconds", "predicted_tokens_seconds",
            "requests_processing", "requests_deferred", "n_busy_slots_per_decode"]


@point("the metrics have llama-server's names", [])
def _(server):
    lines = server.get("/metrics")[2].splitlines()
    return [name for name in FAMILIES if not any(line.startswith(f"llamacpp:{name} ") for line in lines)]


@point("busy slots per step are between 1 and their number once something ran", True)
def _(server):
    ask(server)
    [line] = [line for line in server.get("/metrics")[2].splitlines() if line.startswith("llamacpp:n_busy_slots_per_decode ")]
    return 1 <= float(line.split()[1]) <= 4
