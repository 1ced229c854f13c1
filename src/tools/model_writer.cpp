#include "tools/model_writer.h"

#include <fmt/format.h>

#include <memory>
#include <ranges>

#include "base/error.h"
#include "base/replacement_file.h"
#include "gguf/gguf_split.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

/// Where each file ends in the list of tensors.
std::vector<size_t> file_ends(std::span<const PlannedTensor> tensors, size_t max_bytes) {
  std::vector<size_t> ends;
  size_t n_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t next = tensor_bytes(tensors[i].type, tensors[i].ne);
    const bool is_first = i == (ends.empty() ? 0 : ends.back());
    if (max_bytes > 0 && !is_first && n_bytes + next > max_bytes) {
      ends.push_back(i);
      n_bytes = 0;
    }
    n_bytes += next;
  }
  ends.push_back(tensors.size());
  return ends;
}

void set_split(GgufHead &head, size_t no, size_t count, size_t n_tensors) {
  head.set_u16("split.no", static_cast<uint16_t>(no));
  head.set_u16("split.count", static_cast<uint16_t>(count));
  head.set_i32("split.tensors.count", static_cast<int32_t>(n_tensors));
}

fs::path shard_path(const fs::path &path, size_t no, size_t count) {
  const fs::path stem = path.extension() == ".gguf" ? path.stem() : path.filename();
  return path.parent_path() / format_split_name({.prefix = stem.string(),
                                                 .no = static_cast<uint32_t>(no + 1),
                                                 .count = static_cast<uint32_t>(count)});
}

std::unique_ptr<ReplacementFile> write_file(const PlannedFile &planned,
                                            const TensorBytes &bytes_of) {
  auto file = std::make_unique<ReplacementFile>(planned.path, FileReaders::as_umask);
  file->write(planned.head.bytes());
  for (size_t i = planned.first; i < planned.end; ++i) {
    const auto bytes = bytes_of(i);
    file->write(bytes);
    file->write(planned.head.padding_after(bytes.size()));
  }
  return file;
}

}  // namespace

std::vector<PlannedFile> plan_files(const fs::path &path, const GgufHead &metadata,
                                    std::span<const PlannedTensor> tensors, size_t max_bytes) {
  const auto ends = file_ends(tensors, max_bytes);
  const bool is_split = max_bytes > 0;
  constexpr size_t k_most = UINT16_MAX;  // split.count
  if (ends.size() > k_most) {
    throw LoadError({.path = path.string(),
                     .problem = fmt::format("would be split into {} files", ends.size()),
                     .hint = "a larger --split-max-size makes fewer"});
  }
  std::vector<PlannedFile> files;
  for (size_t no = 0; no < ends.size(); ++no) {
    PlannedFile file{.path = is_split ? shard_path(path, no, ends.size()) : path,
                     .first = no == 0 ? 0 : ends[no - 1],
                     .end = ends[no],
                     .head = no == 0 ? metadata : GgufHead()};
    if (is_split) set_split(file.head, no, ends.size(), tensors.size());
    for (const auto &tensor : tensors.subspan(file.first, file.end - file.first))
      file.head.add_tensor(tensor.name, tensor.type, tensor.n_dims, tensor.ne);
    files.push_back(std::move(file));
  }
  return files;
}

void write_files(std::span<const PlannedFile> files, const TensorBytes &bytes_of) {
  std::vector<std::unique_ptr<ReplacementFile>> written;
  for (const auto &file : files) written.push_back(write_file(file, bytes_of));
  for (const auto &file : written) file->sync();
  // A reader begins with the first file: without it nobody takes a mixture of old and new ones for
  // a model, should this be stopped here.
  std::error_code ignored;  // the file then cannot be replaced either, which is told
  if (files.size() > 1) fs::remove(files.front().path, ignored);
  for (const auto &file : std::views::reverse(written)) file->commit();
}

}  // namespace patchbay
