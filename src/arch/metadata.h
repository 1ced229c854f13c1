#pragma once

#include <string>
#include <string_view>

#include "gguf/gguf_file.h"
#include "model/hparams.h"

namespace patchbay {

/// Hyper-parameter keys of one architecture, "<arch>.<key>", each with a bound: what lies beyond
/// would only overflow later arithmetic or demand absurd memory.
class ArchMetadata {
 public:
  ArchMetadata(const GgufFile &file, std::string_view arch) : file_(file), arch_(arch) {}

  [[nodiscard]] const GgufFile &file() const { return file_; }
  [[nodiscard]] std::string key(std::string_view name) const {
    return arch_ + "." + std::string(name);
  }

  /// 1..max, else LoadError. Without a fallback the key is required.
  [[nodiscard]] uint32_t count(std::string_view name, uint32_t max) const;
  [[nodiscard]] uint32_t count_or(std::string_view name, uint32_t max, uint32_t fallback) const;
  /// Also takes an array whose items are all equal (newer converters write one number per layer).
  [[nodiscard]] uint32_t uniform_count(std::string_view name, uint32_t max) const;
  [[nodiscard]] uint32_t uniform_count_or(std::string_view name, uint32_t max,
                                          uint32_t fallback) const;
  /// Finite and above 0, else LoadError.
  [[nodiscard]] float positive(std::string_view name) const;
  [[nodiscard]] float positive_or(std::string_view name, float fallback) const;
  [[nodiscard]] float finite_or(std::string_view name, float fallback) const;
  [[nodiscard]] std::string text_or(std::string_view name, std::string fallback) const;

  [[noreturn]] void refuse(std::string_view name, std::string wanted, std::string found) const;

 private:
  const GgufFile &file_;
  std::string arch_;
};

/// The keys that every decoder family has: sizes, heads, norm epsilon, rope with its scaling (none,
/// linear, yarn). Throws LoadError naming the key; relations between keys are checked as well.
[[nodiscard]] HParams read_common_hparams(const ArchMetadata &metadata);

}  // namespace patchbay
