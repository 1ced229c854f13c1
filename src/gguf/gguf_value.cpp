#include "gguf/gguf_value.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

[[noreturn]] void fail_type(const std::string &path, const GgufEntry &entry, std::string wanted) {
  throw LoadError({.path = path,
                   .item = printable(entry.key),
                   .problem = "has a value of the wrong type",
                   .wanted = std::move(wanted),
                   .found = type_name(entry)});
}

[[noreturn]] void fail_range(const std::string &path, const GgufEntry &entry, std::string wanted,
                             std::string found) {
  throw LoadError({.path = path,
                   .item = printable(entry.key),
                   .problem = "has a value out of range",
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

/// An integer of any of the file's types: the bits, and whether they mean a negative number.
struct Integer {
  uint64_t bits = 0;
  bool negative = false;
};

template <class T>
Integer load_integer(std::span<const std::byte> bytes) {
  const T value = load_little_endian<T>(bytes);
  return {.bits = static_cast<uint64_t>(value), .negative = value < T{0}};
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::u16:
    case GgufType::i16:
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::u64:
    case GgufType::i64:
      return true;
    default:
      return false;
  }
}

/// REQUIRES: is_integer(type).
Integer integer_at(GgufType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufType::u8:
      return load_integer<uint8_t>(bytes);
    case GgufType::i8:
      return load_integer<int8_t>(bytes);
    case GgufType::u16:
      return load_integer<uint16_t>(bytes);
    case GgufType::i16:
      return load_integer<int16_t>(bytes);
    case GgufType::u32:
      return load_integer<uint32_t>(bytes);
    case GgufType::i32:
      return load_integer<int32_t>(bytes);
    case GgufType::u64:
      return load_integer<uint64_t>(bytes);
    default:
      return load_integer<int64_t>(bytes);
  }
}

Integer scalar_integer(const std::string &path, const GgufEntry &entry) {
  if (!is_integer(entry.type)) fail_type(path, entry, "an integer");
  return integer_at(entry.type, entry.bytes);
}

int64_t to_i64(const std::string &path, const GgufEntry &entry, Integer value) {
  if (!value.negative && value.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    fail_range(path, entry, "at most 9223372036854775807", std::to_string(value.bits));
  }
  return static_cast<int64_t>(value.bits);
}

/// The bytes of item `i` of an array of fixed-size items.
std::span<const std::byte> item_bytes(const GgufEntry &entry, uint64_t i) {
  const size_t size = size_bytes(entry.item_type);
  return entry.bytes.subspan(static_cast<size_t>(i) * size, size);
}

}  // namespace

size_t size_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

std::string_view to_string(GgufType type) {
  switch (type) {
    case GgufType::u8:
      return "u8";
    case GgufType::i8:
      return "i8";
    case GgufType::u16:
      return "u16";
    case GgufType::i16:
      return "i16";
    case GgufType::u32:
      return "u32";
    case GgufType::i32:
      return "i32";
    case GgufType::f32:
      return "f32";
    case GgufType::boolean:
      return "bool";
    case GgufType::string:
      return "string";
    case GgufType::array:
      return "array";
    case GgufType::u64:
      return "u64";
    case GgufType::i64:
      return "i64";
    case GgufType::f64:
      return "f64";
  }
  return "unknown";
}

std::string type_name(const GgufEntry &entry) {
  if (entry.type != GgufType::array) return std::string(to_string(entry.type));
  return fmt::format("array of {}", to_string(entry.item_type));
}

uint64_t value_u64(const std::string &path, const GgufEntry &entry, uint64_t max) {
  const Integer value = scalar_integer(path, entry);
  if (value.negative) {
    fail_range(path, entry, "0 or more", std::to_string(static_cast<int64_t>(value.bits)));
  }
  if (value.bits > max) {
    fail_range(path, entry, fmt::format("at most {}", max), std::to_string(value.bits));
  }
  return value.bits;
}

int64_t value_i64(const std::string &path, const GgufEntry &entry) {
  return to_i64(path, entry, scalar_integer(path, entry));
}

double value_f64(const std::string &path, const GgufEntry &entry) {
  if (entry.type == GgufType::f32) return double{load_little_endian<float>(entry.bytes)};
  if (entry.type == GgufType::f64) return load_little_endian<double>(entry.bytes);
  if (!is_integer(entry.type)) fail_type(path, entry, "a number");
  const Integer value = integer_at(entry.type, entry.bytes);
  return value.negative ? static_cast<double>(static_cast<int64_t>(value.bits))
                        : static_cast<double>(value.bits);
}

bool value_bool(const std::string &path, const GgufEntry &entry) {
  if (entry.type != GgufType::boolean) fail_type(path, entry, "bool");
  return entry.bytes[0] != std::byte{0};
}

std::string_view value_string(const std::string &path, const GgufEntry &entry) {
  if (entry.type != GgufType::string) fail_type(path, entry, "string");
  return as_text(entry.bytes);
}

std::vector<std::string_view> value_strings(const std::string &path, const GgufEntry &entry) {
  if (entry.type != GgufType::array || entry.item_type != GgufType::string) {
    fail_type(path, entry, "array of string");
  }
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<size_t>(entry.n_items));
  ByteReader in(path, entry.bytes);
  for (uint64_t i = 0; i < entry.n_items; i++) {
    strings.push_back(as_text(in.take(in.read<uint64_t>(entry.key), entry.key)));
  }
  return strings;
}

std::vector<int64_t> value_ints(const std::string &path, const GgufEntry &entry) {
  if (entry.type != GgufType::array || !is_integer(entry.item_type)) {
    fail_type(path, entry, "array of integers");
  }
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(entry.n_items));
  for (uint64_t i = 0; i < entry.n_items; i++) {
    values.push_back(to_i64(path, entry, integer_at(entry.item_type, item_bytes(entry, i))));
  }
  return values;
}

std::vector<float> value_floats(const std::string &path, const GgufEntry &entry) {
  const bool is_f64 = entry.item_type == GgufType::f64;
  if (entry.type != GgufType::array || (!is_f64 && entry.item_type != GgufType::f32)) {
    fail_type(path, entry, "array of floats");
  }
  std::vector<float> values;
  values.reserve(static_cast<size_t>(entry.n_items));
  for (uint64_t i = 0; i < entry.n_items; i++) {
    const auto bytes = item_bytes(entry, i);
    values.push_back(is_f64 ? static_cast<float>(load_little_endian<double>(bytes))
                            : load_little_endian<float>(bytes));
  }
  return values;
}

std::vector<bool> value_bools(const std::string &path, const GgufEntry &entry) {
  if (entry.type != GgufType::array || entry.item_type != GgufType::boolean) {
    fail_type(path, entry, "array of bool");
  }
  std::vector<bool> values;
  values.reserve(static_cast<size_t>(entry.n_items));
  for (const std::byte value : entry.bytes) values.push_back(value != std::byte{0});
  return values;
}

}  // namespace patchbay
