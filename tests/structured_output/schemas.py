"""Random JSON schemas of the supported kind, each with a way to draw valid instances, and cases written by hand.

A maker returns (schema, sample): sample() draws an instance that is valid and that Patchbay can write: members in the
order of the schema, integers of at most 18 digits, no members that the schema does not name unless it speaks of them.
"""

import random
import string

PATTERNS = [  # with texts in which they are found
    ("^[a-z]{2,5}$", ["ab", "abcde", "xyz"]),
    ("[0-9]+", ["a1", "12", "x 3 y", "9é"]),
    ("^(red|green|blue)$", ["red", "green", "blue"]),
    ("^\\d{3}-\\d{4}$", ["555-1234", "000-0000"]),
    ("^[^\\s@]+@[^\\s@]+$", ["a@b", "x.y@z.w"]),
    ("^a.c$", ["abc", "a\"c", "aéc", "a\\c"]),
    ("^(?:ab|cd)*?e+$", ["e", "abe", "abcdabee"]),
    ("foo|^bar", ["a foo", "barn", "foobar"]),
    ("\\.json$", ["a.json", ".json"]),
    ("^\\w+\\S{2,}\\W$", ["abc!", "a\u00e9\u00e9-"]),
    ("^[\u00e4-\u00fc\U0001F600]{1,3}$", ["\u00e4", "\U0001F600\u00fc"]),
    ("^[\\t\\n\"\\\\/]+$", ["\t", "\n\"", "\\/"]),
]
FORMATS = {
    "date": ["2024-02-29", "1999-12-31", "0001-01-01"],
    "time": ["23:59:59Z", "00:00:00.5+01:30"],
    "date-time": ["2000-02-29T12:00:00Z"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "ipv4": ["127.0.0.1", "255.255.255.255", "0.0.0.0"],
    "email": ["someone@example.org", "a.b@c.de"],
}
WORDS = ["name", "age", "tags", "a b", "größe", "quote\"d", "back\\slash", "id", "x", "nested", "tab\t", "😀"]
TEXTS = ["", "x", "Hello, world!", "größer", "quote \" here", "back\\slash", "line\nbreak", "tab\t", "数据", "😀😀", "\u0001"]


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.definitions = {}
        self.n_named = 0

    def new_name(self, kind):
        self.n_named += 1
        return f"{kind}{self.n_named}"

    def schema(self):
        schema, sample = self.value(3)
        if schema is True:
            return schema, sample
        if self.rng.random() < 0.3:
            schema = {"title": "T", "description": "some", "default": None, "examples": [1]} | schema
        if self.definitions:
            place = self.rng.choice(["$defs", "definitions"])
            schema = self.renamed(schema | {place: self.definitions}, f"#/{place}/")
        return schema, sample

    def renamed(self, value, place):
        """References name $defs; follow where the definitions went."""
        if isinstance(value, dict):
            return {key: part.replace("#/$defs/", place) if key == "$ref" else self.renamed(part, place)
                    for key, part in value.items()}
        return [self.renamed(part, place) for part in value] if isinstance(value, list) else value

    def value(self, depth):
        simple = [self.text, self.text_with_pattern, self.text_with_format, self.integer, self.number, self.boolean,
                  self.null, self.listed, self.types]
        nested = [self.array, self.array, self.tuple, self.object, self.object, self.object, self.map, self.any_of,
                  self.one_of, self.all_of, self.tree, self.shared, self.anything]
        return self.rng.choice(nested if depth > 0 and self.rng.random() < 0.7 else simple)(depth - 1)

    # Values without others inside

    def text(self, _):
        lengths = self.rng.choice([{}, {"maxLength": 6}, {"minLength": 2}, {"minLength": 1, "maxLength": 3}])
        low, high = lengths.get("minLength", 0), lengths.get("maxLength", 40)
        fitting = [text for text in TEXTS if low <= len(text) <= high]
        return {"type": "string"} | lengths, lambda: self.rng.choice(fitting)

    def text_with_pattern(self, _):
        pattern, texts = self.rng.choice(PATTERNS)
        schema = {"type": "string", "pattern": pattern}
        if self.rng.random() < 0.4:
            schema["maxLength"] = max(map(len, texts)) + 1
        return schema, lambda: self.rng.choice(texts)

    def text_with_format(self, _):
        name = self.rng.choice(list(FORMATS))
        return {"type": "string", "format": name}, lambda: self.rng.choice(FORMATS[name])

    def bounds(self, to_bound):
        low, high = sorted([self.rng.randint(-1200, 1200), self.rng.randint(-1200, 1200)])
        high += 2
        low, high = to_bound(low), to_bound(high)
        names = self.rng.choice([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"), ("minimum", None),
                                 (None, "exclusiveMaximum"), (None, "maximum")])
        bounds = {name: bound for name, bound in zip(names, (low, high)) if name}
        return bounds, low, high, "exclusiveMinimum" in bounds, "exclusiveMaximum" in bounds

    def integer(self, _):
        if self.rng.random() < 0.3:
            return {"type": "integer"}, lambda: self.rng.choice([0, -1, 7, 10**17, -123456])
        bounds, low, high, above, below = self.bounds(lambda bound: bound)
        multiple = self.rng.choice([1, 1, 2, 5, 7, 12])
        inside = [n for n in range(low + above, high + 1 - below) if n % multiple == 0]
        if not inside:
            return self.integer(_)
        return {"type": "integer"} | bounds | ({"multipleOf": multiple} if multiple > 1 else {}), lambda: self.rng.choice(inside)

    def number(self, _):
        if self.rng.random() < 0.3:
            return {"type": "number"}, lambda: self.rng.choice([0, 1.5, -2.25, 1e20, 1e-7, 123456])
        bounds, low, high, above, below = self.bounds(lambda bound: round(bound / self.rng.choice([1, 10, 100, 1000]), 3))
        if low > high or (low == high and (above or below)):
            return self.number(_)

        def sample():
            drawn = round(self.rng.uniform(low, high), self.rng.choice([1, 3, 6]))
            drawn = drawn or 0  # not -0.0
            return drawn if low < drawn < high else round((low + high) / 2, 6) if low < high else low

        return {"type": "number"} | bounds, sample

    def boolean(self, _):
        return {"type": "boolean"}, lambda: self.rng.random() < 0.5

    def null(self, _):
        return {"type": "null"}, lambda: None

    def listed(self, _):
        values = self.rng.sample([1, 2.5, "a", "größe", None, True, [1, "x"], {"k": [True]}, "q\"", -7], self.rng.randint(1, 4))
        if len(values) == 1:
            return {"const": values[0]}, lambda: values[0]
        return {"enum": values}, lambda: self.rng.choice(values)

    def types(self, _):
        samples = {"string": "a", "integer": 3, "boolean": True, "null": None, "number": 1.25}
        names = self.rng.sample(list(samples), self.rng.randint(2, 3))
        if self.rng.random() < 0.3:
            return {"type": "string", "nullable": True}, lambda: "s"
        return {"type": names}, lambda: samples[self.rng.choice(names)]

    # Values with others inside

    def array(self, depth):
        items, sample = self.value(depth)
        counts = self.rng.choice([{}, {"minItems": 1}, {"minItems": 2, "maxItems": 4}, {"maxItems": 3}])
        low, high = counts.get("minItems", 0), counts.get("maxItems", 4)
        return {"type": "array", "items": items} | counts, lambda: [sample() for _ in range(self.rng.randint(low, high))]

    def tuple(self, depth):
        parts = [self.value(depth) for _ in range(self.rng.randint(1, 3))]
        schema = {"type": "array", "prefixItems": [part for part, _ in parts]}
        more = None
        if self.rng.random() < 0.5:
            schema["items"] = False
        elif self.rng.random() < 0.5:
            schema["items"], more = self.value(0)
        if self.rng.random() < 0.5:
            schema["minItems"] = len(parts)

        def sample():
            n = self.rng.randint(schema.get("minItems", 0), len(parts))
            items = [draw() for _, draw in parts[:n]]
            return items + [more() for _ in range(self.rng.randint(0, 2))] if more and n == len(parts) else items

        return schema, sample

    def object(self, depth):
        names = self.rng.sample(WORDS, self.rng.randint(0, 4))
        members = {name: self.value(depth) for name in names}
        required = [name for name in names if self.rng.random() < 0.5]
        schema = {"type": "object", "properties": {name: part for name, (part, _) in members.items()}}
        if required:
            schema["required"] = required
        more = None
        if self.rng.random() < 0.4:
            schema["additionalProperties"] = False
        elif self.rng.random() < 0.3:
            schema["additionalProperties"], more = self.value(0)
        if not more and self.rng.random() < 0.2:
            schema["maxProperties"] = max(len(required), len(names) - 1)

        def sample():
            drawn = {name: draw() for name, (_, draw) in members.items() if name in required or self.rng.random() < 0.5}
            while len(drawn) > schema.get("maxProperties", 99):
                drawn.pop(next(name for name in drawn if name not in required))
            if more and self.rng.random() < 0.5:
                drawn[self.rng.choice(["other", "na", "names", "ä"])] = more()
            return drawn

        return schema, sample

    def map(self, depth):
        part, draw = self.value(depth)
        counts = self.rng.choice([{}, {"minProperties": 1}, {"maxProperties": 2}])
        return {"type": "object", "additionalProperties": part} | counts, lambda: {
            name: draw() for name in self.rng.sample(["k", "ключ", "a\"b"], self.rng.randint(counts.get("minProperties", 0), 2))}

    def any_of(self, depth):
        parts = [self.value(depth) for _ in range(self.rng.randint(2, 3))]
        return {"anyOf": [part for part, _ in parts]}, lambda: self.rng.choice(parts)[1]()

    def one_of(self, depth):
        if self.rng.random() < 0.5:
            parts = [self.text(0), self.integer(0), self.array(depth)]
            return {"oneOf": [part for part, _ in parts]}, lambda: self.rng.choice(parts)[1]()
        kinds = []
        for kind in ("circle", "square"):
            part, draw = self.value(depth)
            schema = {"type": "object", "properties": {"kind": {"const": kind}, "of": part}, "required": ["kind"]}
            kinds.append((schema, lambda kind=kind, draw=draw: {"kind": kind, "of": draw()}))
        return {"oneOf": [schema for schema, _ in kinds]}, lambda: self.rng.choice(kinds)[1]()

    def all_of(self, depth):
        """The keywords of one schema, dealt to several."""
        schema, sample = self.rng.choice([self.integer, self.text, self.array, self.object])(depth)
        halves = [{}, {}]
        dealt_together = {"properties", "additionalProperties"}
        for key, value in schema.items():
            halves[0 if key in dealt_together else self.rng.randint(0, 1)][key] = value
        if self.rng.random() < 0.3:
            name = self.new_name("half")
            self.definitions[name] = halves[1]
            halves[1] = {"$ref": f"#/$defs/{name}"}
            if self.rng.random() < 0.5:
                return halves[0] | halves[1], sample
        return {"allOf": halves}, sample

    def shared(self, depth):
        name = self.new_name("shared/")
        self.definitions[name], sample = self.value(depth)
        reference = {"$ref": "#/$defs/" + name.replace("/", "~1")}
        if self.rng.random() < 0.3:
            reference["description"] = "beside a reference"
        return reference, sample

    def tree(self, _):
        name = self.new_name("tree")
        reference = {"$ref": f"#/$defs/{name}"}
        self.definitions[name] = {"type": "object", "properties": {"value": {"type": "integer"},
                                                                     "children": {"type": "array", "items": reference}},
                                  "required": ["value"], "additionalProperties": False}

        def sample(depth=2):
            node = {"value": self.rng.randint(0, 9)}
            if depth and self.rng.random() < 0.7:
                node["children"] = [sample(depth - 1) for _ in range(self.rng.randint(0, 2))]
            return node

        return reference, sample

    def anything(self, _):
        return self.rng.choice([True, {}]), lambda: self.rng.choice([1, "a", None, [1, {"a": []}], {"b": {"c": False}}])


BY_HAND = [
    {"type": "object"},
    {"type": "array"},
    True,
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"a": False, "b": {"type": "integer"}}},
    {"type": "object", "required": ["a", "b"]},
    {"type": "object", "required": ["z"], "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
     "minProperties": 2, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "minProperties": 2,
     "maxProperties": 3, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "minProperties": 1, "maxProperties": 1},
    {"type": "object", "maxProperties": 0},
    {"type": "array", "maxItems": 0},
    {"type": "array", "items": False},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "minItems": 3, "maxItems": 5},
    {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
    {"type": "integer", "minimum": 0, "maximum": 0},
    {"type": "integer", "minimum": -5, "maximum": 105, "multipleOf": 5},
    {"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 1001},
    {"type": "integer", "minimum": 2.5, "maximum": 10.5},
    {"type": "integer", "maximum": -1},
    {"type": "integer", "minimum": 999999999999999999},
    {"type": "integer", "format": "int32"},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": -0.001, "maximum": 0.0005},
    {"type": "number", "exclusiveMaximum": -3.25},
    {"type": "number", "minimum": 1e-7, "maximum": 1e3},
    {"type": "number", "minimum": 3, "maximum": 3},
    {"type": "number", "multipleOf": 3, "minimum": 1},
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "string", "maxLength": 0},
    {"type": "string", "pattern": "^$"},
    {"type": "string", "pattern": "a{2,3}"},
    {"type": "string", "pattern": "^[a-c]+$", "minLength": 2, "maxLength": 4},
    {"type": "string", "format": "date", "pattern": "^2024"},
    {"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}, {"maxLength": 6}]},
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"type": "object", "properties": {"a": {"minimum": 5}, "b": {"type": "string"}}}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
               {"properties": {"a": {"maximum": 3}, "b": {"type": "string"}}}]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
     "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": ["integer", "string"], "enum": [1, "a", None, 2.5, 3.0]},
    {"enum": [{"b": 1, "a": 2}, [1, 2], "x"], "type": "object"},
    {"const": {"a": [1.0, {"b": None}]}},
    {"enum": ["aa", "ab", "b", "abc"], "minLength": 2, "pattern": "^a"},
    {"anyOf": [{"enum": [1, 2]}, {"const": "x"}], "type": "integer"},
    {"oneOf": [{"type": "integer", "maximum": 0}, {"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 2}]},
    {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
               {"type": "object", "properties": {"a": {"enum": [2, 3]}}, "required": ["a"]}]},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
    {"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "boolean"}}},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/x", "$comment": "c",
     "type": "boolean"},
    {"x-order": 1, "type": "null", "uniqueItems": False},
    {"type": "object", "properties": {"a/b~c": {"type": "integer"}}, "required": ["a/b~c"]},
    {"anyOf": [False, {"type": "integer"}]},
    {"type": "string", "enum": ["\u2028", "\x7f", "\x00", "\ud7ff"]},
    {"type": "array", "minItems": 1, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
]

REFUSED = [  # (schema, where, what)
    ({"not": {}}, "#/not", "not is not supported"),
    ({"properties": {"a/b": {"if": {}}}}, "#/properties/a~1b/if", "if is not supported"),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems", "uniqueItems is not supported"),
    ({"type": "array", "contains": {}}, "#/contains", "contains is not supported"),
    ({"patternProperties": {"a": {}}}, "#/patternProperties", "patternProperties is not supported"),
    ({"propertyNames": {}}, "#/propertyNames", "propertyNames is not supported"),
    ({"dependentRequired": {}}, "#/dependentRequired", "dependentRequired is not supported"),
    ({"unevaluatedProperties": False}, "#/unevaluatedProperties", "unevaluatedProperties is not supported"),
    ({"items": [{}]}, "#/items", "prefixItems"),
    ({"type": "string", "format": "uri"}, "#/format", "format \"uri\" is not supported"),
    ({"type": "string", "pattern": "(?=a)"}, "#/pattern", "lookaround"),
    ({"type": "string", "pattern": "(a)\\1"}, "#/pattern", "back references"),
    ({"type": "string", "pattern": "\\bword"}, "#/pattern", "word boundaries"),
    ({"type": "string", "pattern": "\\p{L}"}, "#/pattern", "by property"),
    ({"type": "string", "pattern": "(^a)"}, "#/pattern", "^ is supported at the beginning only"),
    ({"type": "string", "pattern": "a$b"}, "#/pattern", "$ is supported at the end only"),
    ({"type": "string", "pattern": "("}, "#/pattern", "this group is not closed"),
    ({"type": "string", "pattern": "[^\\D]"}, "#/pattern", "negated class"),
    ({"type": "string", "pattern": "(a{1000}){1000}"}, "#/pattern", "too large"),
    ({"type": "number", "multipleOf": 0.5}, "#/multipleOf", "whole numbers"),
    ({"type": "integer", "multipleOf": 5000}, "#", "multipleOf 5000 is not supported"),
    ({"type": "number", "minimum": 0.12345678901234567}, "#", "15 digits"),
    ({"minimum": "1"}, "#/minimum", "minimum is a number"),
    ({"minLength": -1}, "#/minLength", "whole number"),
    ({"exclusiveMinimum": True}, "#/exclusiveMinimum", "is a number"),
    ({"type": "text"}, "#/type", "\"text\" is no type"),
    ({"required": "a"}, "#/required", "list of names"),
    ({"properties": {"a": 3}}, "#/properties/a", "object, true or false"),
    ({"enum": 3}, "#/enum", "list of values"),
    ({"anyOf": []}, "#/anyOf", "list of schemas"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#/oneOf", "options 0 and 1 may hold at once"),
    ({"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"type": "object", "properties": {"a": {"const": 2}}}]},
     "#/oneOf", "may hold at once"),  # {} is of both
    ({"$ref": "#"}, "#", "refers to itself"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "#/$defs/a", "refers to itself"),
    ({"$ref": "#/$defs/a"}, "#/$ref", "leads nowhere"),
    ({"$ref": "https://example.org/s.json"}, "#/$ref", "does not lead into this schema"),
    ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "#", "calls itself before it reads anything"),
    ({"properties": {"a": {"$id": "x"}}}, "#/properties/a/$id", "at the root only"),
    ({"type": "object", "minProperties": 3}, "#", "minProperties"),
    ({"type": "string", "maxLength": 1000000}, "#", "lengths above"),
    ({"type": "array", "maxItems": 100000, "items": {}}, "#", "items are not supported"),
    (False, "#", "can never end"),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, "#", "can never end"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "#", "can never end"),
    ({"type": "integer", "enum": ["a"]}, "#", "can never end"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "#", "can never end"),
]
