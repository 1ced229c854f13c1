#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// The beginning of a GGUF v3 file under construction: metadata and a list of tensors, whose data
/// follows in the same order, each padded to k_gguf_alignment. Order is kept.
class GgufHeader {
 public:
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, uint32_t value);
  void set(std::string_view key, float value);
  void set(std::string_view key, const std::vector<uint32_t> &values);

  /// `ne` in ggml order, at least one number. REQUIRES: a name that was not there, rows of whole
  /// blocks.
  void add_tensor(std::string_view name, ggml_type type, const std::vector<int64_t> &ne);

  /// What stands before the first tensor's data, padded.
  [[nodiscard]] std::string bytes() const;

 private:
  void begin_entry(std::string_view key, uint32_t type);

  std::string entries_;
  std::string tensors_;
  uint64_t n_entries_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t data_bytes_ = 0;
};

inline constexpr size_t k_gguf_alignment = 32;

/// How many zero bytes follow `n_bytes` of tensor data.
[[nodiscard]] constexpr size_t gguf_padding(size_t n_bytes) {
  return (k_gguf_alignment - n_bytes % k_gguf_alignment) % k_gguf_alignment;
}

}  // namespace patchbay
