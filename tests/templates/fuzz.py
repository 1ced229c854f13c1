"""Random templates: small ones over every feature, most of which render and some of which must be refused."""

import random
import re

CONTEXT = {
    "s": "Hello World", "t": " a-b <c> & 'd' ", "u": "Äpfel ßtraße Ωσς ǆ\u00a0😀\u200d x", "e": "", "w": "one two  three\nfour\n\nfive",
    "n": 7, "m": -3, "z": 0, "big": 2**63, "f": 2.5, "g": -0.1, "h": 1e21, "yes": True, "no": False, "nil": None,
    "xs": [3, 1, 2], "ys": ["b", "A", "c", "a"], "zs": [], "mixed": [1, "1", 1.0, True, None, [1], {"k": 1}],
    "nested": [[1, 2], [3], []], "pairs": [["a", 1], ["b", 2]],
    "d": {"a": 1, "B": "two", "c": [1, 2], "items": "shadow", "n": None}, "o": {},
    "rows": [{"name": "x", "age": 3, "tags": ["p"]}, {"name": "Y", "age": 1, "in": {"deep": 5}},
             {"name": "x", "age": 2, "tags": []}],
    "messages": [{"role": "system", "content": "Be nice."}, {"role": "user", "content": "Hi <b>\n"},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"q": 1.5}}}]},
                 {"role": "user", "content": [{"type": "text", "text": "é"}]}],
}

NAMES = {
    "str": ["s", "t", "u", "e", "w"], "int": ["n", "m", "z", "big"], "float": ["f", "g", "h"], "bool": ["yes", "no"],
    "list": ["xs", "ys", "zs", "mixed", "nested", "pairs", "rows", "messages"], "dict": ["d", "o", "rows[0]", "messages[2]"],
    "none": ["nil", "none"], "undefined": ["missing", "d.missing", "xs[9]", "rows[0].nope"],
}
STRINGS = ["", "a", "A", "ab", "B", " x ", "\\n", "x-y z", "é", "ß", "%s", "{}", "<b>", "role", "name", "l", "o", "\\u20ac", "1", "2.5", "-7",
           "0x1f", "1e3", "user", "%5.2f|%-4d|%+d", "{0!r:>6}", "{a}"]
ATTRIBUTES = ["name", "age", "role", "content", "tags", "in.deep", "0", "missing", "tags.0"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean", "integer", "float", "true",
         "false", "odd", "even", "callable", "lower", "upper", "escaped", "divisibleby(2)", "divisibleby 3", "sameas(none)", "in(xs)",
         "eq(1)", "ne(1)", "gt(1)", "ge(2)", "lt(2)", "le(1)", "equalto('a')", "filter", "test"]
PLAIN_FILTERS = ["abs", "capitalize", "count", "length", "first", "last", "float", "int", "join", "list", "lower", "upper", "title", "trim",
                 "string", "sum", "sort", "unique|list", "reverse|list", "min", "max", "round", "tojson", "e", "escape", "safe", "default",
                 "d('x')", "default('y', true)", "items|list", "dictsort", "wordcount", "urlencode", "forceescape", "sort(reverse=true)",
                 "sort(case_sensitive=true)", "map('upper')|list", "map('string')|join('-')", "select|list", "reject|list",
                 "select('string')|list", "reject('none')|list", "select('odd')|list", "map(attribute='name')|list",
                 "map(attribute='age', default=0)|list", "selectattr('age')|list", "selectattr('name', 'equalto', 'x')|list",
                 "rejectattr('age', 'gt', 1)|map(attribute='name')|join(',')", "groupby('name')", "groupby('name')|map('first')|list",
                 "sort(attribute='age')", "sort(attribute='name,age')", "join(', ')", "join('|', attribute='name')", "sum(attribute='age')",
                 "sum(start=10)", "batch(2)|list", "batch(2, 'f')|list", "slice(2)|list", "slice(2, 'f')|list", "indent", "indent(2, true)",
                 "indent('> ', blank=true)", "truncate(5)", "truncate(7, true, '..')", "center(9)", "replace('a', 'b')", "replace('l', 'L', 1)",
                 "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "round(-1)", "int(5)", "int(0, 16)", "float(1.5)", "tojson(indent=2)",
                 "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "dictsort(by='value')",
                 "dictsort(reverse=true)", "attr('name')", "format(1)", "format(a='q')", "unique(attribute='name')|list", "max(attribute='age')",
                 "min(case_sensitive=true)", "xs", "map('nofilter')|list", "first|upper", "last|tojson", "length", "string|length"]
