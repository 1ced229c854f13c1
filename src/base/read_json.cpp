#include "base/read_json.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits &limits) : limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t & /*text*/) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t & /*value*/) override { return fail(JsonFault::syntax, "binary data"); }
  bool start_object(size_t /*n*/) override { return begin(Json::object()); }
  bool start_array(size_t /*n*/) override { return begin(Json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t &name) override {
    if (++n_keys_ > limits_.n_keys) return fail(JsonFault::too_many_keys);
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t /*position*/, const std::string & /*token*/,
                   const nlohmann::detail::exception &error) override {
    return fail(JsonFault::syntax, error.what());
  }

  [[nodiscard]] JsonError take_error() { return std::move(error_); }
  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  struct Level {
    Json *value = nullptr;  // stays where it is: nothing is added to its parent meanwhile
    std::unordered_map<std::string, size_t> members{};  // of an object, by name
  };

  /// The place of the next value.
  Json &put(Json value) {
    if (levels_.empty()) return root_ = std::move(value);
    Level &level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return level.value->back();
    }
    auto &members =
        static_cast<Json::object_t::Container &>(level.value->get_ref<Json::object_t &>());
    const auto [found, is_new] = level.members.emplace(key_, members.size());
    if (!is_new) return members[found->second].second = std::move(value);
    return members.emplace_back(std::move(key_), std::move(value)).second;
  }

  template <class Value>
  bool add(Value &&value) {
    put(Json(std::forward<Value>(value)));
    return true;
  }

  bool begin(Json empty) {
    if (levels_.size() >= limits_.n_levels) return fail(JsonFault::too_deep);
    Json &place = put(std::move(empty));
    levels_.push_back({.value = &place});
    return true;
  }

  bool end() {
    levels_.pop_back();
    return true;
  }

  bool fail(JsonFault fault, std::string message = {}) {
    error_ = {fault, std::move(message)};
    return false;
  }

  const JsonLimits &limits_;
  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  size_t n_keys_ = 0;
  JsonError error_;
};

}  // namespace

tl::expected<Json, JsonError> read_json(std::string_view text, const JsonLimits &limits) {
  // nlohmann's reader takes it for the end.
  if (text.find('\0') != std::string_view::npos)
    return tl::unexpected(JsonError{JsonFault::syntax, "it holds a zero byte"});
  Builder builder(limits);
  if (!Json::sax_parse(text, &builder)) return tl::unexpected(builder.take_error());
  return builder.take();
}

}  // namespace patchbay
