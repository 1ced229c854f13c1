#pragma once

#include <ggml.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// The little-endian bytes of a number.
template <class T>
[[nodiscard]] std::string raw_bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Length and characters, as GGUF writes strings.
[[nodiscard]] inline std::string raw_string(std::string_view text) {
  return raw_bytes<uint64_t>(text.size()).append(text);
}

/// Makes GGUF images for tests: sound ones from typed values, unsound ones from raw parts. Checks
/// nothing itself.
class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3) : version_(version) {}

  /// Lays the data out for this alignment and writes the key for it.
  GgufBuilder &alignment(uint32_t value) {
    alignment_ = value;
    return set("general.alignment", value);
  }

  template <class T>
  GgufBuilder &set(std::string_view key, T value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return set_raw(key, GgufType::string, raw_string(value));
    } else {
      return set_raw(key, type_of<T>(), raw_bytes(value));
    }
  }

  GgufBuilder &set_array(std::string_view key, const std::vector<std::string> &values) {
    std::string items;
    for (const auto &value : values) items += raw_string(value);
    return set_raw_array(key, GgufType::string, values.size(), items);
  }

  template <class T>
  GgufBuilder &set_array(std::string_view key, const std::vector<T> &values) {
    std::string items;
    for (const T value : values) items += raw_bytes(value);
    return set_raw_array(key, type_of<T>(), values.size(), items);
  }

  GgufBuilder &set_raw_array(std::string_view key, GgufType item_type, uint64_t n_items,
                             std::string_view items) {
    return set_raw(
        key, GgufType::array,
        raw_bytes(static_cast<uint32_t>(item_type)) + raw_bytes(n_items) + std::string(items));
  }

  /// `payload` comes after the type as it is.
  GgufBuilder &set_raw(std::string_view key, GgufType type, std::string_view payload) {
    entries_ += raw_string(key) + raw_bytes(static_cast<uint32_t>(type)) + std::string(payload);
    n_entries_++;
    return *this;
  }

  /// `data` are the bytes of the whole tensor in its type; `ne` in ggml order.
  GgufBuilder &add_tensor(std::string_view name, ggml_type type, const std::vector<int64_t> &ne,
                          std::string_view data) {
    return add_raw_tensor(name, static_cast<uint32_t>(type), ne, data, next_offset());
  }

  GgufBuilder &add_f32(std::string_view name, const std::vector<int64_t> &ne,
                       const std::vector<float> &values) {
    std::string data;
    for (const float value : values) data += raw_bytes(value);
    return add_tensor(name, GGML_TYPE_F32, ne, data);
  }

  /// Writes `offset` whatever it is, while `data` is laid down where the next tensor belongs.
  GgufBuilder &add_raw_tensor(std::string_view name, uint32_t type, const std::vector<int64_t> &ne,
                              std::string_view data, uint64_t offset) {
    tensors_ += raw_string(name) + raw_bytes(static_cast<uint32_t>(ne.size()));
    for (const int64_t n : ne) tensors_ += raw_bytes(n);
    tensors_ += raw_bytes(type) + raw_bytes(offset);
    data_.resize(next_offset());
    data_ += data;
    n_tensors_++;
    return *this;
  }

  /// Where the data of the next tensor will begin.
  [[nodiscard]] uint64_t next_offset() const { return align(data_.size()); }

  /// The image; ends with the last tensor's last byte, without padding after it.
  [[nodiscard]] std::string bytes() const {
    std::string image = "GGUF" + raw_bytes(version_) + raw_bytes(n_tensors_) +
                        raw_bytes(n_entries_) + entries_ + tensors_;
    image.resize(align(image.size()));
    return image + data_;
  }

  void save(const std::filesystem::path &path) const {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.exceptions(std::ios::failbit | std::ios::badbit);
    const std::string image = bytes();
    out.write(image.data(), static_cast<std::streamsize>(image.size()));
  }

 private:
  [[nodiscard]] uint64_t align(uint64_t n) const {
    return (n + alignment_ - 1) / alignment_ * alignment_;
  }

  template <class T>
  static constexpr GgufType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
    if constexpr (std::is_same_v<T, uint8_t>) return GgufType::u8;
    if constexpr (std::is_same_v<T, int8_t>) return GgufType::i8;
    if constexpr (std::is_same_v<T, uint16_t>) return GgufType::u16;
    if constexpr (std::is_same_v<T, int16_t>) return GgufType::i16;
    if constexpr (std::is_same_v<T, uint32_t>) return GgufType::u32;
    if constexpr (std::is_same_v<T, int32_t>) return GgufType::i32;
    if constexpr (std::is_same_v<T, uint64_t>) return GgufType::u64;
    if constexpr (std::is_same_v<T, int64_t>) return GgufType::i64;
    if constexpr (std::is_same_v<T, float>) return GgufType::f32;
    if constexpr (std::is_same_v<T, double>) return GgufType::f64;
  }

  uint32_t version_;
  uint64_t alignment_ = 32;
  uint64_t n_entries_ = 0;
  uint64_t n_tensors_ = 0;
  std::string entries_;
  std::string tensors_;
  std::string data_;
};

}  // namespace patchbay