STRING_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "split()",
                  "split(' ')", "split('l', 1)", "rsplit(' ', 1)", "rsplit(none, 1)", "split(maxsplit=1)", "splitlines()", "splitlines(true)",
                  "startswith('H')", "startswith(('a', 'H'))", "endswith('d')", "find('o')", "rfind('o')", "find('o', 5)", "find('o', -4, -1)",
                  "index('o')", "count('l')", "count('')", "replace('l', 'L')", "replace('', '-')", "join(ys)", "join(xs)", "isdigit()",
                  "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()", "istitle()", "isascii()", "zfill(14)", "ljust(13, '.')",
                  "rjust(13)", "center(14, '*')", "partition('o')", "rpartition('o')", "removeprefix('He')", "removesuffix('ld')",
                  "format(1, a=2)", "expandtabs()", "encode", "append('x')", "isprintable()", "isdecimal()", "startswith('l', 2)", "count('o', 5)"]
LIST_METHODS = ["count(1)", "index(1)", "index('a')", "copy()", "append(1)", "pop()"]
DICT_METHODS = ["items()|list", "keys()|list", "values()|list", "get('a')", "get('zz')", "get('zz', 5)", "copy()", "pop('a')", "items()",
                "update({})", "keys()"]
BINARY = ["+", "-", "*", "/", "//", "%", "**"]
COMPARE = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


