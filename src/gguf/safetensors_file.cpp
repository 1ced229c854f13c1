#include "gguf/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "gguf/byte_reader.h"
#include "gguf/file_kind.h"
#include "gguf/safetensors_header.h"

namespace patchbay {
namespace {

struct Dtype {
  std::string_view name;
  uint64_t size_bytes;
};

constexpr std::array<Dtype, 15> k_dtypes{{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
}};

/// The header's text and the data after it.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Sections split_sections(const MappedFile &file) {
  constexpr size_t k_length_bytes = sizeof(uint64_t);
  const auto bytes = file.bytes();
  if (bytes.empty()) throw LoadError({.path = file.path(), .problem = "is empty"});
  if (bytes.size() <= k_length_bytes) {
    throw LoadError({.path = file.path(),
                     .problem = "is truncated",
                     .wanted = "a header after the first 8 bytes",
                     .found = fmt::format("{} bytes in all", bytes.size())});
  }
  const FileKind kind = guess_file_kind(bytes);
  if (kind != FileKind::safetensors) {
    throw LoadError(
        {.path = file.path(),
         .problem = fmt::format("is not a safetensors file: it looks like {}", describe(kind))});
  }
  const auto n_header = load_little_endian<uint64_t>(bytes);
  const auto rest = bytes.subspan(k_length_bytes);
  if (n_header > rest.size()) {
    throw LoadError({.path = file.path(),
                     .item = "header",
                     .problem = "is truncated",
                     .wanted = fmt::format("{} bytes", n_header),
                     .found = std::to_string(rest.size())});
  }
  return {.header = as_text(rest.first(static_cast<size_t>(n_header))),
          .data = rest.subspan(static_cast<size_t>(n_header))};
}

/// Bytes that shape and dtype ask for. Throws for an unknown dtype and for a product past 64 bits.
uint64_t wanted_bytes(const std::string &path, const SafetensorsEntry &entry) {
  const auto dtype = std::ranges::find(k_dtypes, std::string_view(entry.dtype), &Dtype::name);
  if (dtype == k_dtypes.end()) {
    throw LoadError({.path = path,
                     .item = printable(entry.name),
                     .problem = "has a dtype that is not supported",
                     .found = printable(entry.dtype)});
  }
  int64_t n_bytes = static_cast<int64_t>(dtype->size_bytes);
  for (const int64_t n : entry.shape) {
    if (!__builtin_mul_overflow(n_bytes, n, &n_bytes)) continue;
    throw LoadError({.path = path,
                     .item = printable(entry.name),
                     .problem = "has a shape larger than any file"});
  }
  return static_cast<uint64_t>(n_bytes);
}

void check_size(const std::string &path, const SafetensorsEntry &entry) {
  const uint64_t wanted = wanted_bytes(path, entry);
  if (entry.begin <= entry.end && entry.end - entry.begin == wanted) return;
  throw LoadError({.path = path,
                   .item = printable(entry.name),
                   .problem = "has data_offsets that do not fit its shape and dtype",
                   .wanted = fmt::format("{} bytes", wanted),
                   .found = fmt::format("{} to {}", entry.begin, entry.end)});
}

/// The format wants the tensors to cover the data from its first to its last byte, each byte once.
/// REQUIRES: begin <= end in every entry.
void check_coverage(const std::string &path, const std::vector<SafetensorsEntry> &entries,
                    uint64_t n_data) {
  std::vector<const SafetensorsEntry *> in_order;
  in_order.reserve(entries.size());
  for (const auto &entry : entries) in_order.push_back(&entry);
  std::ranges::sort(in_order, {},
                    [](const auto *entry) { return std::pair(entry->begin, entry->end); });
  uint64_t covered = 0;
  for (const auto *entry : in_order) {
    if (entry->begin != covered) {
      throw LoadError({.path = path,
                       .item = printable(entry->name),
                       .problem = entry->begin < covered ? "has data that overlaps another tensor's"
                                                         : "leaves a hole before its data",
                       .wanted = fmt::format("data from byte {} on", covered),
                       .found = std::to_string(entry->begin)});
    }
    covered = entry->end;
  }
  if (covered == n_data) return;
  throw LoadError(
      {.path = path,
       .problem = covered > n_data ? "is truncated" : "has data of no tensor at its end",
       .wanted = fmt::format("{} bytes of data", covered),
       .found = std::to_string(n_data)});
}

void check_names(const std::string &path, const std::vector<SafeTensor> &sorted) {
  const auto twice = std::ranges::adjacent_find(sorted, {}, &SafeTensor::name);
  if (twice == sorted.end()) return;
  throw LoadError({.path = path, .item = printable(twice->name), .problem = "is there twice"});
}

}  // namespace

int64_t SafeTensor::n_elements() const {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

std::string format_shape(const SafeTensor &tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path &path) {
  SafetensorsFile made(MappedFile::open(path, FileBytes::copied));
  const Sections sections = split_sections(made.file_);
  SafetensorsHeader header = parse_safetensors_header(made.path(), sections.header);
  for (const auto &entry : header.entries) check_size(made.path(), entry);
  check_coverage(made.path(), header.entries, sections.data.size());
  for (auto &entry : header.entries) {
    const auto data = sections.data.subspan(static_cast<size_t>(entry.begin),
                                            static_cast<size_t>(entry.end - entry.begin));
    made.tensors_.push_back({.name = std::move(entry.name),
                             .dtype = std::move(entry.dtype),
                             .shape = std::move(entry.shape),
                             .data = data});
  }
  std::ranges::sort(made.tensors_, {}, &SafeTensor::name);
  check_names(made.path(), made.tensors_);
  made.metadata_ = std::move(header.metadata);
  return made;
}

}  // namespace patchbay
