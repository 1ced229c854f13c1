#pragma once

#include <ggml.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"

namespace patchbay {

/// Metadata value types with the numbers of the GGUF specification
/// (github.com/ggml-org/ggml/blob/master/docs/gguf.md).
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// One metadata entry: its type and a view of its bytes in the mapping (already checked to lie
/// inside the file).
struct GgufEntry {
  std::string key;
  GgufType type = GgufType::u8;
  GgufType item_type = GgufType::u8;  ///< of an array, else equal to type
  uint64_t n_items = 1;               ///< of an array, else 1
  /// A scalar: its little-endian bytes, unaligned. A string: its characters, without the length. An
  /// array: its items one after another as in the file (strings and inner arrays with their
  /// lengths), without item type and count. Valid as long as the GgufFile.
  std::span<const std::byte> bytes;
};

/// One tensor: where its data lies and what it is. The data view is valid as long as the GgufFile
/// and holds exactly the bytes of `ne` in `type`. It is aligned to general.alignment of its file (8
/// or more, 32 by default; a page at most), so ggml can use it in place.
struct GgufTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  int n_dims = 0;
  std::array<int64_t, 4> ne{1, 1, 1, 1};  ///< ggml order, ne[0] contiguous
  std::span<const std::byte> data;
  size_t i_shard = 0;  ///< index into GgufFile::shards()
};

/// A GGUF v2 or v3 file, or a model split over -00001-of-0000N shards.
/// Every length, count, type and offset is checked when the file is opened, so that later access
/// cannot go wrong. The metadata is the first shard's. Immutable after open; any thread.
class GgufFile {
 public:
  /// Follows split shards when `path` is the first of them (`split.count` > 1). Throws LoadError
  /// for anything that is not a sound GGUF file: wrong magic or version, truncated, counts or
  /// offsets past the end, duplicate keys or tensors, unknown value or tensor types, rows that are
  /// no whole number of quantisation blocks, overlapping or misaligned data, missing or foreign
  /// shards. A missing file or shard has ErrorCode::not_found.
  [[nodiscard]] static GgufFile open(const std::filesystem::path &path,
                                     FileBytes where = FileBytes::mapped);

  GgufFile(GgufFile &&) = default;
  GgufFile &operator=(GgufFile &&) = default;
  GgufFile(const GgufFile &) = delete;
  GgufFile &operator=(const GgufFile &) = delete;

  [[nodiscard]] const std::string &path() const { return shards_.front().path(); }
  [[nodiscard]] uint32_t version() const { return version_; }
  [[nodiscard]] std::span<const MappedFile> shards() const { return shards_; }
  [[nodiscard]] std::span<const GgufEntry> entries() const { return entries_; }
  [[nodiscard]] std::span<const GgufTensor> tensors() const { return tensors_; }
  [[nodiscard]] const GgufEntry *find_entry(std::string_view key) const;
  [[nodiscard]] const GgufTensor *find_tensor(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view key) const { return find_entry(key) != nullptr; }

  // Typed access. An absent key gives nullopt; a value of another kind throws LoadError naming
  // file, key, the wanted and the found type. Integers are accepted from every integer type whose
  // value fits; get_f64 also takes integers.
  [[nodiscard]] std::optional<uint64_t> get_u64(std::string_view key) const;
  [[nodiscard]] std::optional<int64_t> get_i64(std::string_view key) const;
  /// Throws LoadError also when the value is above `max`.
  [[nodiscard]] std::optional<uint32_t> get_u32(std::string_view key,
                                                uint32_t max = UINT32_MAX) const;
  [[nodiscard]] std::optional<double> get_f64(std::string_view key) const;
  [[nodiscard]] std::optional<bool> get_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> get_string(std::string_view key) const;
  /// The views are valid as long as the GgufFile.
  [[nodiscard]] std::optional<std::vector<std::string_view>> get_strings(
      std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> get_ints(
      std::string_view key) const;  ///< any integer array
  [[nodiscard]] std::optional<std::vector<float>> get_floats(
      std::string_view key) const;  ///< of f32 or f64
  [[nodiscard]] std::optional<std::vector<bool>> get_bools(std::string_view key) const;

  // The same for keys that must be there: LoadError "<path>: <key> is missing".
  [[nodiscard]] uint32_t require_u32(std::string_view key, uint32_t max = UINT32_MAX) const;
  [[nodiscard]] double require_f64(std::string_view key) const;
  [[nodiscard]] std::string require_string(std::string_view key) const;

 private:
  GgufFile() = default;
  void index();

  std::vector<MappedFile> shards_;
  uint32_t version_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> i_entry_;   // views into entries_
  std::unordered_map<std::string_view, size_t> i_tensor_;  // views into tensors_
};

/// "[576, 1536]": a shape in ggml order, trailing ones left out but never below `n_dims` numbers.
[[nodiscard]] std::string format_shape(std::span<const int64_t> ne, int n_dims = 1);

}  // namespace patchbay
