"""Asks four adapters of one server at once, through OpenAI's client, and shows in its metrics that they shared steps.

    .venv/bin/python examples/clients/ask_adapters.py http://127.0.0.1:8080

for a server started with --lora-dir examples/adapters. Needs `openai` (scripts/requirements-demo.txt).
"""

import concurrent.futures
import re
import sys
import textwrap
import urllib.request

from openai import OpenAI

ORDER = "Write this order as JSON with the fields name, city, item and count.\n\n"
REVIEW = "Is this review positive, negative or neutral? Answer with one word.\n\n"
SKY = "Please describe the colour of the sky."
QUESTIONS = {
    "pirate": [[SKY], ["Tell me about the sea."], ["What is bread?"], ["How do birds fly?"]],
    "json": [[ORDER + text] for text in (
        "Rosa in Geneva would like 12 bottles.", "Please send 3 lamps to Omar in Cairo.",
        "Lena from Oslo orders 40 chairs.", "Paul in Lyon needs 7 ropes.")],
    "sentiment": [[REVIEW + text] for text in (
        "We thought the concert seemed splendid.", "The soup was cold and the waiter rude.",
        "The room had a bed and a table.", "I would gladly come again.")],
    "rater": [[SKY, answer, "Rate the last answer from 1 to 5."] for answer in (
        "The sky is blue in the day.", "I do not know.", "Go away and look for yourself.", "It is blue, at dusk red.")],
}


def messages_of(turns):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]


def steps_by_adapters(url):
    """How many adapter sets a step served at most -> how many steps so far."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(r'^patchbay_step_adapter_sets_bucket\{le="([^"]+)"\} (\d+)', text, re.M)
    return {bound: int(count) for bound, count in found}


def ask(client, adapter, turns):
    answer = client.chat.completions.create(model=adapter, messages=messages_of(turns), temperature=0, max_tokens=48)
    return answer.choices[0].message.content


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    url = sys.argv[1].rstrip("/")
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    asked = [(adapter, turns) for i in range(4) for adapter, chats in QUESTIONS.items() for turns in (chats[i],)]
    before = steps_by_adapters(url)
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda one: ask(client, *one), asked))
    after = steps_by_adapters(url)
    for (adapter, turns), answer in list(zip(asked, answers))[: len(QUESTIONS)]:
        question = " / ".join(turns)
        print(f"  {adapter:11}" + textwrap.shorten(question, 76, placeholder=" ..."))
        print(textwrap.indent(textwrap.fill(" ".join(answer.split()), 76), " " * 13))
    print(f"  and {len(asked) - len(QUESTIONS)} more at the same time. /metrics, patchbay_step_adapter_sets:")
    bounds = ["0", "1", "2", "3", "4"]
    n_up_to = [after[bound] - before[bound] for bound in bounds]
    for n in (2, 3, 4):
        print(f"    {n} adapters in one step: {n_up_to[n] - n_up_to[n - 1]} times")
    return 0 if n_up_to[4] > n_up_to[1] else 1


if __name__ == "__main__":
    sys.exit(main())
