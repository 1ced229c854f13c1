"""Message lists that chat templates meet, each with what else a request brings."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place <now> & \"later\".",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A town, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": ["integer", "null"], "description": " how many "}}},
    "return": {"type": "object", "description": "what it is like"}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Looks things up.",
    "parameters": {"type": "object", "properties": {
        "queries": {"type": "array", "items": {"type": "string"}, "description": "what to look for"},
        "options": {"type": "object", "properties": {"limit": {"type": "integer"}, "exact": {"type": "boolean"}}, "required": ["limit"]},
        "threshold": {"type": "number", "minimum": 0.5, "maximum": 1e-7}}}}}
NO_PARAMETERS = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="abc123XYZ"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, id="abc123XYZ", name="get_weather"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": content}


def text(content):
    return {"type": "text", "text": content}


TOOL_TURNS = [user("Weather in Zürich?"),
              assistant(None, tool_calls=[call("get_weather", {"place": "Zürich", "days": 2, "t": [1.0, None, True, {"a": "é\n\"</s>"}]})]),
              tool('{"temp": 21.5}'), assistant("It is 21.5 °C."), user("Thanks!")]

# name -> (messages, tools, context)
CONVERSATIONS = {
    "one_question": ([user("Hello!")], None, {"add_generation_prompt": True}),
    "no_prompt": ([user("Hello!")], None, {}),
    "with_system": ([system("Be brief."), user("Hello!")], None, {"add_generation_prompt": True}),
    "several_turns": ([system(" Be brief.\n"), user(" Hi\n\n there "), assistant(" Hello! "), user("And now?"), assistant("This.\n")], None, {}),
    "several_turns_without_system": ([user("1"), assistant("2"), user("3")], None, {"add_generation_prompt": True}),
    "several_systems": ([system("One."), user("Hi"), system("Two."), assistant("Hello"), user("Bye")], None, {"add_generation_prompt": True}),
    "two_systems_first": ([system("One."), system("Two."), user("Hi")], None, {"add_generation_prompt": True}),
    "system_only": ([system("Be brief.")], None, {"add_generation_prompt": True}),
    "two_users_in_a_row": ([user("One"), user("Two"), assistant("Both")], None, {"add_generation_prompt": True}),
    "assistant_first": ([assistant("Welcome."), user("Hi")], None, {"add_generation_prompt": True}),
    "empty_contents": ([system(""), user(""), assistant(""), user(" ")], None, {"add_generation_prompt": True}),
    "no_messages": ([], None, {"add_generation_prompt": True}),
    "none_content": ([user("Hi"), assistant(None), user("?")], None, {"add_generation_prompt": True}),
    "missing_content": ([{"role": "user"}, assistant("What?")], None, {}),
    "unicode": ([system("Sei höflich — „bitte“"), user("日本語 👩‍👩‍👧 \u200d\u00a0\u2028 é e\u0301 \x07\x1b"), assistant("ΌΣΣΟΣ ǅ ﬁ ß"), user("\\n \\u0041 {{ x }} {% y %} <|im_end|>")],
                None, {"add_generation_prompt": True}),
    "line_breaks": ([user("a\r\nb\rc\n\n\nd\t "), assistant("\n\n x \n"), user("\n")], None, {"add_generation_prompt": True}),
    "list_contents": ([system([text("Be brief.")]), user([text("One "), {"type": "image", "url": "x"}, text(" Two")]), assistant([text("Yes")]), user([text("?")])],
                      None, {"add_generation_prompt": True}),
    "list_content_of_user": ([user([text("One "), text("Two")])], None, {"add_generation_prompt": True}),
    "unknown_part": ([user([{"type": "audio", "data": "x"}])], None, {"add_generation_prompt": True}),
    "unknown_role": ([{"role": "critic", "content": "Hm."}, user("Hi")], None, {"add_generation_prompt": True}),
    "tools_without_calls": ([user("Weather?")], [WEATHER, SEARCH], {"add_generation_prompt": True}),
    "tools_with_system": ([system("Be brief."), user("Weather?")], [WEATHER], {"add_generation_prompt": True}),
    "empty_tools": ([user("Weather?")], [], {"add_generation_prompt": True}),
    "bare_tool": ([user("Time?")], [NO_PARAMETERS], {"add_generation_prompt": True}),
    "tool_turns": (TOOL_TURNS, [WEATHER], {"add_generation_prompt": True}),
    "tool_turns_to_result": ([system("S")] + TOOL_TURNS[:3], [WEATHER, SEARCH], {"add_generation_prompt": True}),
    "two_calls": ([user("?"), assistant("Let me see.", tool_calls=[call("search", {"queries": ["a", "b"]}), call("get_weather", {"place": "Rom"}, "000000002")]),
                   tool("none", name="search"), tool("{}", "000000002"), assistant("Nothing.")], [WEATHER, SEARCH], {}),
    "call_with_text_arguments": ([user("?"), assistant("", tool_calls=[call("search", '{"queries": ["a"]}')]), tool("x")], [SEARCH], {"add_generation_prompt": True}),
    "call_without_id": ([user("?"), {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "now", "arguments": {}}}]}, tool("12:00", id=None)],
                        [NO_PARAMETERS], {"add_generation_prompt": True}),
    "tool_result_of_parts": ([user("?"), assistant(None, tool_calls=[call("now", {})]), tool([text("12:00")])], [NO_PARAMETERS], {}),
    "result_without_call": ([user("?"), tool("x")], [WEATHER], {"add_generation_prompt": True}),
    "thoughts": ([user("Why?"), assistant("<think>\nHm.\n</think>\n\nBecause.", reasoning_content=None), user("Sure?"), assistant("Yes.", reasoning_content="\nWell.\n")],
                 None, {"add_generation_prompt": True}),
    "thinking_off": ([system("/no_think Be brief. "), user("Why?")], None, {"add_generation_prompt": True, "enable_thinking": False}),
    "thinking_on": ([user("Why?")], None, {"add_generation_prompt": True, "enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    "documents": ([user("Who?")], None, {"add_generation_prompt": True, "controls": {"citations": True, "length": "short"},
                  "documents": [{"title": "a-tale of two", "text": "It was the best of times, it was the worst of times, it was the age of wisdom."}, {"title": None, "text": ""}, {"text": "x<y"}]}),
    "built_in_tools": ([user("Pi?"), assistant(None, tool_calls=[call("wolfram", {"query": "pi"})])], None,
                       {"builtin_tools": ["code_interpreter", "wolfram", "brave_search"], "date_string": "1 Jan 2025"}),
    "tools_in_system": ([system("S"), user("Weather?")], [WEATHER], {"tools_in_user_message": False}),
    "many_turns": ([message for i in range(30) for message in (user(f"q{i}"), assistant(f"a{i}"))], None, {"add_generation_prompt": True}),
    "large_numbers": ([user("?"), assistant(None, tool_calls=[call("f", {"u": 2**64 - 1, "i": -2**63, "f": 1e22, "s": 5e-324, "p": 0.1, "z": -0.0, "w": 100.0})])], None, {}),
}
