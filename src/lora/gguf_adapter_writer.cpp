#include "lora/gguf_adapter_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/replacement_file.h"
#include "gguf/gguf_head.h"
#include "lora/factor_ops.h"
#include "lora/gguf_halves.h"
#include "lora/scale_folding.h"

namespace patchbay {
namespace {

/// Collects the tensors of one file.
class Encoder {
 public:
  Encoder(const Adapter &adapter, std::optional<ggml_type> type, EncodedAdapter &encoded)
      : path_(adapter.path), type_(type), encoded_(encoded) {}

  void pair(const FactorPair &pair, double fold) {
    if (fold != 1) encoded_.n_folded++;
    add(pair.target + ".lora_a", pair.a, 1, type_);
    add(pair.target + ".lora_b", pair.b, fold, type_);
    if (pair.magnitude.n_elements() > 0) {
      add(pair.target + ".patchbay_dora_m", pair.magnitude, 1, GGML_TYPE_F32);
    }
    if (pair.bias.n_elements() > 0) {
      add(pair.target + ".patchbay_lora_bias", pair.bias, fold, GGML_TYPE_F32);
    }
  }

  void replacement(const Replacement &replacement) {
    const std::string_view tensor = replacement.tensor;
    constexpr std::string_view k_bias = ".bias";
    if (!replacement.rows.empty()) {
      rows(replacement);
    } else if (tensor.ends_with(k_bias)) {
      const auto stem = tensor.substr(0, tensor.size() - k_bias.size());
      add(fmt::format("{}.weight.patchbay_bias", stem), replacement.value, 1, GGML_TYPE_F32);
    } else if (tensor.ends_with("_norm.weight")) {
      add(replacement.tensor + ".patchbay_norm", replacement.value, 1, GGML_TYPE_F32);
    } else {
      add(replacement.tensor + ".patchbay_weight", replacement.value, 1, type_);
    }
  }

  /// What happened to the numbers, in few words.
  void finish() {
    for (const auto &[reason, n_tensors] : not_q8_0_) {
      encoded_.notes.push_back(fmt::format("q8_0: {} of {} tensors are f16, since their {}",
                                           n_tensors, n_typed_, reason));
    }
    if (n_vanished_ == 0) return;
    encoded_.notes.push_back(fmt::format(
        "{} of {} numbers are too small for their type and became 0", n_vanished_, n_numbers_));
  }

 private:
  void rows(const Replacement &replacement) {
    const bool quantised = type_ == GGML_TYPE_Q8_0;  // rows are looked up one by one, and few
    add(replacement.tensor + ".patchbay_rows", replacement.value, 1,
        quantised ? std::optional(GGML_TYPE_F16) : type_);
    const auto ids = std::make_shared<const std::vector<int32_t>>(replacement.rows);
    encoded_.tensors.push_back(
        {.name = replacement.tensor + ".patchbay_row_ids",
         .ne = {static_cast<int64_t>(ids->size())},
         .factor = {.type = GGML_TYPE_I32, .data = std::as_bytes(std::span(*ids)), .owner = ids}});
  }

  void add(std::string name, const Factor &factor, double multiplier,
           std::optional<ggml_type> type) {
    auto encoded = encode_factor(path_, name, factor, multiplier, type);
    n_numbers_ += static_cast<uint64_t>(factor.n_elements());
    n_vanished_ += encoded.n_vanished;
    if (type == GGML_TYPE_Q8_0) n_typed_++;
    if (!encoded.why_not_q8_0.empty()) not_q8_0_[encoded.why_not_q8_0]++;
    std::vector<int64_t> ne(factor.ne.begin(), factor.ne.end());
    while (ne.size() > 1 && ne.back() == 1) ne.pop_back();
    // Factors are matrices to readers, of one column as well.
    const bool is_vector = type == GGML_TYPE_F32 && name.find(".patchbay_") != std::string::npos;
    if (ne.size() == 1 && !is_vector) ne.push_back(1);
    encoded_.tensors.push_back(
        {.name = std::move(name), .ne = std::move(ne), .factor = std::move(encoded)});
  }

