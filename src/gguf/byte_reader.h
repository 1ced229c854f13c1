#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace patchbay {

static_assert(std::endian::native == std::endian::little,
              "file values and tensor data are used as they lie in the mapping");

/// The bytes as characters; as long-lived as the bytes.
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// The value at the beginning of `bytes`, which may be unaligned. REQUIRES: bytes.size() >=
/// sizeof(T).
template <class T>
  requires std::integral<T> || std::floating_point<T>
[[nodiscard]] T load_little_endian(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// A cursor over the bytes of a file that never leaves them. Path and bytes must outlive it.
class ByteReader {
 public:
  ByteReader(const std::string &path, std::span<const std::byte> bytes)
      : path_(path), bytes_(bytes) {}

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] size_t n_left() const { return bytes_.size() - position_; }

  /// The next `n` bytes. Throws LoadError "truncated", naming `item`, when there are fewer.
  std::span<const std::byte> take(uint64_t n, std::string_view item) {
    if (n > n_left()) fail_truncated(n, item);
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(n));
    position_ += taken.size();
    return taken;
  }

  template <class T>
  [[nodiscard]] T read(std::string_view item) {
    return load_little_endian<T>(take(sizeof(T), item));
  }

  /// The bytes between an earlier position and the cursor.
  [[nodiscard]] std::span<const std::byte> since(size_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

  /// Throws LoadError "truncated" unless `n_items` things of at least `item_bytes` each could
  /// follow. Called before anything is allocated or looped over for them.
  void expect_room(uint64_t n_items, size_t item_bytes, std::string_view item) const {
    if (n_items <= n_left() / item_bytes) return;
    throw LoadError({.path = path_,
                     .item = std::string(item),
                     .problem = "has a count that the file is too short for (truncated or damaged)",
                     .wanted = std::to_string(n_items) + " of at least " +
                               std::to_string(item_bytes) + " bytes each",
                     .found = std::to_string(n_left()) + " bytes left"});
  }

 private:
  [[noreturn]] void fail_truncated(uint64_t n, std::string_view item) const {
    throw LoadError({.path = path_,
                     .item = std::string(item),
                     .problem = "is truncated at byte " + std::to_string(position_),
                     .wanted = std::to_string(n) + " more bytes",
                     .found = std::to_string(n_left())});
  }

  const std::string &path_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

/// A name from a file made fit for one line of a message: bytes outside printable ASCII as \xNN,
/// cut after 100 bytes.
[[nodiscard]] std::string printable(std::string_view name);

}  // namespace patchbay
