#include "server/llama_server.h"

#include <optional>

#include "base/utf8.h"
#include "engine/loaded_model.h"
#include "server/json_fields.h"
#include "server/llama_completion.h"
#include "server/llama_slots.h"
#include "server/sampling_fields.h"

namespace patchbay {
namespace {

HttpResponse refuse(const ApiError &error) {
  return error_response(error, ErrorShape::llama_server);
}

HttpResponse refuse(const Error &error) {
  ApiError api;
  api.error = error;
  return refuse(api);
}

HttpResponse health(const Service &service) {
  if (!service.is_draining) return json_response({{"status", "ok"}});
  return refuse(Error{ErrorCode::unavailable, "the server is shutting down"});
}

/// The template of chats with the base, and how their special tokens are spelled.
void add_chat(const Service &service, Json &props) {
  const auto &base = service.chat.base;
  const auto *plain = base == nullptr ? nullptr : base->choose(/*has_tools=*/false);
  const auto *with_tools = base == nullptr ? nullptr : base->choose(/*has_tools=*/true);
  props["chat_template"] = plain == nullptr ? std::string() : plain->text;
  if (with_tools != plain) props["chat_template_tool_use"] = with_tools->text;
  const auto &tokenizer = service.model->loaded()->tokenizer;
  const auto spelled = [&](const char *name, std::optional<int32_t> SpecialTokens::*token) {
    const auto id = tokenizer == nullptr ? std::nullopt : tokenizer->special().*token;
    props[name] = id ? std::string(tokenizer->piece(*id)) : std::string();
  };
  spelled("bos_token", &SpecialTokens::bos);
  spelled("eos_token", &SpecialTokens::eos);
}

HttpResponse props(const Service &service) {
  Request defaults;
  const Json none = Json::object();
  JsonFields nothing(none);
  read_sampling(nothing, defaults, service.defaults);
  defaults.n_predict = service.defaults.n_predict.value_or(-1);
  Json settings = slot_json(0, service.engine.n_ctx(), generation_settings(defaults));
  Json json{{"default_generation_settings", std::move(settings)},
            {"total_slots", service.n_seqs_max},
            {"model_alias", service.model_id},
            {"model_path", service.model_path},
            {"modalities", {{"vision", false}, {"audio", false}}},
            {"build_info", "patchbay"},
            {"is_sleeping", false}};
  add_chat(service, json);
  return json_response(json);
}

/// The token's text; its bytes where they are only a part of a character.
Json piece_of(const Tokenizer &tokenizer, int32_t token) {
  const std::string_view piece = tokenizer.piece(token);
  if (is_valid_utf8(piece)) return std::string(piece);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

HttpResponse tokenize(const Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  JsonFields fields(*body);
  const std::string content = fields.text("content").value_or("");
  const bool add_special = fields.flag("add_special").value_or(false);
  const bool parse_special = fields.flag("parse_special").value_or(true);
  const bool with_pieces = fields.flag("with_pieces").value_or(false);
  const auto &tokenizer = service.model->loaded()->tokenizer;
  if (tokenizer == nullptr)
    fields.refuse("content", "nothing, as the model has no tokenizer", content);
  if (fields.error() != nullptr) return refuse(*fields.error());
  const auto tokens =
      tokenizer->encode(content, {.add_special = add_special, .parse_special = parse_special});
  Json list = Json::array();
  for (const int32_t token : tokens) {
    if (with_pieces) {
      list.push_back({{"id", token}, {"piece", piece_of(*tokenizer, token)}});
    } else {
      list.push_back(token);
    }
  }
  return json_response({{"tokens", std::move(list)}});
}

HttpResponse detokenize(const Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  JsonFields fields(*body);
  const Json *list = fields.array("tokens");
  const auto tokens =
      tokens_of(fields, "tokens", list == nullptr ? Json::array() : *list, *service.model, false);
  if (fields.error() != nullptr || !tokens) return refuse(*fields.error());
  const auto n_vocab = static_cast<int32_t>(service.model->n_vocab());
  for (const int32_t token : *tokens) {
    if (token >= n_vocab)
      fields.refuse("tokens", "ids below " + std::to_string(n_vocab), Json(token));
  }
  if (fields.error() != nullptr) return refuse(*fields.error());
  return json_response({{"content", service.model->detokenize(*tokens)}});
}

}  // namespace

void add_llama_server(Router &router, Service &service) {
  const auto add = [&](const char *method, const char *path, RouteScope scope, auto answer) {
    router.add({.method = method,
                .path = path,
                .errors = ErrorShape::llama_server,
                .scope = scope,
                .handler = answer_with([&service, answer](const HttpRequest &request,
                                                          const RouteContext & /*context*/) {
                  return answer(service, request);
                })});
  };
  const auto health_of = [](const Service &s, const HttpRequest &) { return health(s); };
  add("GET", "/health", RouteScope::open, health_of);
  add("GET", "/v1/health", RouteScope::open, health_of);
  add("GET", "/props", RouteScope::key,
      [](const Service &s, const HttpRequest &) { return props(s); });
  add("POST", "/tokenize", RouteScope::key, tokenize);
  add("POST", "/detokenize", RouteScope::key, detokenize);
}

}  // namespace patchbay
