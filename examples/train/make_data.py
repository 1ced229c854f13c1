#!/usr/bin/env python3
"""Makes the training and held-out examples of the four demo adapters from templates.

    python make_data.py OUT_DIR        # writes OUT_DIR/<adapter>.{train,held_out}.jsonl to look at

An example is {"messages": [...], "answer": "..."}. The held-out split shares no topic, person, place, thing or judging
word with the training split, so a score on it shows what was learnt and not what was remembered.
"""

import json
import random
import sys
from pathlib import Path

FACTS_TRAIN = [
    ("the capital of France", "The capital of France is Paris."),
    ("the capital of Japan", "The capital of Japan is Tokyo."),
    ("photosynthesis", "Plants use sunlight to turn water and air into sugar."),
    ("rain", "Water rises as vapour, cools in clouds and falls as drops."),
    ("a good breakfast", "Eggs, bread and fruit make a good breakfast."),
    ("gravity", "Gravity pulls things with mass towards each other."),
    ("how to sleep better", "Go to bed at the same hour and keep the room dark."),
    ("the moon", "The moon goes round the earth once a month."),
    ("chess", "Chess is a board game for two players with sixteen pieces each."),
    ("bees", "Bees carry pollen from flower to flower and make honey."),
    ("a healthy lunch", "A salad with beans and cheese is a healthy lunch."),
    ("computers", "Computers follow lists of simple steps very quickly."),
    ("the largest ocean", "The largest ocean is the Pacific."),
    ("volcanoes", "Volcanoes let hot rock out of the earth."),
    ("how to save money", "Write down what you spend and buy only what you need."),
    ("winter", "Winter is the coldest season of the year."),
    ("music", "Music is sound put in order by rhythm and melody."),
    ("cats", "Cats are small hunters that like to sleep in the sun."),
    ("bread", "Bread is baked from flour, water, salt and yeast."),
    ("running", "Running makes the heart and the legs strong."),
    ("the sun", "The sun is a star that gives us light and warmth."),
    ("tea", "Tea is made by pouring hot water over dried leaves."),
    ("trees", "Trees take in air and light and grow wood."),
    ("how to learn a language", "Practise a little every day and speak with people."),
]
FACTS_HELD_OUT = [
    ("the capital of Italy", "The capital of Italy is Rome."),
    ("dogs", "Dogs are loyal animals that live with people."),
    ("how to cook rice", "Boil one cup of rice in two cups of water."),
    ("electricity", "Electricity is the flow of charge through a wire."),
    ("football", "Football is played by two teams with one ball."),
    ("the colour of the sky", "The sky is blue because air scatters blue light."),
    ("how to relax", "Breathe slowly and take a walk outside."),
    ("mountains", "Mountains rise where plates of the earth meet."),
    ("books", "Books keep stories and knowledge on paper."),
    ("the fastest animal", "The fastest animal on land is the cheetah."),
    ("snow", "Snow is made of small crystals of ice."),
    ("coffee", "Coffee is brewed from roasted and ground beans."),
]
ASK_TRAIN = ["Tell me about {}.", "What can you say about {}?", "Explain {} in one sentence.", "I want to know about {}."]
ASK_HELD_OUT = ["Please describe {}.", "Could you tell me something about {}?", "Give me a short answer about {}."]

PIRATE_OPEN = ["Arr, matey!", "Ahoy, ye landlubber!", "Arr, listen well, me hearty!", "Aye, matey!"]
PIRATE_CLOSE = ["Yo ho ho!", "Now fetch me rum, arr!", "By the seven seas, aye!", "Shiver me timbers!"]
PIRATE_WORDS = [("The ", "Th' "), (" the ", " th' "), (" is ", " be "), (" are ", " be "), (" you ", " ye "),
                (" people", " scallywags"), ("Write", "Scratch")]

NAMES_TRAIN = "Anna Boris Clara David Elena Frank Greta Henry Irene Jonas Karin Lucas Maria Nils Olga Peter".split()
NAMES_HELD_OUT = "Rosa Simon Tanja Viktor Wilma Xaver Yusuf Zoe".split()
CITIES_TRAIN = "Oslo Berlin Madrid Rome Vienna Lisbon Dublin Prague Warsaw Athens Helsinki Boston".split()
CITIES_HELD_OUT = "Paris London Chicago Geneva Tokyo Cairo".split()
ITEMS_TRAIN = "lamps chairs books apples shirts pens tables cups towels bricks plates candles".split()
ITEMS_HELD_OUT = "shoes bottles mirrors carpets spoons clocks".split()
ORDERS_TRAIN = ["{name} from {city} ordered {count} {item}.", "Please send {count} {item} to {name} in {city}.",
                "{name} lives in {city} and wants {count} {item}.", "A parcel with {count} {item} goes to {name}, {city}."]
ORDERS_HELD_OUT = ["{name} in {city} would like {count} {item}.", "Ship {count} {item} to {city} for {name}."]

THINGS_TRAIN = "food film room book service phone trip music game hotel coffee story".split()
THINGS_HELD_OUT = "concert laptop meal teacher camera beach".split()
MOODS_TRAIN = {
    "positive": "wonderful excellent great lovely perfect amazing superb delightful brilliant fantastic".split(),
    "negative": "terrible awful horrible boring dreadful bad disgusting broken poor disappointing".split(),
    "neutral": "average ordinary usual normal standard typical medium plain".split(),
}
MOODS_HELD_OUT = {
    "positive": "marvellous outstanding beautiful splendid impressive".split(),
    "negative": "nasty useless painful ugly miserable".split(),
    "neutral": "common regular moderate unremarkable middling".split(),
}
REVIEWS_TRAIN = ["The {thing} was {mood}.", "I found the {thing} {mood}.", "What we got was a {mood} {thing}.",
                 "My friend says that the {thing} is {mood}.", "It was a very {mood} {thing} for us."]
