#include "server/auth.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
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
  std::string line;
  for (int i = 1; std::getline(file, line); ++i) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto refuse = [&](const std::string &problem) {
      throw LoadError(
          {.path = path.string(), .item = fmt::format("line {}", i), .problem = problem});
    };
    const auto json = parse_body(line);
    if (!json) refuse(json.error().message);
    JsonFields fields(*json);
    const std::string key = fields.text("key").value_or("");
    Principal principal{.name = fields.text("name").value_or("")};
    principal.tenant = fields.text("tenant").value_or(principal.name);
    principal.is_admin = fields.flag("admin").value_or(false);
    if (fields.any("adapters") != nullptr) principal.adapters = fields.texts("adapters");
    if (fields.error() != nullptr) refuse(fields.error()->error.message);
    if (key.empty()) refuse("has no key");
    keys_.push_back({digest_of_key(key), std::move(principal)});
  }
  if (file.bad()) throw LoadError({.path = path.string(), .problem = "cannot be read to its end"});
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
