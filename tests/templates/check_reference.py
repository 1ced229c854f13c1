"""Compares reference.py with what transformers itself makes of every template and conversation. Needs transformers.

    .venv-oracle/bin/python tests/templates/check_reference.py
"""

import sys
from datetime import datetime, timezone
from unittest import mock

from transformers.utils import chat_template_utils

import conversations
import test_templates

NOW = datetime.fromtimestamp(test_templates.NOW / 1e6, timezone.utc).replace(tzinfo=None)


def rendered(request):
    clock = mock.Mock(now=lambda: NOW)
    with mock.patch.object(chat_template_utils, "datetime", clock):
        template = chat_template_utils._compile_jinja_template(request["template"])
        known = {"messages": request["messages"], "tools": request["tools"], "documents": None, "add_generation_prompt": False}
        return template.render(**(known | request["context"]))


def main():
    n = 0
    for path in test_templates.FAMILIES:
        for name, conversation in conversations.CONVERSATIONS.items():
            request = test_templates.request_of(path.read_text(), conversation)
            want = test_templates.expected(request)
            try:
                got = {"text": rendered(request)}
            except Exception as error:
                got = {"error": str(error)}
            if ("text" in want or "text" in got) and want != got:
                sys.exit(f"{path.stem}, {name}:\ntransformers {got}\nreference    {want}")
            n += 1
    print(f"{n} texts are those of transformers")


if __name__ == "__main__":
    main()
