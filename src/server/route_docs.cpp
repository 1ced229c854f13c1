#include "server/route_docs.h"

namespace patchbay {
namespace {

using Fields = std::vector<FieldDoc>;

Fields joined(Fields fields, const std::vector<Fields> &more) {
  for (const auto &some : more) fields.insert(fields.end(), some.begin(), some.end());
  return fields;
}

Fields adapter_fields() {
  return {{"model", "string", "the base, or an adapter at its own strength"},
          {"lora", "array", "adapters worn: [{\"id\" or \"name\", \"scale\"}]; [] is the base"},
          {"adapter_id", "string", "an adapter's name"},
          {"lora_path", "string", "an adapter's name, never a path"},
          {"lora_request", "object", "{\"lora_name\": an adapter's name}"}};
}

Fields sampling_fields() {
  return {{"temperature", "number", "0 takes the best token"},
          {"top_k", "integer", "keep the best; 0 or -1: all"},
          {"top_p", "number", "keep the best up to this probability"},
          {"min_p", "number", "drop what is less likely than this part of the best"},
          {"presence_penalty", "number", "lowers logits of tokens that occurred"},
          {"frequency_penalty", "number", "the same per occurrence"},
          {"repeat_penalty", "number", "divides logits of recent tokens"},
          {"repeat_last_n", "integer", "tokens that the penalties look back at"},
          {"seed", "integer", "-1: another one each time"},
          {"stop", "string|array", "the answer ends before the first of these"},
          {"logit_bias", "object|array", "added to logits, by token id"},
          {"ignore_eos", "boolean", "the answer ends by its length only"},
          {"n", "integer", "answers"}};
}

Fields output_fields() {
  return {{"grammar", "string", "GBNF that the answer keeps to"},
          {"json_schema", "object|boolean", "a JSON schema that the answer keeps to"},
          {"response_format", "object", "text, json_object, or json_schema with its schema"}};
}

Fields message_fields() {
  return {{"messages", "array", "[{\"role\", \"content\"}]", true},
          {"tools", "array", "functions that the answer may call"},
          {"tool_choice", "string|object", "auto, none, required, or a function"},
          {"parallel_tool_calls", "boolean", "several calls in one answer"},
          {"chat_template_kwargs", "object", "variables of the chat template"},
          {"add_generation_prompt", "boolean", "begin the answer (default)"},
          {"continue_final_message", "boolean", "go on with the last message"}};
}

Fields chat_fields() {
  return joined(message_fields(),
                {{{"max_tokens", "integer", "at most"},
                  {"max_completion_tokens", "integer", "the same"},
                  {"n_predict", "integer", "the same"},
                  {"stream", "boolean", "server-sent events"},
                  {"stream_options", "object", "{\"include_usage\": true}"},
                  {"logprobs", "boolean", "log-probabilities of the tokens"},
                  {"top_logprobs", "integer", "and of so many best ones, up to 20"}},
                 output_fields(),
                 sampling_fields(),
                 adapter_fields()});
}

Fields completion_fields() {
  const FieldDoc prompt{"prompt", "string|array", "a text or token ids", true};
  return joined({prompt,
                 {"max_tokens", "integer", "at most"},
                 {"stream", "boolean", "server-sent events"},
                 {"stream_options", "object", "{\"include_usage\": true}"},
                 {"logprobs", "integer", "of so many best tokens, up to 20"},
                 {"echo", "boolean", "the prompt in front of the answer"}},
                {output_fields(), sampling_fields(), adapter_fields()});
}

Fields llama_fields() {
  const FieldDoc prompt{"prompt", "string|array", "a text or token ids", true};
  return joined({prompt,
                 {"n_predict", "integer", "tokens at most; -1: until the context is full"},
                 {"stream", "boolean", "server-sent events"},
                 {"n_probs", "integer", "log-probabilities of so many best tokens"},
                 {"id_slot", "integer", "under which the answer is listed and can be saved"}},
                {output_fields(), sampling_fields(), adapter_fields()});
}

Fields generate_fields() {
  return joined({{"inputs", "string", "the prompt, in TGI's and LoRAX's dialect"},
                 {"parameters", "object", "of that one"},
                 {"text", "string", "the prompt, in SGLang's dialect"},
                 {"input_ids", "array", "token ids in its place"},
                 {"sampling_params", "object", "of that one"},
                 {"return_logprob", "boolean", "SGLang's"},
                 {"stream", "boolean", "server-sent events"}},
                {adapter_fields()});
}

Fields embedding_fields() {
  return joined({{"input", "string|array", "a text, token ids, or a list of these"}},
                {adapter_fields()});
}

const std::vector<FieldDoc> k_none;
constexpr const char *k_text = "text/plain";
constexpr const char *k_llama = "llama-server";

std::vector<RouteDoc> openai_docs() {
  return {
      {"GET", "/v1/models", "the base and the adapters that the key may use", "OpenAI"},
      {"GET", "/v1/models/*", "one of them", "OpenAI"},
      {.method = "POST",
       .path = "/v1/completions",
       .summary = "continue a text",
       .dialect = "OpenAI",
       .fields = completion_fields(),
       .streams = true},
      {.method = "POST",
       .path = "/v1/chat/completions",
       .summary = "answer messages",
       .dialect = "OpenAI",
       .fields = chat_fields(),
       .streams = true},
      {"POST", "/v1/embeddings", "vectors of texts", "OpenAI",
       joined(embedding_fields(), {{{"encoding_format", "string", "float or base64"},
                                    {"dimensions", "integer", "the model's own number only"}}})},
  };
}

std::vector<RouteDoc> llama_docs() {
  std::vector<RouteDoc> docs{
      {"GET", "/health", "whether requests are taken", k_llama},
      {"GET", "/v1/health", "the same", k_llama},
      {"GET", "/props", "model, slots, defaults", k_llama},
      {"GET",
       "/slots",
       "what is in the making",
       k_llama,
       {{"fail_on_no_slot", "string", "1: 503 when none is free"}}},
      {"POST",
       "/slots/*",
       "?action=save, restore or erase: what was computed of the slot's last answer",
       k_llama,
       {{"filename", "string", "in the folder of --slot-save-path"}}},
      {"GET", "/metrics", "numbers for Prometheus", k_llama, k_none, k_text},
      {"POST",
       "/tokenize",
       "token ids of a text",
       k_llama,
       {{"content", "string", "the text"},
        {"add_special", "boolean", "with BOS"},
        {"with_pieces", "boolean", "with the text of each"}}},
      {"POST", "/detokenize", "the text of token ids", k_llama, {{"tokens", "array", "ids"}}},
      {"GET", "/lora-adapters", "adapters and their default strengths", k_llama},
      {"POST", "/lora-adapters", "set default strengths: [{\"id\", \"scale\"}]", k_llama},
  };
  docs.push_back({.method = "POST",
                  .path = "/chat/completions",
                  .summary = "answer messages",
                  .dialect = k_llama,
                  .fields = chat_fields(),
                  .streams = true});
  docs.push_back({"POST", "/apply-template", "the prompt of messages", k_llama, message_fields()});
  for (const char *path : {"/completion", "/completions"}) {
    docs.push_back({.method = "POST",
                    .path = path,
                    .summary = "continue a text",
                    .dialect = k_llama,
                    .fields = llama_fields(),
                    .streams = true});
  }
  for (const char *path : {"/embedding", "/embeddings"}) {
    docs.push_back({"POST", path, "vectors of texts", k_llama,
                    joined(embedding_fields(),
                           {{{"content", "string|array", "the same as input"},
                             {"embd_normalize", "integer", "-1: not at all; 2: length one"}}})});
  }
  return docs;
}

std::vector<RouteDoc> adapter_docs() {
  const FieldDoc name{"lora_name", "string", "by which requests choose it", true};
  const FieldDoc path{"lora_path", "string", "below a folder of --lora-dir", true};
  return {
      {"POST",
       "/v1/load_lora_adapter",
       "load an adapter",
       "vLLM",
       {name, path, {"load_inplace", "boolean", "in place of one of that name"}},
       k_text},
      {"POST", "/v1/unload_lora_adapter", "unload an adapter", "vLLM", {name}, k_text},
      {"POST",
       "/load_lora_adapter",
       "load an adapter",
       "SGLang",
       {name, path, {"pinned", "boolean", "always so"}}},
      {"POST", "/unload_lora_adapter", "unload an adapter", "SGLang", {name}},
      {"GET", "/v1/loras", "the adapters", "Dynamo"},
      {"POST",
       "/v1/loras",
       "load an adapter",
       "Dynamo",
       {name, {"source", "object", "{\"uri\": \"file:///...\"}", true}}},
      {"DELETE", "/v1/loras/*", "unload an adapter", "Dynamo"},
  };
}

std::vector<RouteDoc> other_docs() {
  return {
      {.method = "POST",
       .path = "/generate",
       .summary = "continue a text",
       .dialect = "TGI, LoRAX, SGLang",
       .fields = generate_fields(),
       .streams = true},
      {.method = "POST",
       .path = "/generate_stream",
       .summary = "continue a text, streamed",
       .dialect = "TGI, LoRAX, SGLang",
       .fields = generate_fields(),
       .streams = true},
      {"GET", "/openapi.json", "this description", "OpenAPI"},
  };
}

}  // namespace

const std::vector<RouteDoc> &route_docs() {
  static const std::vector<RouteDoc> docs = [] {
    std::vector<RouteDoc> all;
    for (const auto &some : {openai_docs(), llama_docs(), adapter_docs(), other_docs()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return docs;
}

}  // namespace patchbay
