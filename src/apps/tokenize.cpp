#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/input_text.h"
#include "apps/model_files.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {
namespace {

/// A piece may be part of a character; whatever is not valid text shows as U+FFFD.
std::string printable(std::string_view piece) {
  using Json = nlohmann::json;
  return Json(piece).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print_json(const Tokenizer &tokenizer, const std::vector<int32_t> &tokens, bool pieces) {
  nlohmann::ordered_json json{{"tokens", tokens}};
  if (pieces) {
    json["pieces"] = nlohmann::json::array();
    for (const int32_t token : tokens) json["pieces"].push_back(tokenizer.piece(token));
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int tokenize(const TokenizeArguments &arguments) {
  const auto file = GgufFile::open(arguments.model.empty() ? default_model() : arguments.model);
  const auto tokenizer = Tokenizer::load(file);
  if (tokenizer == nullptr) throw UsageError(fmt::format("{} has no tokenizer", file.path()));
  const std::string text = arguments.text ? *arguments.text : read_input_text("-");
  const auto tokens = tokenizer->encode(
      text, {.add_special = arguments.add_special, .parse_special = arguments.parse_special});
  if (arguments.json) {
    print_json(*tokenizer, tokens, arguments.pieces);
  } else if (arguments.pieces) {
    for (const int32_t token : tokens)
      fmt::print("{:>7}  {}\n", token, printable(tokenizer->piece(token)));
  } else {
    fmt::print("{}\n", fmt::join(tokens, " "));
  }
  return 0;
}

}  // namespace patchbay
