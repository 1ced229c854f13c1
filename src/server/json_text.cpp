#include "server/json_text.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace patchbay {
namespace {

// Copying or printing a value recurses once per level.
constexpr size_t k_most_depth = 100;

/// Makes a value of a text in time that grows with the text alone: nlohmann's own way looks at all
/// earlier members for every new one, and at all of a list for every object in it.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t & /*text*/) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t & /*value*/) override { return false; }  // JSON text has none
  bool start_object(size_t /*n*/) override { return begin(Json::object()); }
  bool start_array(size_t /*n*/) override { return begin(Json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t &name) override {
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t /*position*/, const std::string & /*token*/,
                   const nlohmann::detail::exception &error) override {
    error_ = error.what();
    return false;
  }

  [[nodiscard]] bool is_too_deep() const { return is_too_deep_; }
  [[nodiscard]] const std::string &error() const { return error_; }
  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  struct Level {
    Json *value = nullptr;
    std::unordered_map<std::string, size_t> members{};  // of an object, by name
  };

  /// The place of the next value.
  template <class Value>
  Json &put(Value &&value) {
    if (levels_.empty()) return root_ = std::forward<Value>(value);
    Level &level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::forward<Value>(value));
      return level.value->back();
    }
    auto &members =
        static_cast<Json::object_t::Container &>(level.value->get_ref<Json::object_t &>());
    const auto [found, is_new] = level.members.emplace(key_, members.size());
    if (!is_new) return members[found->second].second = std::forward<Value>(value);
    return members.emplace_back(std::move(key_), std::forward<Value>(value)).second;
  }

  template <class Value>
  bool add(Value &&value) {
    put(Json(std::forward<Value>(value)));
    return true;
  }

  bool begin(Json empty) {
    if (levels_.size() >= k_most_depth) {
      is_too_deep_ = true;
      return false;
    }
    Json &place = put(std::move(empty));
    levels_.push_back({.value = &place});
    return true;
  }

  bool end() {
    levels_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  std::string error_;
  bool is_too_deep_ = false;
};

}  // namespace

std::string to_text(const Json &value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse json_response(const Json &value) { return {.body = to_text(value)}; }

Expected<Json> parse_body(std::string_view body) {
  const auto refuse = [](std::string words) {
    return fail(ErrorCode::invalid_argument, std::move(words));
  };
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return refuse("the body is empty: want a JSON object");
  // nlohmann's reader takes it for the end.
  if (body.find('\0') != std::string_view::npos) return refuse("the body holds a zero byte");
  Builder builder;
  const bool is_json = Json::sax_parse(body, &builder);
  if (builder.is_too_deep())
    return refuse(fmt::format("the body nests deeper than {} levels", k_most_depth));
  if (!is_json) return refuse(fmt::format("the body is no JSON: {}", builder.error()));
  Json value = builder.take();
  if (!value.is_structured())
    return refuse(fmt::format("the body is a JSON {}: want an object", value.type_name()));
  return value;
}

}  // namespace patchbay
