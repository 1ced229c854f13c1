#include "gguf/gguf_head.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/utf8.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

template <class T>
void append(std::string &bytes, T value) {
  bytes += as_text(std::as_bytes(std::span(&value, 1)));
}

void append_string(std::string &bytes, std::string_view text) {
  append<uint64_t>(bytes, text.size());
  bytes += text;
}

std::string head_of(GgufType type) {
  std::string bytes;
  append(bytes, static_cast<uint32_t>(type));
  return bytes;
}

template <class T>
std::string scalar(GgufType type, T value) {
  std::string bytes = head_of(type);
  append(bytes, value);
  return bytes;
}

std::string array_head(GgufType item_type, uint64_t n_items) {
  std::string bytes = head_of(GgufType::array);
  append(bytes, static_cast<uint32_t>(item_type));
  append(bytes, n_items);
  return bytes;
}

std::string value_of(const GgufEntry &entry) {
  if (entry.type == GgufType::array) {
    return array_head(entry.item_type, entry.n_items).append(as_text(entry.bytes));
  }
  std::string bytes = head_of(entry.type);
  if (entry.type == GgufType::string) append<uint64_t>(bytes, entry.bytes.size());
  return bytes.append(as_text(entry.bytes));
}

constexpr std::string_view k_alignment = "general.alignment";
constexpr uint32_t k_version = 3;

}  // namespace

void GgufHead::put(std::string_view key, std::string value) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found != entries_.end()) {
    found->value = std::move(value);
  } else {
    entries_.push_back({std::string(key), std::move(value)});
  }
}

void GgufHead::set(const GgufEntry &entry) {
  if (entry.key == k_alignment) alignment_ = load_little_endian<uint32_t>(entry.bytes);
  put(entry.key, value_of(entry));
}

void GgufHead::set_u16(std::string_view key, uint16_t value) {
  put(key, scalar(GgufType::u16, value));
}
void GgufHead::set_u32(std::string_view key, uint32_t value) {
  put(key, scalar(GgufType::u32, value));
}
void GgufHead::set_i32(std::string_view key, int32_t value) {
  put(key, scalar(GgufType::i32, value));
}
void GgufHead::set_f32(std::string_view key, float value) {
  put(key, scalar(GgufType::f32, value));
}

void GgufHead::set_string(std::string_view key, std::string_view value) {
  std::string bytes = head_of(GgufType::string);
  append_string(bytes, repair_utf8(value));
  put(key, std::move(bytes));
}

void GgufHead::set_strings(std::string_view key, std::span<const std::string> values) {
  std::string bytes = array_head(GgufType::string, values.size());
  for (const auto &value : values) append_string(bytes, repair_utf8(value));
  put(key, std::move(bytes));
}

void GgufHead::set_floats(std::string_view key, std::span<const float> values) {
  put(key, array_head(GgufType::f32, values.size()).append(as_text(std::as_bytes(values))));
}

void GgufHead::set_u32s(std::string_view key, std::span<const uint32_t> values) {
  put(key, array_head(GgufType::u32, values.size()).append(as_text(std::as_bytes(values))));
}

void GgufHead::add_tensor(std::string_view name, ggml_type type, int n_dims,
                          const std::array<int64_t, 4> &ne) {
  append_string(tensors_, name);
  append(tensors_, static_cast<uint32_t>(n_dims));
  for (int i = 0; i < n_dims; ++i) append(tensors_, ne[static_cast<size_t>(i)]);
  append(tensors_, static_cast<uint32_t>(type));
  append(tensors_, data_bytes_);
  n_tensors_++;
  data_bytes_ += round_up(tensor_bytes(type, ne), alignment_);
}

std::vector<std::byte> GgufHead::padding_after(size_t n_bytes) const {
  return std::vector<std::byte>(round_up(n_bytes, alignment_) - n_bytes);
}

std::vector<std::byte> GgufHead::bytes() const {
  std::string head = "GGUF";
  append(head, k_version);
  append(head, n_tensors_);
  append<uint64_t>(head, entries_.size());
  for (const auto &entry : entries_) {
    append_string(head, entry.key);
    head += entry.value;
  }
  head += tensors_;
  head.resize(round_up(head.size(), alignment_));
  const auto bytes = std::as_bytes(std::span(head));
  return {bytes.begin(), bytes.end()};
}

size_t GgufHead::file_bytes() const { return bytes().size() + data_bytes_; }

size_t tensor_bytes(ggml_type type, const std::array<int64_t, 4> &ne) {
  return ggml_row_size(type, ne[0]) * static_cast<size_t>(ne[1] * ne[2] * ne[3]);
}

}  // namespace patchbay
