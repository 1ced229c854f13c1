"""`patchbay chat`, on standard input and on a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from alphabet_model import CHAIN, SPELLED, metadata, tensors, tokenizer, write_adapter
from command import FAILURE, PATCHBAY, USAGE, patchbay, refusal
from gguf_writer import write_gguf
from script_model import write_script_model

SHOW = "{% for m in messages %}{{ m.content }}{% endfor %}"
SHOW_LAST = "{{ messages[-1].content }}"
JUMPED = "".join(CHAIN[CHAIN.index("m"):-1]).replace("Ã©", "é")


def alphabet(folder, template=SHOW_LAST):
    return write_gguf(folder / "alphabet.gguf", metadata() | tokenizer() | {"tokenizer.chat_template": template}, tensors())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    alphabet(folder)
    write_adapter(folder / "jump.gguf")
    write_adapter(folder / "skip.gguf", say="p")
    return folder


def chat(folder, lines, *arguments, model="alphabet.gguf"):
    return patchbay("chat", "-m", folder / model, "-t", 1, "--temp", 0, *arguments, input="".join(line + "\n" for line in lines).encode())


def said(folder, lines, *arguments, **options):
    done = chat(folder, lines, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def loras(folder):
    return ["--lora", f"{folder}/jump.gguf:0,{folder}/skip.gguf:0"]


def test_lines_are_messages_and_answers_follow_each_other(folder):
    assert said(folder, ["a", "", "b"]) == [SPELLED, SPELLED[1:]]
    assert said(folder, ["a"], "-n", 2) == ["bc"] and said(folder, ["a"], "--stop", "f") == ["bcde"]
    assert said(folder, []) == []
    done = patchbay("chat", "-m", folder / "alphabet.gguf", "-t", 1, "--temp", 0, input=b"a")
    assert done.stdout.decode() == SPELLED + "\n"


def test_what_was_said_is_remembered_until_it_is_cleared(tmp_path):
    # The prompt's length says what the model saw: it holds 32 tokens.
    alphabet(tmp_path, SHOW)
    done = chat(tmp_path, ["a", "b", "c", "d"])
    assert done.returncode == FAILURE and b"context" in done.stderr
    assert said(tmp_path, ["a", "/clear", "b", "/clear", "c"]) == [SPELLED, SPELLED[1:], SPELLED[2:]]
    done = chat(tmp_path, ["a"], "--system", "a" * 40)
    assert done.returncode == FAILURE and b"41 tokens" in done.stderr
    assert chat(tmp_path, ["/system " + "a" * 40, "a", "/system", "a"]).stdout.decode() == SPELLED + "\n"


def test_adapters_are_chosen_by_name(folder):
    assert said(folder, ["a", "/adapter jump:1", "a", "/adapter skip:1 jump:0", "a", "/adapter base", "a"], *loras(folder)) == [
        SPELLED, JUMPED, "p", SPELLED]
    assert said(folder, ["a", "/strength 0", "a", "/adapter", "/strength 1", "a"], "--lora", f"{folder}/jump.gguf") == [
        JUMPED, SPELLED, "jump  worn at 0", JUMPED]
    assert said(folder, ["/adapter"], *loras(folder)) == ["jump  worn at 0", "skip  worn at 0"]


def test_answers_are_compared(folder):
    lines = said(folder, ["/compare a", "a"], "--lora", f"{folder}/jump.gguf,{folder}/skip.gguf:0.01")
    assert lines == ["--- base", SPELLED, "--- jump", JUMPED, "--- skip", SPELLED, JUMPED]


def test_commands_that_cannot_be_are_named_and_the_chat_goes_on(folder):
    for line in ("/nothing", "/adapter none", "/adapter jump jump", "/adapter jump:x", "/strength x", "/strength nan", "/compare"):
        done = chat(folder, [line, "a"], *loras(folder))
        assert done.returncode == FAILURE and done.stdout.decode() == SPELLED + "\n" and done.stderr, line
    assert "/compare" in "\n".join(said(folder, ["/help", "/quit", "a"])) and said(folder, ["/exit", "a"]) == []


def test_templates(folder, tmp_path):
    mute = write_script_model(tmp_path / "mute.gguf", {"h": ["Hi"]}, template=None)
    assert "--chat-template" in refusal(patchbay("chat", "-m", mute, input=b"h\n"), USAGE)
    assert patchbay("chat", "-m", mute, "--temp", 0, "--chat-template", SHOW, input=b"h\n").stdout == b"Hi\n"
    boom = chat(folder, ["a"], "--chat-template", "{{ raise_exception('no boom here') }}")
    assert boom.returncode == FAILURE and b"no boom here" in boom.stderr


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *arguments, **environment):
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen([PATCHBAY, "chat", *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, env=os.environ | {"TERM": "xterm"} | environment)
        os.close(slave)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def wait_for(self, text, limit=60):
        """Until the text has come since the last one that was waited for."""
        deadline = time.monotonic() + limit
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._master], [], [], 0.1)[0]:
                raw = os.read(self._master, 65536).decode(errors="replace")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", raw)
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self._master, text.encode())


def test_a_terminal_edits_lines_and_ends_with_ctrl_d(tmp_path):
    model = write_script_model(tmp_path / "script.gguf", {"h": ["Hel", "lo wor", "ld"], "Ã": ["never"], "©": ["Grü", "ße"]})
    with Terminal("-m", model, "-t", 1, "--temp", 0, LC_ALL="C") as terminal:
        terminal.wait_for("> ")
        terminal.type("hx\x7f\n")
        terminal.wait_for("Hello world")
        terminal.wait_for("> ")
        terminal.type("/clear\n")
        terminal.wait_for("> ")
        terminal.type("é\n")
        terminal.wait_for("Grüße")
        terminal.wait_for("> ")
        # One that comes between prompt and editor means nothing.
        for _ in range(50):
            terminal.type("\x04")
            time.sleep(0.2)
            if terminal.process.poll() is not None:
                break
        assert terminal.process.returncode == 0


def test_ctrl_c_gives_up_a_line_or_an_answer_and_not_the_program(tmp_path):
    model = write_script_model(tmp_path / "long.gguf", {"h": ["on and ", "on, "]}, template=SHOW_LAST, endless="h", n_ctx=1 << 15)
    with Terminal("-m", model, "-t", 1, "-c", 1 << 15, "--temp", 0) as terminal:
        terminal.wait_for("> ")
        terminal.type("typed in vain")
        terminal.wait_for("in vain")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("> ")
        terminal.type("h\n")
        terminal.wait_for("on and on, on and on, ")
        terminal.process.send_signal(signal.SIGINT)
        assert len(terminal.wait_for("> ")) < 100_000
        terminal.type("/adapter\n")
        terminal.wait_for("none are loaded")
        terminal.type("/quit\n")
        assert terminal.process.wait(timeout=60) == 0