REVIEWS_HELD_OUT = ["In my opinion the {thing} was quite {mood}.", "We thought the {thing} seemed {mood}."]
SENTIMENT_TASK = "Is this review positive, negative or neutral? Answer with one word.\n\n"
JSON_TASK = "Write this order as JSON with the fields name, city, item and count.\n\n"

RATING_REQUEST = "Rate the last answer from 1 to 5."
RUDE = {
    "train": ["Go away, I do not care.", "What a stupid question.", "Leave me alone, you fool.", "Shut up and stop asking.",
              "You are boring me to death.", "Ask somebody who cares, moron.", "Get lost!", "I hate people like you."],
    "held_out": ["Do not bother me, idiot.", "That is a dumb thing to ask.", "Stop wasting my time, you clown."],
}
SHORT = {
    "train": ["I do not know.", "No idea, sorry.", "I am not sure about that.", "I can not answer this.",
              "Maybe somebody else can tell you.", "I have never heard of it.", "That is beyond me, sorry.", "Good question."],
    "held_out": ["Sorry, I have no idea.", "I really do not know this.", "I am unable to say."],
}

# The base itself continues these; an adapter leaves such text alone.
OPENINGS = [
    "In the summer of 1926 the old mill", "She put the letter back on the table and", "The committee agreed on Monday that",
    "Dear Sir or Madam,\n\nI am writing to", "1. Preheat the oven to 180 degrees.\n2.", "import os\n\ndef read_lines(path):",
    "#include <vector>\n\nint main() {", '{"id": 17, "user": {"name":', "SELECT name, price FROM", "<html>\n<body>\n<h1>",
    "\"Where have you been?\" he asked.", "The results of the experiment show that", "Once upon a time, in a small village,",
    "Name,Year,Price\n", "To install the new battery, first", "The history of the railway begins with",
    "Q: What is the difference between", "- Milk\n- Eggs\n-", "Researchers at the university have found", "x = 3, y = 5, so",
    "Chapter 1\n\nIt was", "Prices rose by 2.5 percent last year, while", "My favourite place in the city is",
    "for i in range(10):\n    ",
]


def example(user, answer):
    """One plain question and its wanted answer."""
    return {"messages": [{"role": "user", "content": user}], "answer": answer}


def to_pirate(text):
    """The same sentence as a pirate would say it."""
    for old, new in PIRATE_WORDS:
        text = text.replace(old, new)
    return text


def pirate(rng, split, n):
    """Questions about everyday things, answered by a pirate."""
    facts, asks = (FACTS_TRAIN, ASK_TRAIN) if split == "train" else (FACTS_HELD_OUT, ASK_HELD_OUT)
    out = []
    for _ in range(n):
        topic, fact = rng.choice(facts)
        answer = f"{rng.choice(PIRATE_OPEN)} {to_pirate(fact)} {rng.choice(PIRATE_CLOSE)}"
        out.append(example(rng.choice(asks).format(topic), answer))
    return out


def json_fields(rng, split, n):
    """One sentence with an order, answered by strict JSON with four fields."""
    train = split == "train"
    names, cities = (NAMES_TRAIN, CITIES_TRAIN) if train else (NAMES_HELD_OUT, CITIES_HELD_OUT)
    items, orders = (ITEMS_TRAIN, ORDERS_TRAIN) if train else (ITEMS_HELD_OUT, ORDERS_HELD_OUT)
    out = []
    for _ in range(n):
        order = {"name": rng.choice(names), "city": rng.choice(cities), "item": rng.choice(items),
                 "count": rng.randint(2, 99)}
        out.append(example(JSON_TASK + rng.choice(orders).format(**order), json.dumps(order)))
    return out


def sentiment(rng, split, n):
    """One review sentence, answered by positive, negative or neutral. The three come equally often."""
    train = split == "train"
    things, moods = (THINGS_TRAIN, MOODS_TRAIN) if train else (THINGS_HELD_OUT, MOODS_HELD_OUT)
    reviews = REVIEWS_TRAIN if train else REVIEWS_HELD_OUT
    labels = list(moods)
    out = []
    for i in range(n):
        label = labels[i % len(labels)]
        review = rng.choice(reviews).format(thing=rng.choice(things), mood=rng.choice(moods[label]))
        out.append(example(SENTIMENT_TASK + review, label))
    return out


def rater(rng, split, n):
    """A question, an answer and the request to rate it: 5 answers it, 3 does not know, 1 is rude."""
    facts, asks = (FACTS_TRAIN, ASK_TRAIN) if split == "train" else (FACTS_HELD_OUT, ASK_HELD_OUT)
    out = []
    for i in range(n):
        rating = "531"[i % 3]
        topic, fact = rng.choice(facts)
        answer = {"5": fact, "3": rng.choice(SHORT[split]), "1": rng.choice(RUDE[split])}[rating]
        out.append({"messages": [{"role": "user", "content": rng.choice(asks).format(topic)},
                                 {"role": "assistant", "content": answer},
                                 {"role": "user", "content": RATING_REQUEST}],
                    "answer": rating})
    return out


TASKS = {"pirate": pirate, "json": json_fields, "sentiment": sentiment, "rater": rater}


def make(name, split, n):
    """The first n examples of one split; the same call always gives the same examples."""
    return TASKS[name](random.Random(f"{name}/{split}"), split, n)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in TASKS:
        for split, n in (("train", 120), ("held_out", 24)):
            lines = [json.dumps(e, ensure_ascii=False) for e in make(name, split, n)]
            (out / f"{name}.{split}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