  const std::string &path_;
  std::optional<ggml_type> type_;
  EncodedAdapter &encoded_;
  std::map<std::string, size_t> not_q8_0_;  // tensors by reason
  size_t n_typed_ = 0;                      // tensors for which Q8_0 was asked
  uint64_t n_numbers_ = 0;
  uint64_t n_vanished_ = 0;
};

void set_unless_empty(GgufHead &head, const char *key, const std::string &value) {
  if (!value.empty()) head.set_string(key, value);
}

void set_provenance(const Adapter &adapter, const AdapterProvenance &provenance, GgufHead &head) {
  if (!adapter.base_name.empty()) {
    head.set_u32("general.base_model.count", 1);
    head.set_string(k_gguf_base_name, adapter.base_name);
  }
  set_unless_empty(head, "patchbay.converter", provenance.converter);
  set_unless_empty(head, "patchbay.source.sha256", provenance.source_sha256);
  set_unless_empty(head, "patchbay.source.peft_version", provenance.peft_version);
  set_unless_empty(head, "patchbay.extracted.from", provenance.extracted_from);
}

void add_tensor(GgufHead &head, const AdapterTensor &tensor) {
  std::array<int64_t, 4> ne{1, 1, 1, 1};
  std::ranges::copy(tensor.ne, ne.begin());
  head.add_tensor(tensor.name, tensor.factor.type, static_cast<int>(tensor.ne.size()), ne);
}

GgufHead make_head(const Adapter &adapter, const EncodedAdapter &encoded, std::string_view arch,
                   const AdapterProvenance &provenance) {
  constexpr uint32_t k_quantization_version = 2;
  GgufHead head;
  head.set_string("general.architecture", arch);
  head.set_string("general.type", "adapter");
  head.set_string("adapter.type", "lora");
  set_unless_empty(head, "general.name", adapter.name);
  head.set_u32("general.quantization_version", k_quantization_version);
  head.set_f32(k_gguf_alpha, encoded.alpha);
  if (!adapter.invocation_tokens.empty()) {
    head.set_u32s(k_gguf_invocation_tokens, std::vector<uint32_t>(adapter.invocation_tokens.begin(),
                                                                  adapter.invocation_tokens.end()));
  }
  set_unless_empty(head, k_gguf_task_name, adapter.task_name);
  set_unless_empty(head, k_gguf_prompt_prefix, adapter.prompt_prefix);
  set_provenance(adapter, provenance, head);
  for (const auto &tensor : encoded.tensors) add_tensor(head, tensor);
  return head;
}

/// Writes large data in parts, so that giving up does not have to wait for all of it.
void write_in_parts(ReplacementFile &file, std::span<const std::byte> data, size_t all,
                    const WriteProgress &progress, size_t &done) {
  constexpr size_t k_part = size_t{16} << 20;
  while (!data.empty()) {
    const auto part = data.first(std::min(k_part, data.size()));
    if (progress) progress(done, all);
    file.write(part);
    done += part.size();
    data = data.subspan(part.size());
  }
}

}  // namespace

size_t EncodedAdapter::size_bytes() const {
  return std::accumulate(
      tensors.begin(), tensors.end(), size_t{0},
      [](size_t sum, const AdapterTensor &tensor) { return sum + tensor.factor.data.size(); });
}

EncodedAdapter encode_adapter(const Adapter &adapter, const AdapterWriteOptions &options) {
  const auto folding = fold_scales(adapter.pairs, adapter.alpha);
  EncodedAdapter encoded{.alpha = folding.alpha};
  Encoder encoder(adapter, options.type, encoded);
  for (size_t i = 0; i < adapter.pairs.size(); ++i) {
    encoder.pair(adapter.pairs[i], folding.factors[i]);
  }
  for (const auto &replacement : adapter.replacements) encoder.replacement(replacement);
  encoder.finish();
  return encoded;
}

void write_gguf_adapter(const std::filesystem::path &path, const Adapter &adapter,
                        const EncodedAdapter &encoded, std::string_view arch,
                        const AdapterWriteOptions &options, const WriteProgress &progress) {
  check_may_write(path, options.overwrite);
  ReplacementFile file(path, FileReaders::as_umask);
  const auto head = make_head(adapter, encoded, arch, options.provenance);
  file.write(head.bytes());
  const size_t all = encoded.size_bytes();
  size_t done = 0;
  for (const auto &tensor : encoded.tensors) {
    write_in_parts(file, tensor.factor.data, all, progress, done);
    file.write(head.padding_after(tensor.factor.data.size()));
  }
  if (progress) progress(done, all);
  file.commit();
}

}  // namespace patchbay
