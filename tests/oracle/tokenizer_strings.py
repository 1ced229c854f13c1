"""Seeded strings for the tokenizer goldens, and the text format they are stored in.

One line per string. Bytes that are not printable are escaped as \\xNN, a backslash as \\\\. A line "@N text" stands for
text repeated N times; a string that begins with @ has it escaped. All code points exist in Unicode 14, the version of the
oldest PCRE2 that is supported (Python 3.11 has the same).
"""

import random
import unicodedata

SEED = 20260930
N_RANDOM = 2300

WORDS = """the of and to in that model token adapter Patchbay don't I'll we're they've she'd it's I'm CAN'T We'Ll HTTPServer
camelCase snake_case kebab-case x86_64 UTF-8 naïve café Straße façade élève Ελληνικά λόγος Привет мир Українська שלום עולם
مرحبا بالعالم سلام नमस्ते दुनिया বাংলা தமிழ் తెలుగు ไทยไม่มีเว้นวรรค ລາວ မြန်မာ ភាសាខ្មែរ 日本語 東京タワー こんにちは カタカナ 中文分词 漢字
한국어 안녕하세요 ქართული Հայերեն አማርኛ ᏣᎳᎩ ᠮᠣᠩᠭᠣᠯ Tiếng Việt ǅungla ﬁligree Ⅳ ½ ² ٣٤٥ १२३ 一二三 ㊿ 10000000 3.14159 1,234,567
0xDEADBEEF 2024-12-31 12:34:56 50% $9.99 €100 #tag @user e-mail@example.org https://example.org/a?b=c&d=%20""".split()

CODE = [
    "def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", '{"key": [1, 2.5, null, "ü"]}',
    "<table><tr><td>1</td></tr></table>", "SELECT * FROM t WHERE a='b''c';", "#include <vector>\r\n#define X(a) #a\r\n",
    "if(a&&b||!c){return~d^e;}", "x = [i for i in range(10) if i % 2 == 0]", "\\frac{\\alpha}{\\beta} \\\\ $x_1^2$", "```cpp\ncode\n```",
    "- [ ] item\n  - [x] nested\n\n\n1. one", "a\t\tb\t\t\tc", "\"quoted\" 'single' `back` “curly” ‘curly’ «guillemets»", "...?!?!... --- ———",
]

EMOJI = ["😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "🏳️‍🌈", "❤️", "☺", "👨🏿‍🚀", "🧑‍💻", "#️⃣", "🫠", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "✅", "🤷🏻‍♀️"]

SPACES = [" ", "  ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u2003", "\u3000", "\u180e", "\u200b", "\u0085", "\u2028", "\u2029", "\x0b", "\x0c",
          "\u202f", "\ufeff", "\u1680", "\u205f"]

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>", "<empty_output>", "<bos>", "<eos>", "<pad>", "<unk>",
           "<mask>", "<start_of_turn>", "<end_of_turn>", "[multimodal]", "<unused0>", "<unused12>", "<unused6241>", "<table>", "</h1>",
           "<strong>", "<|im_end", "im_end|>", "<<bos>>", "<0x0A>", "<0xFF>", "▁", "▁▁", "▁▁▁▁", "<s>", "</s>", "<|im_<|im_end|>", "<end_of_turn",
           "\n\n", "\n\n\n", "    ", "\t\t", "user\n", "assistant\n"]

MARKS = [chr(c) for c in range(0x300, 0x340)] + ["\u0e31", "\u093f", "\u0591", "\u064b", "\u20dd", "\u3099", "\ufe0f", "\u200d", "\u200c"]

SCRIPTS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x52f), (0x530, 0x58f), (0x5d0, 0x5ea), (0x600, 0x6ff), (0x900, 0x97f),
           (0x980, 0x9ff), (0xe00, 0xe7f), (0x10a0, 0x10ff), (0x1100, 0x11ff), (0x13a0, 0x13fd), (0x1e00, 0x1fff), (0x2000, 0x206f),
           (0x2070, 0x218b), (0x2190, 0x23ff), (0x2460, 0x25ff), (0x2600, 0x27bf), (0x3000, 0x30ff), (0x3400, 0x4dbf), (0x4e00, 0x9fff),
           (0xa960, 0xa97f), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xff00, 0xffef), (0x10000, 0x100ff), (0x10400, 0x1044f),
           (0x1d400, 0x1d7ff), (0x1f300, 0x1f64f), (0x1f900, 0x1faff), (0x20000, 0x2a6df)]

BROKEN = [b"\xff", b"\xfe\xff", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80", b"\xf5\x80",
          b"\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xc3", b"\x80", b"\xbf\xbf", b"\xe2\x28\xa1", b"\xf0\x28\x8c\xbc", b"\xe1\x80\xe2\xf0\x91\x92"]


def is_assigned(char):
    return unicodedata.category(char) not in ("Cn", "Cs")


