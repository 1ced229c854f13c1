#include "gguf/safetensors_header.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

using Json = nlohmann::json;

constexpr std::string_view k_metadata = "__metadata__";

/// Receives the JSON value by value. Where it stands in the header is one of few places, and every
/// value that does not belong there is refused at once, which also bounds the depth.
class HeaderSax : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderSax(const std::string &path) : path_(path) {}

  [[nodiscard]] SafetensorsHeader take() { return std::move(header_); }

  bool null() override { refuse("null"); }
  bool boolean(bool value) override { refuse(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { refuse(std::to_string(value)); }
  bool number_float(number_float_t, const string_t &text) override { refuse(text); }
  bool binary(binary_t &) override { refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<uint64_t>(INT64_MAX)) refuse(std::to_string(value));
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets) {
      if (n_offsets_ == 2) refuse("more than two offsets");
      (n_offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      refuse(std::to_string(value));
    }
    return true;
  }

  bool string(string_t &value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, value).second) refuse("a key that is there twice");
    } else if (place_ == Place::tensor && field_ == Field::dtype) {
      entry_.dtype = value;
    } else {
      refuse("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::before) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == k_metadata) {
      if (std::exchange(has_metadata_, true)) refuse("a key that is there twice");
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::tensor;
      entry_ = {.name = key_, .dtype = {}, .shape = {}};
      has_field_ = {};
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(string_t &value) override {
    if (place_ == Place::tensor) {
      start_field(value);
    } else {
      key_ = value;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::top ? Place::after : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && field_ == Field::shape) {
      place_ = Place::shape;
    } else if (place_ == Place::tensor && field_ == Field::data_offsets) {
      place_ = Place::offsets;
      n_offsets_ = 0;
    } else {
      refuse("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && n_offsets_ != 2) refuse("fewer than two offsets");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string &, const Json::exception &) override {
    throw LoadError({.path = path_,
                     .item = "header",
                     .problem = fmt::format("is not valid JSON at byte {}", position)});
  }

 private:
  enum class Place { before, top, metadata, tensor, shape, offsets, after };
  enum class Field { dtype, shape, data_offsets };

  void start_field(const std::string &name) {
    if (name == "dtype") {
      field_ = Field::dtype;
    } else if (name == "shape") {
      field_ = Field::shape;
    } else if (name == "data_offsets") {
      field_ = Field::data_offsets;
    } else {
      refuse(fmt::format("the unknown field {}", printable(name)));
    }
    bool &seen = has_field_[static_cast<size_t>(field_)];
    if (std::exchange(seen, true)) refuse(fmt::format("{} twice", name));
  }

  void finish_tensor() {
    for (const bool seen : has_field_) {
      if (!seen) refuse("an object that lacks one of them");
    }
    header_.entries.push_back(std::move(entry_));
  }

  [[nodiscard]] std::string_view wanted() const {
    switch (place_) {
      case Place::metadata:
        return "strings under different keys";
      case Place::tensor:
        return "dtype (a string), shape and data_offsets (arrays), each once";
      case Place::shape:
        return "whole numbers, 0 or more";
      case Place::offsets:
        return "two whole numbers";
      default:
        return "an object of tensors and one __metadata__";
    }
  }

  [[noreturn]] void refuse(std::string found) const {
    throw LoadError({.path = path_,
                     .item = key_.empty() ? "header" : printable(key_),
                     .problem = "has an unsound entry in the safetensors header",
                     .wanted = std::string(wanted()),
                     .found = std::move(found)});
  }

  const std::string &path_;
  SafetensorsHeader header_;
  Place place_ = Place::before;
  std::string key_;  ///< the last one outside tensor objects
  SafetensorsEntry entry_;
  Field field_ = Field::dtype;
  std::array<bool, 3> has_field_{};
  int n_offsets_ = 0;
  bool has_metadata_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string &path, std::string_view json) {
  // The parser would take a NUL byte for the end of the text.
  if (const size_t i_nul = json.find('\0'); i_nul != std::string_view::npos) {
    throw LoadError({.path = path,
                     .item = "header",
                     .problem = fmt::format("is not valid JSON at byte {}", i_nul)});
  }
  HeaderSax sax(path);
  // Every failure throws from one of the callbacks.
  (void)Json::sax_parse(json, &sax);
  return sax.take();
}

}  // namespace patchbay
