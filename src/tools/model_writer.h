#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gguf/gguf_head.h"

namespace patchbay {

/// A tensor to be written.
struct PlannedTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  int n_dims = 1;
  std::array<int64_t, 4> ne{1, 1, 1, 1};
};

/// One file of a model: its name and the tensors [first, end) of the whole list.
struct PlannedFile {
  std::filesystem::path path;
  size_t first = 0;
  size_t end = 0;
  GgufHead head;  ///< with its tensors
};

/// How a model is laid out in files: one, or with `max_bytes` above 0 as many as it takes for none
/// to hold more bytes of tensors, at least one tensor each, named as llama.cpp names shards.
/// Throws LoadError: too many.
[[nodiscard]] std::vector<PlannedFile> plan_files(const std::filesystem::path &path,
                                                  const GgufHead &metadata,
                                                  std::span<const PlannedTensor> tensors,
                                                  size_t max_bytes);

/// Gives the bytes of the tensor of this number, which are used before the next call.
using TensorBytes = std::function<std::span<const std::byte>(size_t i_tensor)>;

/// Writes all files, one tensor after the other. None of them is there until all of them are whole;
/// when anything fails, whatever was there before is. Of several files the first one comes last:
/// who is killed while they get their names leaves no set that could be read. Throws LoadError (a
/// full disk), and what `bytes_of` throws.
void write_files(std::span<const PlannedFile> files, const TensorBytes &bytes_of);

}  // namespace patchbay