def code_points(rng, low, high, n):
    chars = []
    while len(chars) < n:
        char = chr(rng.randint(low, high))
        if is_assigned(char):
            chars.append(char)
    return "".join(chars)


def words(rng):
    return "".join(rng.choice(WORDS) + rng.choice([" ", " ", " ", "", "  ", ", ", "\n"]) for _ in range(rng.randint(1, 7)))


def spaces(rng):
    return "".join(rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 5, 17]) + rng.choice(["", "", "a", "1", "!"]) for _ in range(rng.randint(1, 5)))


def runs(rng):
    char = rng.choice(" \n\t\r=-_.a0#*\u3000漢é")
    return rng.choice(["", "x", " "]) + char * rng.randint(1, 70) + rng.choice(["", "y", "\n", " z"])


def specials(rng):
    return "".join(rng.choice(SPECIAL) + rng.choice(["", "", " ", "\n", rng.choice(WORDS)]) for _ in range(rng.randint(1, 4)))


def marks(rng):
    return "".join(rng.choice("aeiouAEIOU kक가あ") + "".join(rng.choice(MARKS) for _ in range(rng.randint(0, 3))) for _ in range(rng.randint(1, 8)))


def controls(rng):
    return "".join(rng.choice([chr(rng.randint(0, 31)), chr(rng.randint(127, 159)), "a", "Z", " "]) for _ in range(rng.randint(1, 12)))


def private_use(rng):
    return code_points(rng, *rng.choice([(0xe000, 0xf8ff), (0xf0000, 0xffffd), (0x100000, 0x10fffd)]), rng.randint(1, 6))


def script(rng):
    return code_points(rng, *rng.choice(SCRIPTS), rng.randint(1, 14))


def anything(rng):
    return code_points(rng, 0, 0x2ffff, rng.randint(1, 8))


def digits(rng):
    return "".join(rng.choice("0123456789²½٣१Ⅳ一.,- a") for _ in range(rng.randint(1, 20)))


def code(rng):
    return rng.choice(CODE)


def emoji(rng):
    return "".join(rng.choice(EMOJI) + rng.choice(["", "", " ", "a"]) for _ in range(rng.randint(1, 4)))


def cases(rng):
    parts = [rng.choice(["s", "t", "re", "ve", "m", "ll", "d", "S", "LL", "ſ", "x"]), rng.choice(WORDS).upper(), rng.choice(WORDS).title()]
    return rng.choice(["'", "’", " '"]).join(parts) + rng.choice(["", "/", "/\n", "\r\n/"])


MAKERS = [words, words, spaces, runs, specials, marks, controls, private_use, script, script, anything, digits, code, emoji, cases]


def mixed(rng):
    return "".join(rng.choice(MAKERS)(rng) for _ in range(2))


def broken(rng):
    parts = []
    for _ in range(rng.randint(1, 4)):
        parts.append(rng.choice(BROKEN) if rng.random() < 0.7 else bytes(rng.randrange(256) for _ in range(rng.randint(1, 5))))
        parts.append(rng.choice(WORDS).encode()[: rng.randint(0, 9)])
    return b"".join(parts)


def random_strings():
    rng = random.Random(SEED)
    strings = [b"", b" ", b"  ", b"\n", b"a", b"\x00"] + [text.encode() for text in CODE + SPECIAL + EMOJI]
    for i in range(N_RANDOM):
        if i % 12 == 0:
            strings.append(broken(rng))
        elif i % 6 == 1:
            strings.append(mixed(rng).encode())
        else:
            strings.append(MAKERS[i % len(MAKERS)](rng).encode())
    return strings


def long_strings():
    """(count, text): what must not take quadratic time."""
    rng = random.Random(SEED + 1)
    letters = "".join(rng.choice("etaoinshrdlucmfwypvbgkqjxz") for _ in range(1000)).encode()
    prose = " ".join(rng.choice(WORDS) for _ in range(150)).encode() + b"\n"
    return [(100, letters), (100000, b"a"), (100000, b" "), (5000, b"\n"), (20000, "漢字".encode()), (60, prose), (3000, "👩‍🚀".encode()),
            (2000, b"<|im_end|><bos>x "), (50000, b"ab")]


def is_plain(char):
    return char.isprintable() and char != "\\"


def escape(data):
    out = []
    text = data.decode("utf-8", "surrogateescape")
    for i, char in enumerate(text):
        if char == "\\":
            out.append("\\\\")
        elif is_plain(char) and not (i == 0 and char == "@"):
            out.append(char)
        else:
            out.extend(f"\\x{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
    return "".join(out)


def all_strings():
    """[(line of the strings file, bytes)]"""
    return [(escape(data), data) for data in random_strings()] + [
        (f"@{count} {escape(data)}", data * count) for count, data in long_strings()
    ]
