#include "gguf/gguf_header.h"

#include "gguf/gguf_file.h"

namespace patchbay {
namespace {

constexpr uint32_t k_version = 3;

/// The format is little-endian, as is every machine that ggml is built for here.
template <class T>
void put(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

void put_text(std::string &bytes, std::string_view text) {
  put<uint64_t>(bytes, text.size());
  bytes.append(text);
}

}  // namespace

void GgufHeader::begin_entry(std::string_view key, uint32_t type) {
  n_entries_++;
  put_text(entries_, key);
  put(entries_, type);
}

void GgufHeader::set(std::string_view key, std::string_view value) {
  begin_entry(key, static_cast<uint32_t>(GgufType::string));
  put_text(entries_, value);
}

void GgufHeader::set(std::string_view key, uint32_t value) {
  begin_entry(key, static_cast<uint32_t>(GgufType::u32));
  put(entries_, value);
}

void GgufHeader::set(std::string_view key, float value) {
  begin_entry(key, static_cast<uint32_t>(GgufType::f32));
  put(entries_, value);
}

void GgufHeader::set(std::string_view key, const std::vector<uint32_t> &values) {
  begin_entry(key, static_cast<uint32_t>(GgufType::array));
  put(entries_, static_cast<uint32_t>(GgufType::u32));
  put<uint64_t>(entries_, values.size());
  for (const uint32_t value : values) put(entries_, value);
}

void GgufHeader::add_tensor(std::string_view name, ggml_type type, const std::vector<int64_t> &ne) {
  n_tensors_++;
  put_text(tensors_, name);
  put(tensors_, static_cast<uint32_t>(ne.size()));
  size_t n_bytes = ggml_row_size(type, ne.front());
  for (size_t i = 0; i < ne.size(); ++i) {
    put(tensors_, static_cast<uint64_t>(ne[i]));
    if (i > 0) n_bytes *= static_cast<size_t>(ne[i]);
  }
  put(tensors_, static_cast<uint32_t>(type));
  put(tensors_, data_bytes_);
  data_bytes_ += n_bytes + gguf_padding(n_bytes);
}

std::string GgufHeader::bytes() const {
  std::string all = "GGUF";
  put(all, k_version);
  put(all, n_tensors_);
  put(all, n_entries_);
  all += entries_;
  all += tensors_;
  all.append(gguf_padding(all.size()), '\0');
  return all;
}

}  // namespace patchbay
