#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "gguf/gguf_parse.h"
#include "gguf/gguf_value.h"

namespace patchbay {
namespace {

/// From the specification.
constexpr uint64_t k_max_key_bytes = 65535;
/// Arrays of arrays are only skipped; nobody is known to write more than two levels.
constexpr int k_max_array_depth = 8;

std::string_view read_key(ByteReader &in, uint64_t i) {
  const std::string item = fmt::format("metadata entry {}", i);
  const auto n_bytes = in.read<uint64_t>(item);
  if (n_bytes == 0 || n_bytes > k_max_key_bytes) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has a key of unsound length",
                     .wanted = fmt::format("1 to {} bytes", k_max_key_bytes),
                     .found = std::to_string(n_bytes)});
  }
  const auto key = as_text(in.take(n_bytes, item));
  // Looser than the specification's lower_snake_case, which real files do not keep to
  // ("gemma-embedding.block_count").
  const bool valid = std::ranges::all_of(key, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!valid) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has a key that is not printable ASCII",
                     .found = printable(key)});
  }
  return key;
}

GgufType read_type(ByteReader &in, const std::string &item) {
  const auto number = in.read<uint32_t>(item);
  if (number > static_cast<uint32_t>(GgufType::f64)) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has an unknown value type",
                     .wanted = "0 to 12",
                     .found = std::to_string(number)});
  }
  return static_cast<GgufType>(number);
}

void check_bools(const ByteReader &in, std::span<const std::byte> values, const std::string &item) {
  const auto bad = std::ranges::find_if(values, [](std::byte b) { return b > std::byte{1}; });
  if (bad == values.end()) return;
  throw LoadError({.path = in.path(),
                   .item = item,
                   .problem = "has an unsound bool",
                   .wanted = "0 or 1",
                   .found = std::to_string(std::to_integer<int>(*bad))});
}

/// The least number of bytes that one value of a type takes in an array.
size_t min_item_bytes(GgufType type) {
  constexpr size_t k_length_bytes = 8;
  constexpr size_t k_array_head_bytes = 4 + 8;
  if (type == GgufType::string) return k_length_bytes;
  if (type == GgufType::array) return k_array_head_bytes;
  return size_bytes(type);
}

struct ArrayHead {
  GgufType item_type = GgufType::u8;
  uint64_t n_items = 0;
};

ArrayHead read_array_head(ByteReader &in, const std::string &item) {
  ArrayHead head;
  head.item_type = read_type(in, item);
  head.n_items = in.read<uint64_t>(item);
  in.expect_room(head.n_items, min_item_bytes(head.item_type), item);
  return head;
}

/// Moves over the items of an array, checking them; depth 1 is an array that is no item itself.
void skip_items(ByteReader &in, ArrayHead head, const std::string &item, int depth) {
  if (depth > k_max_array_depth) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has arrays that are nested too deeply",
                     .wanted = fmt::format("at most {} levels", k_max_array_depth)});
  }
  if (head.item_type == GgufType::string) {
    for (uint64_t i = 0; i < head.n_items; i++) in.take(in.read<uint64_t>(item), item);
  } else if (head.item_type == GgufType::array) {
    for (uint64_t i = 0; i < head.n_items; i++) {
      skip_items(in, read_array_head(in, item), item, depth + 1);
    }
  } else {
    const auto values = in.take(head.n_items * size_bytes(head.item_type), item);
    if (head.item_type == GgufType::boolean) check_bools(in, values, item);
  }
}

void read_value(ByteReader &in, GgufEntry &entry) {
  if (entry.type == GgufType::array) {
    const ArrayHead head = read_array_head(in, entry.key);
    const size_t begin = in.position();
    skip_items(in, head, entry.key, 1);
    entry.item_type = head.item_type;
    entry.n_items = head.n_items;
    entry.bytes = in.since(begin);
  } else if (entry.type == GgufType::string) {
    entry.bytes = in.take(in.read<uint64_t>(entry.key), entry.key);
  } else {
    entry.bytes = in.take(size_bytes(entry.type), entry.key);
    if (entry.type == GgufType::boolean) check_bools(in, entry.bytes, entry.key);
  }
}

}  // namespace

std::vector<GgufEntry> read_gguf_entries(ByteReader &in, uint64_t n) {
  std::vector<GgufEntry> entries;
  std::unordered_set<std::string_view> keys;  // views into the file
  for (uint64_t i = 0; i < n; i++) {
    const auto key = read_key(in, i);
    GgufEntry entry{.key = std::string(key), .bytes = {}};
    if (!keys.insert(key).second) {
      throw LoadError({.path = in.path(), .item = entry.key, .problem = "is there twice"});
    }
    entry.type = read_type(in, entry.key);
    entry.item_type = entry.type;
    read_value(in, entry);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace patchbay