class Fuzzer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.n_names = 0
        self.locals = []

    def one_in(self, n):
        return self.random.randrange(n) == 0

    def pick(self, items):
        return self.random.choice(items)

    def literal_string(self):
        quote = self.pick("'\"")
        return quote + self.pick(STRINGS) + quote

    def leaf(self, kind):
        if self.locals and self.one_in(8):
            return self.pick(self.locals)
        if self.one_in(2):
            return self.pick(NAMES[kind])
        if kind == "str":
            return self.literal_string()
        if kind == "int":
            return self.pick(["0", "1", "2", "10", "-1", "1_000", "0x1F", "0b101", "255"])
        if kind == "float":
            return self.pick(["0.5", "1.0", "-2.5", "1e3", "1.5e-7", "3.14159", "1e16", "2.675", "1_0.5"])
        if kind == "list":
            return self.pick(["[1, 2, 3]", "['a', 'B']", "[]", "(1, 2)", "()", "('x',)", "range(4)", "range(5, 0, -2)", "[1.5, none, true]"])
        if kind == "dict":
            return self.pick(["{'a': 1}", "{}", "{'x': [1], 2: 'y'}", "dict(a=1, b='c')", "{1: 2, true: 3, 1.0: 4}"])
        return self.pick(NAMES[kind])

    def expr(self, depth, kind=None):
        if self.one_in(40):
            kind = None
        kind = kind or self.pick(["str", "str", "int", "float", "bool", "list", "list", "dict", "none", "undefined"])
        if depth <= 0 or self.one_in(5):
            return self.leaf(kind)
        make = getattr(self, "make_" + kind, None)
        if make is None or self.one_in(12):
            return self.any_expr(depth - 1)
        return make(depth - 1)

    def any_expr(self, depth):
        choice = self.random.randrange(10)
        if choice == 0:
            return f"({self.expr(depth)} if {self.expr(depth, 'bool')} else {self.expr(depth)})"
        if choice == 1:
            return f"({self.expr(depth)} {self.pick(['and', 'or'])} {self.expr(depth)})"
        if choice == 2:
            return f"({self.expr(depth)} {self.pick(BINARY)} {self.expr(depth)})"
        if choice == 3:
            return f"{self.wrapped(depth)}[{self.pick(['0', '-1', '1', chr(39) + 'a' + chr(39), chr(39) + 'name' + chr(39), 'n', 'true'])}]"
        if choice == 4:
            return f"{self.wrapped(depth)}.{self.pick(['name', 'a', 'role', 'items', 'keys', '0', 'content', 'upper', '__class__'])}"
        if choice == 5:
            return f"({self.expr(depth)} if {self.expr(depth, 'bool')})"
        if choice == 6:
            return f"{self.wrapped(depth)}[{self.bound()}:{self.bound()}{self.pick(['', ':' + self.bound()])}]"
        if choice == 7:
            return f"[{', '.join(self.expr(depth - 1) for _ in range(self.random.randrange(4)))}]"
        return f"{self.wrapped(depth)}|{self.pick(PLAIN_FILTERS)}"

    def wrapped(self, depth, kind=None):
        inner = self.expr(depth, kind)
        return inner if inner.isidentifier() else f"({inner})"

    def bound(self):
        return self.pick(["", "", "0", "1", "2", "-1", "-2", "5", "none", "n"])

    def make_str(self, depth):
        choice = self.random.randrange(9)
        if choice == 0:
            return f"({self.expr(depth, 'str')} + {self.expr(depth, 'str')})"
        if choice == 1:
            return f"({self.expr(depth)} ~ {self.expr(depth)})"
        if choice == 2:
            return f"{self.wrapped(depth)}|{self.pick(['string', 'tojson', 'upper', 'lower', 'trim', 'title', 'capitalize', 'e', 'safe'])}"
        if choice == 3:
            return f"({self.expr(depth, 'str')} * {self.pick(['2', '0', '3', '-1'])})"
        if choice == 4:
            return f"{self.wrapped(depth, 'str')}[{self.bound()}:{self.bound()}{self.pick(['', ':' + self.bound()])}]"
        if choice == 5:
            spec = "%" + self.pick(["", "-", "+", "0", " ", "#"]) + self.pick(["", "5", "8"]) + self.pick(["", ".2", ".0"]) \
                + self.pick("sdrfxegoXEc%a")
            return f"('{spec}' % {self.expr(depth, self.pick(['int', 'float', 'str']))})"
        if choice == 6:
            spec = self.pick(["", ":", ":>", ":*^", ":<", ":+", ":0", ":,", ":#"]).ljust(1)
            spec = (spec if spec.strip() else "") + (self.pick(["", "5", "9", "12"]) + self.pick(["", ".3", ".1"])
                                                     + self.pick(["", "d", "f", "s", "e", "g", "x", "%", "b"]) if spec.strip() else "")
            return f"'{{{self.pick(['', '0', '!r', '!s', 'a', '0[0]', '0.real'])}{spec}}}'.format({self.expr(depth)}, a={self.expr(depth)})"
        return f"{self.wrapped(depth, 'str')}.{self.pick(STRING_METHODS)}"

    def make_int(self, depth):
        choice = self.random.randrange(5)
        if choice == 0:
            return f"{self.wrapped(depth)}|{self.pick(['length', 'int', 'count', 'abs', 'wordcount', 'sum', 'first', 'max', 'round'])}"
        if choice == 1:
            return f"(-{self.wrapped(depth, 'int')})"
        if choice == 2:
            return f"({self.expr(depth, 'int')} {self.pick(BINARY[:-1])} {self.expr(depth, 'int')})"
        if choice == 3:
            return f"({self.expr(depth, 'int')} ** {self.pick(['0', '2', '3', '-1', '0.5'])})"
        return f"({self.expr(depth, 'int')} {self.pick(['+', '*', '-'])} {self.pick(['1', '2', '-3'])})"

    def make_float(self, depth):
        choice = self.random.randrange(3)
        if choice == 0:
            return f"({self.expr(depth, 'float')} {self.pick(BINARY[:-1])} {self.expr(depth, self.pick(['int', 'float']))})"
        if choice == 1:
            return f"({self.expr(depth, 'int')} / {self.expr(depth, 'int')})"
        return f"{self.wrapped(depth, 'float')}|{self.pick(['round', 'round(1)', 'round(2)', 'abs', 'float', 'round(1, chr)', 'int'])}" \
            .replace("chr", "'ceil'")

    def make_bool(self, depth):
        choice = self.random.randrange(6)
        if choice == 0:
            return f"(not {self.expr(depth)})"
        if choice == 1:
            return f"({self.expr(depth)} is {self.pick(['', '', 'not '])}{self.pick(TESTS)})"
        if choice == 2:
            return f"({self.expr(depth)} {self.pick(['==', '!=', 'in', 'not in'])} {self.expr(depth)})"
        if choice == 3:
            kind = self.pick(["int", "str", "float", "list"])
            return f"({self.expr(depth, kind)} {self.pick(COMPARE)} {self.expr(depth, kind)})"
        if choice == 4:
            return f"({self.expr(depth, 'int')} < {self.expr(depth, 'int')} <= {self.expr(depth, 'int')})"
        return f"({self.expr(depth, 'str')} in {self.expr(depth, self.pick(['str', 'list', 'dict']))})"

    def make_list(self, depth):
        choice = self.random.randrange(6)
        if choice == 0:
            return f"({self.expr(depth, 'list')} + {self.expr(depth, 'list')})"
        if choice == 1:
            return f"{self.wrapped(depth, 'list')}[{self.bound()}:{self.bound()}{self.pick(['', ':' + self.bound()])}]"
        if choice == 2:
            return f"{self.wrapped(depth, 'str')}.{self.pick(['split()', 'split(chr)', 'splitlines()', 'partition(chr)'])}".replace("chr", "' '")
        if choice == 3:
            return f"[{', '.join(self.expr(depth - 1) for _ in range(self.random.randrange(4)))}]"
        if choice == 4:
            return f"{self.wrapped(depth, 'list')}.{self.pick(LIST_METHODS)}"
        return f"{self.wrapped(depth, 'list')}|{self.pick(PLAIN_FILTERS)}"

    def make_dict(self, depth):
        if self.one_in(2):
            entries = ", ".join(f"{self.expr(0, self.pick(['str', 'int']))}: {self.expr(depth)}" for _ in range(self.random.randrange(3)))
            return "{" + entries + "}"
        return f"{self.wrapped(depth, 'dict')}.{self.pick(DICT_METHODS)}"

    # Statements.

    def name(self):
        self.n_names += 1
        return f"v{self.n_names}"

    def tag(self, text):
        return "{%" + self.pick(["", "", "", "-", "+"]) + f" {text} " + self.pick(["", "", "", "-", "+"]) + "%}"

    def text(self):
        return self.pick(["", "text", " ", "\n", "  \n  ", "\n    ", "x\n", "a\n\n  b", "é ", "\t", "{", "%}", "#}", "<p>", "\r\n", "}}"])

    def output(self, depth):
        return "{{" + self.pick(["", "", "-"]) + f" {self.expr(depth)} " + self.pick(["", "", "-"]) + "}}"

    def body(self, depth, in_loop=False):
        return "".join(self.statement(depth, in_loop) for _ in range(self.random.randrange(1, 4)))

    def scoped_body(self, depth, names=(), in_loop=False):
        n_locals = len(self.locals)
        self.locals += names
        text = self.text() + self.body(depth, in_loop) + self.text()
        if self.one_in(2):  # names of a scope that has ended are undefined, which is worth trying now and then
            del self.locals[n_locals:]
        return text

    def statement(self, depth, in_loop=False):
        if depth <= 0 or self.one_in(3):
            return self.text() + self.output(2) + self.text()
        makers = [self.if_block, self.for_loop, self.for_loop, self.set_value, self.set_value, self.set_block, self.macro, self.call_block,
                  self.filter_block, self.with_block, self.space, self.raw, self.comment, self.generation]
        if in_loop:
            makers += [self.leave, self.about_loop, self.about_loop]
        return self.text() + self.pick(makers)(depth - 1, in_loop) + self.text()

    def if_block(self, depth, in_loop):
        text = self.tag(f"if {self.expr(2, 'bool')}") + self.scoped_body(depth, in_loop=in_loop)
        if self.one_in(2):
            text += self.tag(f"elif {self.expr(1, 'bool')}") + self.scoped_body(depth, in_loop=in_loop)
        if self.one_in(2):
            text += self.tag("else") + self.scoped_body(depth, in_loop=in_loop)
        return text + self.tag("endif")

    def for_loop(self, depth, in_loop):
        name = self.name()
        target, names, items = name, [name], self.expr(1, "list")
        if self.one_in(4):
            other = self.name()
            target, names, items = f"{name}, {other}", [name, other], self.pick(["d.items()", "pairs", "d|items", "d|dictsort", "nested"])
        test = f" if {self.pick(names + [self.expr(1, 'bool')])}" if self.one_in(4) else ""
        recursive = " recursive" if self.one_in(8) else ""
        text = self.tag(f"for {target} in {items}{test}{recursive}") + self.scoped_body(depth, names, True)
        if recursive and self.one_in(2):
            text += "{{ loop(" + name + ") if " + name + " is iterable and " + name + " is not string and loop.depth < 3 }}"
        if self.one_in(4):
            text += self.tag("else") + self.scoped_body(depth)
        return text + self.tag("endfor")

    def about_loop(self, depth, in_loop):
        return "{{ " + self.pick(["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0",
                                  "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(loop.index // 2)", "loop.depth",
                                  "loop.nope", "loop|length"]) + " }}"

    def leave(self, depth, in_loop):
        return self.tag(f"if {self.expr(1, 'bool')}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")

    def set_value(self, depth, in_loop):
        name = self.pick(self.locals) if self.locals and self.one_in(3) else self.name()
        text = self.tag(f"set {name} = {self.expr(2)}")
        self.locals.append(name)
        return text

    def set_block(self, depth, in_loop):
        name = self.name()
        filters = self.pick(["", "", " | upper", " | trim | length", " | replace('a', 'b')"])
        text = self.tag(f"set {name}{filters}") + self.scoped_body(depth, in_loop=in_loop) + self.tag("endset")
        self.locals.append(name)
        return text

    def macro(self, depth, in_loop):
        name, one, two = self.name(), self.name(), self.name()
        default = f"={self.expr(1)}" if self.one_in(2) else ""
        more = self.pick(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}"])
        text = self.tag(f"macro {name}({one}, {two}{default})") + self.scoped_body(depth, [one, two]) + more + self.tag("endmacro")
        call = self.pick([f"{self.expr(1)}", f"{self.expr(1)}, {self.expr(1)}", f"{self.expr(1)}, {two}={self.expr(1)}", "",
                          f"{self.expr(1)}, 2, 3", f"1, q={self.expr(1)}", "*[1, 2]", f"**{{'{one}': 5}}"])
        return text + "{{ " + f"{name}({call})" + " }}"

    def call_block(self, depth, in_loop):
        name, inner = self.name(), self.name()
        text = self.tag(f"macro {name}(p=1)") + "[{{ caller(p) }}]" + self.tag("endmacro")
        return text + self.tag(f"call({inner}=0) {name}({self.expr(1)})") + self.scoped_body(depth, [inner]) + self.tag("endcall")

    def filter_block(self, depth, in_loop):
        chosen = self.pick(["upper", "trim", "replace('a', 'b')", "indent(2)", "upper | lower", "length", "title", "e"])
        return self.tag(f"filter {chosen}") + self.scoped_body(depth, in_loop=in_loop) + self.tag("endfilter")

    def with_block(self, depth, in_loop):
        name = self.name()
        return self.tag(f"with {name} = {self.expr(1)}") + self.scoped_body(depth, [name], in_loop) + self.tag("endwith")

    def space(self, depth, in_loop):
        name = self.name()
        text = self.tag(f"set {name} = namespace(a={self.expr(1)})")
        text += self.tag(f"for q in {self.expr(1, 'list')}") + self.tag(f"set {name}.a = {self.pick(['q', name + '.a', self.expr(1)])}")
        text += self.tag("endfor") + "{{ " + name + ".a }}"
        return text + self.pick(["", "{{ " + name + ".b is defined }}", "{{ " + name + " }}"])

    def raw(self, depth, in_loop):
        return self.tag("raw").replace("+%}", "%}") + self.pick([" {{ x }} ", "\n{% if %}\n", "{# c #}", ""]) + self.tag("endraw")

    def comment(self, depth, in_loop):
        return "{#" + self.pick(["", "-", "+"]) + self.pick([" note ", "\nnote\n", " {{ x }} ", ""]) + self.pick(["", "-", "+"]) + "#}"

    def generation(self, depth, in_loop):
        return self.tag("generation") + self.scoped_body(depth) + self.tag("endgeneration")


def make_request(seed):
    fuzzer = Fuzzer(seed)
    if seed % 2:
        template = fuzzer.output(4)
    else:
        template = fuzzer.body(3)
    return {"template": template, "messages": CONTEXT["messages"], "tools": None, "context": CONTEXT, "now": 0}


TOKEN = re.compile(r"\{[{%#][-+]?|[-+]?[}%#]\}|\w+|\s+|'[^'\n]*'|\"[^\"\n]*\"|.", re.S)


def mutate(seed, source):
    """`source` with a few tokens lost, doubled, swapped or replaced by others of it."""
    rng = random.Random(seed)
    tokens = TOKEN.findall(source)
    for _ in range(rng.randrange(1, 4)):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        change = rng.randrange(4)
        if change == 0:
            tokens[at] = ""
        elif change == 1:
            tokens[at] *= 2
        elif change == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens[at] = tokens[other]
    return "".join(tokens)
