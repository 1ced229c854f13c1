#pragma once

#include <ggml.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "model/base_info.h"
#include "patchbay/adapter_options.hpp"

namespace patchbay {

/// One low-rank factor in ggml order. Its bytes belong to `owner`: the mapped file, or a buffer
/// made while loading.
struct Factor {
  ggml_type type = GGML_TYPE_F32;  ///< F32, F16 or BF16
  std::array<int64_t, 3> ne{1, 1, 1};
  std::span<const std::byte> data;  ///< contiguous, may be unaligned
  std::shared_ptr<const void> owner;

  [[nodiscard]] int64_t n_elements() const { return ne[0] * ne[1] * ne[2]; }
};

/// Converts `count` elements of a factor from element `first` on to F32.
void to_f32(const Factor &factor, int64_t first, std::span<float> out);

/// One low-rank pair on one use of a base weight: y += strength * scale * B (A x).
///
/// | kind    | A                      | B                       |
/// |---------|------------------------|-------------------------|
/// | linear  | [n_in, n_rank]         | [n_rank, n_out]         |
/// | experts | [n_in, n_rank, n_expert] | [n_rank, n_out, n_expert] |
/// | embed   | [n_rank, n_rows], read by row | [n_rank, n_out]   |
struct FactorPair {
  std::string target;  ///< AdaptableUse::name
  UseKind kind = UseKind::linear;
  int64_t n_rank = 0;
  float scale = 1;  ///< alpha / rank or what the file means by it; strength not included
  Factor a;
  Factor b;
  /// DoRA (arXiv 2402.09353): the lengths that the rows of the changed weight get. F32 [n_out],
  /// experts [n_out, n_expert], in the order of the base's rows; an expert of zeros is
  /// left alone. Without elements: a plain pair.
  Factor magnitude{.ne = {0, 1, 1}};
  /// PEFT's lora_bias: y += strength * scale * bias. F32 [n_out]. Without elements: none.
  Factor bias{.ne = {0, 1, 1}};
};

/// Numbers that stand in place of some of the base's; at strength t they act as
/// base + t * (new - base).
struct Replacement {
  /// GGUF name: "blk.0.attn_norm.weight", "blk.0.attn_q.bias" (which the base may lack, as zeros),
  /// "token_embd.weight" for the look-up, "output.weight" for the head, tied or not.
  std::string tensor;
  Factor value;               ///< F32, F16 or BF16 of the tensor's shape; rows: [n_embd, n_rows]
  std::vector<int32_t> rows;  ///< tokens whose rows these are, ascending; empty: the whole tensor
};

enum class AdapterFormat { gguf, peft };

struct AdapterChanges;

/// SHA-256 of an adapter's content, see digest_of().
using AdapterDigest = Sha256Digest;

/// A checked adapter: it fits the base it was loaded for, every number is finite, every pair is
/// read by the base's graph. Immutable; shared by all requests that wear it; any thread.
struct Adapter {
  std::string name;  ///< as it was loaded under; else the file stem or folder name
  std::string path;
  AdapterFormat format = AdapterFormat::gguf;
  std::vector<FactorPair> pairs;          ///< sorted by target
  std::vector<Replacement> replacements;  ///< sorted by tensor
  double alpha = 0;                       ///< as the file states it, for display
  std::vector<int32_t>
      invocation_tokens;  ///< aLoRA (arXiv 2504.12397): empty for an ordinary adapter
  std::string task_name;
  std::string prompt_prefix;
  std::string base_name;  ///< what the file says it was trained on; may be empty
  /// What steps add; null where that is the pairs as they are, or the base had no numbers. See
  /// changes_of().
  std::shared_ptr<const AdapterChanges> changes;
  std::vector<std::string> notes;     ///< warnings and what was left out, with counts, for listings
  bool cannot_change_output = false;  ///< every scale is 0 or every B is zero
  size_t size_bytes = 0;              ///< of all factors and replacements, and of `changes`
  AdapterDigest
      digest{};  ///< of the content, whatever its name; orders adapters where order must not matter

  [[nodiscard]] const FactorPair *find(std::string_view target) const;
};

/// Loads a GGUF adapter file or a PEFT folder (adapter_config.json beside
/// adapter_model.safetensors) for `base`. Refuses, by LoadError, whatever cannot be honoured
/// exactly; never loads half an adapter. `name` empty: the file stem or folder name. Any thread.
[[nodiscard]] std::shared_ptr<const Adapter> load_adapter(const std::filesystem::path &path,
                                                          const BaseInfo &base,
                                                          std::string name = {},
                                                          const AdapterLoadOptions &options = {});

}  // namespace patchbay
