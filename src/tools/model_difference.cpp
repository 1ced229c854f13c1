#include "tools/model_difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/decoder.h"
#include "base/error.h"
#include "base/text.h"
#include "tools/tensor_rows.h"

namespace patchbay {
namespace {

[[noreturn]] void refuse(const LoadedModel &tuned, std::string item, std::string problem,
                         std::string wanted = {}, std::string found = {}) {
  throw LoadError({.path = tuned.info.path,
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

bool is_same(const GgufEntry &one, const GgufEntry &other) {
  return one.type == other.type && one.item_type == other.item_type &&
         std::ranges::equal(one.bytes, other.bytes);
}

/// Keys "<arch>.*" that are not alike; those of one file only count as well.
std::vector<std::string> different_keys(const GgufFile &one, const GgufFile &other,
                                        const std::string &arch) {
  std::vector<std::string> keys;
  for (const auto &entry : one.entries()) {
    if (!entry.key.starts_with(arch + ".")) continue;
    const auto *found = other.find_entry(entry.key);
    if (found == nullptr || !is_same(entry, *found)) keys.push_back(entry.key);
  }
  for (const auto &entry : other.entries()) {
    if (entry.key.starts_with(arch + ".") && !one.has(entry.key)) keys.push_back(entry.key);
  }
  return keys;
}

const GgufTensor *weight_of(const LoadedModel &model, std::string_view name) {
  const auto *tensor = model.file->find_tensor(name);
  const bool is_tied = tensor == nullptr && name == "output.weight";
  return is_tied ? model.file->find_tensor("token_embd.weight") : tensor;
}

void check_readable(const LoadedModel &model, const GgufTensor &tensor) {
  if (is_readable(tensor.type)) return;
  refuse(model, tensor.name,
         fmt::format("has type {}, whose numbers cannot be read", ggml_type_name(tensor.type)));
}

std::vector<float> vector_of(const GgufTensor *tensor, int64_t n) {
  std::vector<float> numbers(static_cast<size_t>(n));
  if (tensor != nullptr) read_rows(*tensor, {.first = 0, .n_rows = 1}, numbers);
  return numbers;
}

}  // namespace

void check_same_kind(const LoadedModel &base, const LoadedModel &tuned) {
  if (base.info.arch != tuned.info.arch)
    refuse(tuned, "general.architecture", "is another one than the base's", base.info.arch,
           tuned.info.arch);
  const auto keys = different_keys(*base.file, *tuned.file, base.info.arch);
  if (!keys.empty())
    refuse(tuned, first_five(keys), "differs from the base's: no adapter can change that");
  for (const auto *model : {&base, &tuned}) {
    if (read_hadamard(*model->file))
      refuse(*model, "", "is Hadamard-folded; differences are taken of plain models only");
  }
}

std::vector<TensorPair> weight_pairs(const LoadedModel &base, const LoadedModel &tuned) {
  std::vector<TensorPair> pairs;
  for (const auto &use : base.info.uses) {
    const TensorPair pair{use.name, use.kind, weight_of(base, use.name),
                          weight_of(tuned, use.name)};
    if (pair.tuned == nullptr || pair.base->ne != pair.tuned->ne)
      refuse(tuned, use.name, "has incorrect shape", format_shape(pair.base->ne),
             pair.tuned == nullptr ? "nothing" : format_shape(pair.tuned->ne));
    check_readable(base, *pair.base);
    check_readable(tuned, *pair.tuned);
    pairs.push_back(pair);
  }
  return pairs;
}

std::vector<TensorPair> different_vectors(const LoadedModel &base, const LoadedModel &tuned) {
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*base.family, base.hparams(), unbound);
  std::vector<TensorPair> pairs;
  for (const auto &spec : table.specs()) {
    if (spec.role != TensorRole::vector) continue;
    const TensorPair pair{.name = spec.name,
                          .base = base.file->find_tensor(spec.name),
                          .tuned = tuned.file->find_tensor(spec.name)};
    if (vector_of(pair.base, spec.ne[0]) != vector_of(pair.tuned, spec.ne[0]))
      pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace patchbay
