#include "gguf/gguf_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "gguf/byte_reader.h"
#include "gguf/gguf_parse.h"
#include "gguf/gguf_split.h"
#include "gguf/gguf_value.h"

namespace patchbay {
namespace {

constexpr std::string_view k_key_no = "split.no";
constexpr std::string_view k_key_count = "split.count";
constexpr std::string_view k_key_n_tensors = "split.tensors.count";

/// What a file says about its place in a split model; numbers count from 0.
struct SplitKeys {
  uint64_t no = 0;
  uint64_t count = 1;
  std::optional<uint64_t> n_tensors;  ///< of all shards together
};

std::optional<uint64_t> find_u64(const std::string &path, std::span<const GgufEntry> entries,
                                 std::string_view key, uint64_t max) {
  const auto entry = std::ranges::find(entries, key, &GgufEntry::key);
  if (entry == entries.end()) return std::nullopt;
  return value_u64(path, *entry, max);
}

SplitKeys read_split_keys(const std::string &path, std::span<const GgufEntry> entries) {
  SplitKeys keys;
  keys.no = find_u64(path, entries, k_key_no, k_max_shards).value_or(0);
  keys.count =
      std::max<uint64_t>(find_u64(path, entries, k_key_count, k_max_shards).value_or(1), 1);
  keys.n_tensors = find_u64(path, entries, k_key_n_tensors, UINT64_MAX);
  return keys;
}

/// Throws for a later shard, saying which file to open instead.
void check_is_first(const std::filesystem::path &path, const SplitKeys &keys) {
  if (keys.no == 0) return;
  const auto name = parse_split_name(path.filename().string());
  throw LoadError({.path = path.string(),
                   .problem = fmt::format("is shard {} of a split model, which is opened by its "
                                          "first shard",
                                          keys.no + 1),
                   .hint = name ? fmt::format("open {}", format_split_name({.prefix = name->prefix,
                                                                            .no = 1,
                                                                            .count = name->count}))
                                : "open the shard that ends in -00001-of-NNNNN.gguf"});
}

SplitName first_shard_name(const std::filesystem::path &path, const SplitKeys &keys) {
  const auto name = parse_split_name(path.filename().string());
  if (name && name->no == 1 && name->count == keys.count) return *name;
  throw LoadError({.path = path.string(),
                   .problem = "is a split model under another name, so its other shards cannot be "
                              "found",
                   .wanted = fmt::format("NAME-00001-of-{:05}.gguf", keys.count),
                   .found = path.filename().string()});
}

MappedFile open_shard(const std::filesystem::path &path, FileBytes where) {
  try {
    return MappedFile::open(path, where);
  } catch (const LoadError &error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw LoadError({.path = path.string(),
                     .problem = "is missing, a shard of the model beside it",
                     .code = ErrorCode::not_found});
  }
}

void check_shard_keys(const std::string &path, const SplitKeys &found, const SplitKeys &wanted) {
  if (found.no == wanted.no && found.count == wanted.count) return;
  throw LoadError({.path = path,
                   .problem = "is not the shard that its name says",
                   .wanted = fmt::format("split.no {} of split.count {}", wanted.no, wanted.count),
                   .found = fmt::format("{} of {}", found.no, found.count)});
}

/// Opens shards 2 to N beside the first and appends their tensors.
void append_shards(const std::filesystem::path &first, FileBytes where, const SplitKeys &keys,
                   std::vector<MappedFile> &shards, std::vector<GgufTensor> &tensors) {
  SplitName name = first_shard_name(first, keys);
  for (uint64_t no = 1; no < keys.count; no++) {
    name.no = static_cast<uint32_t>(no) + 1;
    MappedFile file = open_shard(first.parent_path() / format_split_name(name), where);
    GgufContents contents = parse_gguf(file);
    check_shard_keys(file.path(), read_split_keys(file.path(), contents.entries),
                     {.no = no, .count = keys.count, .n_tensors = {}});
    for (auto &tensor : contents.tensors) tensor.i_shard = shards.size();
    std::ranges::move(contents.tensors, std::back_inserter(tensors));
    shards.push_back(std::move(file));
  }
}

void check_n_tensors(const std::string &path, const SplitKeys &keys, size_t n_tensors) {
  if (keys.n_tensors == n_tensors) return;
  throw LoadError({.path = path,
                   .item = std::string(k_key_n_tensors),
                   .problem = "is not the number of tensors in all shards",
                   .wanted = std::to_string(n_tensors),
                   .found = keys.n_tensors ? std::to_string(*keys.n_tensors) : "no such key"});
}

/// Applies a typed reader to the entry of a key, if there is one.
template <class Read>
auto read_if(const GgufFile &file, std::string_view key, Read read)
    -> std::optional<decltype(read(file.path(), *file.find_entry(key)))> {
  const GgufEntry *entry = file.find_entry(key);
  if (entry == nullptr) return std::nullopt;
  return read(file.path(), *entry);
}

template <class T>
T require(std::optional<T> value, const GgufFile &file, std::string_view key) {
  if (value) return *std::move(value);
  throw LoadError({.path = file.path(), .item = std::string(key), .problem = "is missing"});
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path &path, FileBytes where) {
  GgufFile made;
  made.shards_.push_back(MappedFile::open(path, where));
  GgufContents contents = parse_gguf(made.shards_.front());
  made.version_ = contents.version;
  made.entries_ = std::move(contents.entries);
  made.tensors_ = std::move(contents.tensors);
  const SplitKeys keys = read_split_keys(made.path(), made.entries_);
  check_is_first(path, keys);
  if (keys.count > 1) append_shards(path, where, keys, made.shards_, made.tensors_);
  made.index();
  if (keys.count > 1) check_n_tensors(made.path(), keys, made.tensors_.size());
  return made;
}

void GgufFile::index() {
  for (size_t i = 0; i < entries_.size(); i++) i_entry_.emplace(entries_[i].key, i);
  for (size_t i = 0; i < tensors_.size(); i++) {
    const auto [there, is_new] = i_tensor_.emplace(tensors_[i].name, i);
    if (is_new) continue;
    throw LoadError(
        {.path = shards_[tensors_[i].i_shard].path(),
         .item = printable(tensors_[i].name),
         .problem = fmt::format("is also in {}", shards_[tensors_[there->second].i_shard].path())});
  }
}

const GgufEntry *GgufFile::find_entry(std::string_view key) const {
  const auto found = i_entry_.find(key);
  return found == i_entry_.end() ? nullptr : &entries_[found->second];
}

const GgufTensor *GgufFile::find_tensor(std::string_view name) const {
  const auto found = i_tensor_.find(name);
  return found == i_tensor_.end() ? nullptr : &tensors_[found->second];
}

std::optional<uint64_t> GgufFile::get_u64(std::string_view key) const {
  return read_if(*this, key, [](auto &path, auto &entry) { return value_u64(path, entry); });
}

std::optional<int64_t> GgufFile::get_i64(std::string_view key) const {
  return read_if(*this, key, value_i64);
}

std::optional<uint32_t> GgufFile::get_u32(std::string_view key, uint32_t max) const {
  return read_if(*this, key, [max](auto &path, auto &entry) {
    return static_cast<uint32_t>(value_u64(path, entry, max));
  });
}

std::optional<double> GgufFile::get_f64(std::string_view key) const {
  return read_if(*this, key, value_f64);
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  return read_if(*this, key, value_bool);
}

std::optional<std::string> GgufFile::get_string(std::string_view key) const {
  return read_if(*this, key,
                 [](auto &path, auto &entry) { return std::string(value_string(path, entry)); });
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  return read_if(*this, key, value_strings);
}

std::optional<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  return read_if(*this, key, value_ints);
}

std::optional<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  return read_if(*this, key, value_floats);
}

std::optional<std::vector<bool>> GgufFile::get_bools(std::string_view key) const {
  return read_if(*this, key, value_bools);
}

uint32_t GgufFile::require_u32(std::string_view key, uint32_t max) const {
  return require(get_u32(key, max), *this, key);
}

double GgufFile::require_f64(std::string_view key) const {
  return require(get_f64(key), *this, key);
}

std::string GgufFile::require_string(std::string_view key) const {
  return require(get_string(key), *this, key);
}

std::string format_shape(std::span<const int64_t> ne, int n_dims) {
  size_t n_shown = ne.size();
  const auto n_least = std::min(static_cast<size_t>(std::max(n_dims, 0)), ne.size());
  while (n_shown > n_least && ne[n_shown - 1] == 1) n_shown--;
  return fmt::format("[{}]", fmt::join(ne.first(n_shown), ", "));
}

}  // namespace patchbay
