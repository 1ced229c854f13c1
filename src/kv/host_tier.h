#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

namespace patchbay {

/// A string of bytes of a fixed length, not initialised.
class HostBytes {
 public:
  HostBytes() = default;
  /// Throws std::bad_alloc.
  explicit HostBytes(size_t n_bytes)
      : data_(std::make_unique_for_overwrite<std::byte[]>(n_bytes)), n_bytes_(n_bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() { return {data_.get(), n_bytes_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), n_bytes_}; }

 private:
  std::unique_ptr<std::byte[]> data_;  // NOLINT(*-avoid-c-arrays): std::vector would write zeros
  size_t n_bytes_ = 0;
};

/// Strings of bytes under keys, in ordinary memory: never more than a budget, in the order in which
/// they came. What they are and which of them to give up is others' business. One thread.
class HostTier {
 public:
  using Key = uint64_t;

  explicit HostTier(size_t budget_bytes) : budget_bytes_(budget_bytes) {}

  [[nodiscard]] size_t budget_bytes() const { return budget_bytes_; }
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] size_t n_entries() const { return entries_.size(); }
  [[nodiscard]] bool has_room(size_t n_bytes) const {
    return n_bytes <= budget_bytes_ - size_bytes_;
  }

  /// Memory for `n_bytes` bytes under a new key, for the caller to fill. None: memory cannot be
  /// had. REQUIRES: there is room, and nothing under the key.
  [[nodiscard]] std::optional<std::span<std::byte>> add(Key key, size_t n_bytes);

  [[nodiscard]] bool contains(Key key) const { return places_.contains(key); }
  /// REQUIRES: it is there. Valid until it is taken or removed.
  [[nodiscard]] std::span<const std::byte> bytes(Key key) const {
    return std::as_const(places_.at(key)->bytes).bytes();
  }
  /// Hands the bytes out of the tier. REQUIRES: they are there.
  [[nodiscard]] HostBytes take(Key key);
  /// False: there was nothing.
  bool remove(Key key);

  /// The key that came first of those that are there.
  [[nodiscard]] std::optional<Key> oldest() const;

 private:
  struct Entry {
    Key key = 0;
    HostBytes bytes;
  };

  size_t budget_bytes_;
  size_t size_bytes_ = 0;
  std::list<Entry> entries_;  // in the order in which they came
  std::unordered_map<Key, std::list<Entry>::iterator> places_;
};

}  // namespace patchbay
