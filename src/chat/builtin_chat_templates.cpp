#include "chat/builtin_chat_templates.h"

#include <algorithm>
#include <array>

namespace patchbay {
namespace {

constexpr std::string_view k_chatml = R"jinja(
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})jinja";

constexpr std::string_view k_command_r = R"jinja(
{{- bos_token }}
{%- set names = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} %}
{%- for message in messages %}
    {%- if message.role not in names %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
    {{- '<|START_OF_TURN_TOKEN|><|' + names[message.role] + '_TOKEN|>' }}
    {{- message.content | trim + '<|END_OF_TURN_TOKEN|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif %})jinja";

constexpr std::string_view k_deepseek = R"jinja(
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- message.content + '\n\n' }}
    {%- elif message.role == 'user' %}
        {{- 'User: ' + message.content + '\n\n' }}
    {%- elif message.role == 'assistant' %}
        {{- 'Assistant: ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- 'Assistant:' }}
{%- endif %})jinja";

constexpr std::string_view k_falcon3 = R"jinja(
{%- for message in messages %}
    {{- '<|' + message.role + '|>\n' + message.content }}
    {{- eos_token + '\n' if message.role == 'assistant' else '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})jinja";

constexpr std::string_view k_gemma = R"jinja(
{{- bos_token }}
{%- set ns = namespace(before='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.before = ns.before + message.content + '\n\n' %}
    {%- elif message.role in ['user', 'assistant'] %}
        {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\n' }}
        {{- ns.before + message.content | trim + '<end_of_turn>\n' }}
        {%- set ns.before = '' %}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if ns.before %}
    {{- '<start_of_turn>user\n' + ns.before | trim + '<end_of_turn>\n' }}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\n' }}
{%- endif %})jinja";

constexpr std::string_view k_granite = R"jinja(
{%- for message in messages %}
    {{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content }}
    {{- '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif %})jinja";

constexpr std::string_view k_hermes = R"jinja(
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
        {%- set messages = messages[1:] %}
    {%- endif %}
    {{- '# Tools\n\nYou can call these functions, which are given as JSON:\n<tools>\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\n' }}
    {%- endfor %}
    {{- '</tools>\n\nTo call one, write its name and its arguments as JSON between tags:\n' }}
    {{- '<tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\n' if message.content or not loop.first }}
            {{- '<tool_call>\n{"name": ' + call.function.name | tojson }}
            {{- ', "arguments": ' + call.function.arguments | tojson + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})jinja";

constexpr std::string_view k_llama2 = R"jinja(
{%- set ns = namespace(before='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.before = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' %}
    {%- elif message.role == 'user' %}
        {{- bos_token + '[INST] ' + ns.before + message.content | trim + ' [/INST]' }}
        {%- set ns.before = '' %}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + ' ' + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if ns.before %}
    {{- raise_exception('this chat template wants a user message after the system message') }}
{%- endif %})jinja";

constexpr std::string_view k_llama3 = R"jinja(
{{- bos_token }}
{%- if tools %}
    {{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content | trim + '\n\n' }}
        {%- set messages = messages[1:] %}
    {%- endif %}
    {{- 'You can call these functions, which are given as JSON. To call one, answer with ' }}
    {{- '{"name": <name>, "parameters": <parameters>} and nothing else.\n\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) + '\n\n' }}
    {%- endfor %}
    {{- '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
    {%- set role = 'ipython' if message.role == 'tool' else message.role %}
    {{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' + message.content | trim }}
    {%- for call in message.tool_calls or [] %}
        {{- '; ' if not loop.first }}
        {{- '{"name": ' + call.function.name | tojson }}
        {{- ', "parameters": ' + call.function.arguments | tojson + '}' }}
    {%- endfor %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})jinja";

constexpr std::string_view k_mistral_v1 = R"jinja(
{{- bos_token }}
{%- set ns = namespace(before='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.before = ns.before + message.content + '\n\n' %}
    {%- elif message.role == 'user' %}
        {{- ' [INST] ' + ns.before + message.content + ' [/INST]' }}
        {%- set ns.before = '' %}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if ns.before %}
    {{- raise_exception('this chat template wants a user message after the system message') }}
{%- endif %})jinja";

constexpr std::string_view k_mistral_v3 = R"jinja(
{{- bos_token }}
{%- set ns = namespace(before='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.before = ns.before + message.content + '\n\n' %}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' + ns.before + message.content + '[/INST]' }}
        {%- set ns.before = '' %}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if ns.before %}
    {{- raise_exception('this chat template wants a user message after the system message') }}
{%- endif %})jinja";

constexpr std::string_view k_mistral_v7 = R"jinja(
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- '[SYSTEM_PROMPT] ' + message.content + '[/SYSTEM_PROMPT]' }}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' + message.content + '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %})jinja";

constexpr std::string_view k_phi3 = R"jinja(
{{- bos_token }}
{%- for message in messages %}
    {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})jinja";

constexpr std::string_view k_phi4 = R"jinja(
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant<|im_sep|>' }}
{%- endif %})jinja";

constexpr std::string_view k_vicuna = R"jinja(
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- message.content + ' ' }}
    {%- elif message.role == 'user' %}
        {{- 'USER: ' + message.content + ' ' }}
    {%- elif message.role == 'assistant' %}
        {{- 'ASSISTANT: ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('this chat template knows no role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- 'ASSISTANT:' }}
{%- endif %})jinja";

constexpr std::string_view k_zephyr = R"jinja(
{%- for message in messages %}
    {{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})jinja";

constexpr std::array<BuiltinChatTemplate, 17> k_all{{{"chatml", k_chatml},
                                                     {"command-r", k_command_r},
                                                     {"deepseek", k_deepseek},
                                                     {"falcon3", k_falcon3},
                                                     {"gemma", k_gemma},
                                                     {"granite", k_granite},
                                                     {"hermes", k_hermes},
                                                     {"llama2", k_llama2},
                                                     {"llama2-sys", k_llama2},
                                                     {"llama3", k_llama3},
                                                     {"mistral-v1", k_mistral_v1},
                                                     {"mistral-v3", k_mistral_v3},
                                                     {"mistral-v7", k_mistral_v7},
                                                     {"phi3", k_phi3},
                                                     {"phi4", k_phi4},
                                                     {"vicuna", k_vicuna},
                                                     {"zephyr", k_zephyr}}};

}  // namespace

std::span<const BuiltinChatTemplate> builtin_chat_templates() { return k_all; }

std::string_view find_builtin_chat_template(std::string_view name) {
  const auto found = std::ranges::find(k_all, name, &BuiltinChatTemplate::name);
  return found == k_all.end() ? std::string_view() : found->text;
}

}  // namespace patchbay
