#pragma once

#include <ggml.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// What stands in a GGUF file before its data: metadata and the list of tensors. Makes bytes only;
/// the data follows, tensor by tensor in the order of adding, each filled up to the alignment.
class GgufHead {
 public:
  /// An entry of another file as it is.
  void set(const GgufEntry &entry);
  // Typed values. A key that is there keeps its place and gets the new value. What is no UTF-8 in a
  // text becomes U+FFFD, as the format wants UTF-8.
  void set_u16(std::string_view key, uint16_t value);
  void set_u32(std::string_view key, uint32_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_f32(std::string_view key, float value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_floats(std::string_view key, std::span<const float> values);
  void set_u32s(std::string_view key, std::span<const uint32_t> values);

  /// `ne` in ggml order. REQUIRES: rows are whole blocks of `type`; the name is new.
  void add_tensor(std::string_view name, ggml_type type, int n_dims,
                  const std::array<int64_t, 4> &ne);

  /// To what the data of every tensor is filled up; general.alignment where that is set.
  [[nodiscard]] size_t alignment() const { return alignment_; }

  /// The zeros that follow `n_bytes` of a tensor's data.
  [[nodiscard]] std::vector<std::byte> padding_after(size_t n_bytes) const;

  /// Everything up to the first tensor's data.
  [[nodiscard]] std::vector<std::byte> bytes() const;

  /// The size of the file in the end.
  [[nodiscard]] size_t file_bytes() const;

 private:
  struct Entry {
    std::string key;
    std::string value;  // type and payload, as in the file
  };

  void put(std::string_view key, std::string value);

  std::vector<Entry> entries_;
  std::string tensors_;
  uint64_t n_tensors_ = 0;
  uint64_t data_bytes_ = 0;  // of the tensors so far, filled up
  size_t alignment_ = 32;    // GGUF's default
};

/// Bytes of a tensor. REQUIRES: rows are whole blocks of `type`.
[[nodiscard]] size_t tensor_bytes(ggml_type type, const std::array<int64_t, 4> &ne);

}  // namespace patchbay
