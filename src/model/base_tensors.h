#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "gguf/gguf_file.h"
#include "model/hadamard.h"

namespace patchbay {

/// The numbers of a base model as its file states them, for what an adapter means by way of them.
/// Of Hadamard-folded weights: as those of the plain base. Immutable; any thread.
class BaseTensors {
 public:
  explicit BaseTensors(std::shared_ptr<const GgufFile> file,
                       std::optional<HadamardFolding> folding = {})
      : file_(std::move(file)), folding_(std::move(folding)) {}

  /// nullptr when the base has none of that name. "output.weight" of a tied head is the table.
  [[nodiscard]] const GgufTensor *find(std::string_view name) const;

  /// Rows [first, first + out.size() / ne[0]) as F32, counted through all matrices of the tensor.
  /// REQUIRES: they are there, and out.size() is a multiple of ne[0].
  void read_rows(const GgufTensor &tensor, int64_t first, std::span<float> out) const;

 private:
  std::shared_ptr<const GgufFile> file_;
  std::optional<HadamardFolding> folding_;
};

}  // namespace patchbay
