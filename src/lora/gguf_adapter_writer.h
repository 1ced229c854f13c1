#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lora/adapter.h"
#include "lora/factor_encoding.h"

namespace patchbay {

/// Where an adapter came from, for its metadata; what is empty is left out.
struct AdapterProvenance {
  std::string source_sha256;   ///< of the file with the factors, in hexadecimal digits
  std::string peft_version;    ///< as adapter_config.json has it
  std::string converter;       ///< "patchbay 0.1.0"
  std::string extracted_from;  ///< the tuned model's name
};

struct AdapterWriteOptions {
  /// F32, F16, BF16 or Q8_0 for factors and matrices; none: as they are, and F32 where a scale had
  /// to be folded in. Lengths, biases and norms are F32 always.
  std::optional<ggml_type> type;
  AdapterProvenance provenance;
  /// Whether an existing file may be replaced.
  bool overwrite = false;
};

/// One tensor of an adapter file.
struct AdapterTensor {
  std::string name;
  std::vector<int64_t> ne;  ///< ggml order
  EncodedFactor factor;
};

/// An adapter as it goes into a GGUF file.
struct EncodedAdapter {
  float alpha = 1;
  size_t n_folded = 0;  ///< pairs whose own scale went into B
  std::vector<AdapterTensor> tensors;
  std::vector<std::string> notes;  ///< numbers that vanished, types that could not be had

  [[nodiscard]] size_t size_bytes() const;  ///< of the tensors' data
};

/// Brings the adapter into the form of a GGUF file: plain pairs, which any reader of the format
/// understands, with scales folded so that one alpha is right for all; beside them, what plain
/// pairs cannot say in tensors named patchbay_*, at which other readers stop. Throws LoadError:
/// numbers that the wanted type cannot hold.
[[nodiscard]] EncodedAdapter encode_adapter(const Adapter &adapter,
                                            const AdapterWriteOptions &options);

/// Told how many of how many bytes are written; may throw to give up.
using WriteProgress = std::function<void(size_t done, size_t all)>;

/// Writes it for bases of architecture `arch`. The file appears under its name only when it is
/// whole and on the disk; on any failure nothing is left. Throws LoadError.
void write_gguf_adapter(const std::filesystem::path &path, const Adapter &adapter,
                        const EncodedAdapter &encoded, std::string_view arch,
                        const AdapterWriteOptions &options, const WriteProgress &progress = {});

}  // namespace patchbay
