#include "server/auth.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>

#include "server/http_types.h"
#include "server/json_fields.h"

namespace patchbay {
namespace {

Sha256Digest digest_of_key(std::string_view key) {
  Sha256 hash;
  hash.text(key);
  return hash.finish();
}

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view k_scheme = "Bearer ";
  if (authorization.size() < k_scheme.size() ||
      !equals_ignoring_case(authorization.substr(0, k_scheme.size()), k_scheme))
    return {};
  authorization.remove_prefix(k_scheme.size());
  return authorization.substr(std::min(authorization.find_first_not_of(' '), authorization.size()));
}

struct KeyLine {
  std::string text{};  ///< empty: the line has none
  Principal principal{};
};

/// What follows names no value: it might be a key.
Expected<KeyLine> read_json_key(std::string_view line) {
  const auto json = parse_body(line);
  if (!json) return fail(ErrorCode::invalid_argument, "is no JSON object");
  JsonFields fields(*json);
  KeyLine key{.text = fields.text("key").value_or("")};
  key.principal.name = fields.text("name").value_or("");
  key.principal.is_admin = fields.flag("admin").value_or(false);
  key.principal.tenant = fields.text("tenant").value_or(key.principal.name);
  if (json->contains("adapters")) {
    if (!json->at("adapters").is_array())
      return fail(ErrorCode::invalid_argument, "adapters has the wrong type");
    key.principal.adapters = fields.texts("adapters");
  }
  if (fields.error() != nullptr) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has the wrong type", fields.error()->param));
  }
  constexpr std::array<std::string_view, 5> k_known{"key", "name", "admin", "adapters", "tenant"};
  for (const auto &[name, value] : json->items()) {
    // A misspelt one would give the key more than was meant.
    if (std::ranges::find(k_known, name) == k_known.end()) {
      return fail(ErrorCode::invalid_argument,
                  "has a field that is none of key, name, admin, adapters and tenant");
    }
  }
  if (key.text.empty()) return fail(ErrorCode::invalid_argument, "has no key");
  return key;
}

Expected<KeyLine> read_key_line(std::string_view line) {
  constexpr std::string_view k_blanks = " \t\r";
  const size_t begin = line.find_first_not_of(k_blanks);
  if (begin == std::string_view::npos || line[begin] == '#') return KeyLine{};
  line = line.substr(begin, line.find_last_not_of(k_blanks) + 1 - begin);
  if (line.front() == '{') return read_json_key(line);
  // A line of JSON that lost its beginning must not become a key that may do everything.
  if (line.find_first_of(" \t\"{}[],") != std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "is neither a JSON object nor a key alone");
  return KeyLine{.text = std::string(line), .principal = {.name = "admin"}};
}

}  // namespace

bool Principal::may_wear(std::string_view adapter) const {
  return std::ranges::any_of(adapters,
                             [&](const std::string &one) { return one == "*" || one == adapter; });
}

void KeyRing::add_admin(std::string_view key) {
  if (key.empty()) throw std::invalid_argument("--api-key is empty");
  keys_.push_back({digest_of_key(key), {.name = "admin"}});
}

void KeyRing::add_file(const std::filesystem::path &path) {
  std::ifstream file(path);
  if (!file) {
    throw LoadError({.path = path.string(),
                     .problem = "cannot be read as a file of API keys",
                     .code = ErrorCode::not_found});
  }
  const size_t n_before = keys_.size();
  std::string line;
  for (int i = 1; std::getline(file, line); ++i) {
    const auto key = read_key_line(line);
    if (!key) {
      throw LoadError({.path = path.string(),
                       .item = fmt::format("line {}", i),
                       .problem = key.error().message});
    }
    if (key->text.empty()) continue;
    const auto is_same = [digest = digest_of_key(key->text)](const Key &one) {
      return one.digest == digest;
    };
    if (std::ranges::any_of(keys_, is_same)) {
      throw LoadError({.path = path.string(),
                       .item = fmt::format("line {}", i),
                       .problem = "has the key of an earlier one"});
    }
    keys_.push_back({digest_of_key(key->text), key->principal});
  }
  if (file.bad()) throw LoadError({.path = path.string(), .problem = "cannot be read to its end"});
  // Without keys everybody would be an administrator.
  if (keys_.size() == n_before) throw LoadError({.path = path.string(), .problem = "holds no key"});
}

Expected<Principal> KeyRing::authenticate(std::optional<std::string_view> authorization,
                                          std::optional<std::string_view> x_api_key) const {
  if (keys_.empty()) return Principal{};
  const std::string_view key =
      authorization ? bearer(*authorization) : x_api_key.value_or(std::string_view());
  const Sha256Digest digest = digest_of_key(key);
  const Key *found = nullptr;
  for (const Key &one : keys_) {
    if (CRYPTO_memcmp(one.digest.data(), digest.data(), digest.size()) == 0) found = &one;
  }
  if (found != nullptr && !key.empty()) return found->principal;
  return fail(ErrorCode::unauthenticated, key.empty()
                                              ? "an API key is needed: Authorization: Bearer KEY"
                                              : "the API key is not known");
}

}  // namespace patchbay
