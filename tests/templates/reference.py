"""What Python's jinja2 makes of a chat template, set up as transformers.utils.chat_template_utils does it."""

import copy
import functools
import json
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.sandbox


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: a block that is called and gives back its own text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text_of"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _text_of(self, context, caller):
        return caller()


class TemplateNamespace(jinja2.utils.Namespace):
    """Takes no names that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def check_name(name):
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"underscore-prefixed attribute {name!r}")


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(now):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format: now.strftime(format)
    environment.globals["dict"] = lambda *args, **kwargs: dict(*args, **kwargs)
    environment.globals["namespace"] = TemplateNamespace
    return environment


@functools.lru_cache(maxsize=100)
def compiled(template, now):
    """`now` counts microseconds."""
    return make_environment(datetime.fromtimestamp(now / 1e6, timezone.utc).replace(tzinfo=None)).from_string(template)


def render(request):
    """The text for a request of render_template, or an exception."""
    template = compiled(request["template"], request.get("now", 0))
    known = {"messages": request.get("messages"), "tools": request.get("tools"), "documents": None,
             "add_generation_prompt": False}
    # The filter `indent` extends a list that it is given.
    return template.render(**copy.deepcopy(known | request.get("context", {})))
