#include "engine/session_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t k_version = 1;

/// Everything before the blocks.
class Header {
 public:
  template <class T>
  void add(const T &value) {
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void add_bytes(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void add_text(std::string_view text) { add_bytes(std::as_bytes(std::span(text))); }
  void set_at(size_t place, uint64_t value) { std::memcpy(&bytes_[place], &value, sizeof(value)); }
  [[nodiscard]] const std::vector<std::byte> &bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

void add(Header &header, const KvGeometry &geometry) {
  for (const uint32_t number : {geometry.n_layer, geometry.n_head_kv, geometry.n_embd_head,
                                geometry.n_swa, geometry.block_size})
    header.add(number);
  header.add(static_cast<uint32_t>(geometry.type));
  header.add(static_cast<uint32_t>(geometry.layout));
  header.add(geometry.block_bytes_full);
  header.add(geometry.block_bytes_window);
}

void add(Header &header, const SessionSpan &span) {
  header.add(span.first);
  header.add(span.digest);
  header.add(static_cast<uint32_t>(span.adapters.size()));
  for (const auto &adapter : span.adapters) {
    header.add(adapter.digest);
    header.add(adapter.strength);
    header.add(static_cast<uint32_t>(adapter.name.size()));
    header.add_text(adapter.name);
  }
}

[[noreturn]] void refuse(const std::string &path, std::string item, std::string problem,
                         std::string wanted = {}, std::string found = {}) {
  throw LoadError({.path = path,
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

template <class Digest>
Digest read_digest(ByteReader &reader, std::string_view item) {
  Digest digest{};
  std::ranges::copy(std::as_bytes(std::span(reader.take(digest.size(), item))),
                    std::as_writable_bytes(std::span(digest)).begin());
  return digest;
}

/// Everything but the checksum, which is right: the bytes are as they were written.
Bytes check_sum(const std::string &path, Bytes bytes) {
  if (bytes.size() < k_session_start_bytes + sizeof(Xxh128Digest))
    refuse(path, "checksum", "is missing: the file is truncated");
  const Bytes content = bytes.first(bytes.size() - sizeof(Xxh128Digest));
  ByteReader end(path, bytes.subspan(content.size()));
  const auto wanted = read_digest<Xxh128Digest>(end, "checksum");
  Xxh128 hash;
  hash.add(content);
  if (hash.digest() != wanted)
    refuse(path, "checksum", "differs: the file is damaged", hex(wanted), hex(hash.digest()));
  return content;
}

KvGeometry read_geometry(ByteReader &reader) {
  KvGeometry geometry;
  geometry.n_layer = reader.read<uint32_t>("n_layer");
  geometry.n_head_kv = reader.read<uint32_t>("n_head_kv");
  geometry.n_embd_head = reader.read<uint32_t>("n_embd_head");
  geometry.n_swa = reader.read<uint32_t>("n_swa");
  geometry.block_size = reader.read<uint32_t>("block_size");
  const auto type = reader.read<uint32_t>("cache type");
  const auto layout = reader.read<uint32_t>("layout");
  geometry.block_bytes_full = reader.read<uint64_t>("bytes of a block");
  geometry.block_bytes_window = reader.read<uint64_t>("bytes of a window's block");
  if (geometry.block_size == 0) refuse(reader.path(), "block_size", "is 0");
  if (geometry.block_bytes_full == 0) refuse(reader.path(), "bytes of a block", "are 0");
  if (type >= GGML_TYPE_COUNT)
    refuse(reader.path(), "cache type", "is not known", {}, fmt::format("{}", type));
  if (layout > static_cast<uint32_t>(KvLayout::by_head))
    refuse(reader.path(), "layout", "is not known", {}, fmt::format("{}", layout));
  geometry.type = static_cast<ggml_type>(type);
  geometry.layout = static_cast<KvLayout>(layout);
  return geometry;
}

std::vector<int32_t> read_tokens(ByteReader &reader) {
  const auto n_tokens = reader.read<uint32_t>("n_tokens");
  if (n_tokens == 0) refuse(reader.path(), "n_tokens", "is 0");
  reader.expect_room(n_tokens, sizeof(int32_t), "tokens");
  std::vector<int32_t> tokens(n_tokens);
  for (int32_t &token : tokens) token = reader.read<int32_t>("tokens");
  return tokens;
}

SessionAdapter read_adapter(ByteReader &reader) {
  SessionAdapter adapter{.digest = read_digest<AdapterDigest>(reader, "digest of an adapter"),
                         .name = {},
                         .strength = reader.read<float>("strength of an adapter")};
  if (!std::isfinite(adapter.strength))
    refuse(reader.path(), "strength of an adapter", "is not finite");
  const auto n_bytes = reader.read<uint32_t>("name of an adapter");
  adapter.name = as_text(reader.take(n_bytes, "name of an adapter"));
  return adapter;
}

SessionSpan read_span(ByteReader &reader) {
  SessionSpan span{.first = reader.read<uint32_t>("spans"),
                   .digest = read_digest<Sha256Digest>(reader, "spans"),
                   .adapters = {}};
  constexpr size_t k_least_bytes = sizeof(AdapterDigest) + sizeof(float) + sizeof(uint32_t);
  const auto n_adapters = reader.read<uint32_t>("adapters of a span");
  reader.expect_room(n_adapters, k_least_bytes, "adapters of a span");
  for (uint32_t i = 0; i < n_adapters; ++i) span.adapters.push_back(read_adapter(reader));
  return span;
}

std::vector<SessionSpan> read_spans(ByteReader &reader, size_t n_tokens) {
  constexpr size_t k_least_bytes = sizeof(uint32_t) + sizeof(Sha256Digest) + sizeof(uint32_t);
  const auto n_spans = reader.read<uint32_t>("n_spans");
  reader.expect_room(n_spans, k_least_bytes, "spans");
  std::vector<SessionSpan> spans;
  for (uint32_t i = 0; i < n_spans; ++i) {
    spans.push_back(read_span(reader));
    const bool rises = i == 0 ? spans[i].first == 0 : spans[i].first > spans[i - 1].first;
    if (!rises || spans[i].first >= n_tokens)
      refuse(reader.path(), "spans", "do not rise from 0 on within the tokens");
  }
  return spans;
}

PrefixBlocks read_blocks(ByteReader &reader, const SessionFile &file) {
  const KvGeometry &geometry = file.geometry;
  const size_t n_blocks = ceil_div<size_t>(file.tokens.size(), geometry.block_size);
  PrefixBlocks blocks;
  const Bytes has_window = reader.take(geometry.block_bytes_window > 0 ? n_blocks : 0, "windows");
  reader.expect_room(n_blocks, geometry.block_bytes_full, "blocks");
  for (size_t i = 0; i < n_blocks; ++i)
    blocks.full.push_back(reader.take(geometry.block_bytes_full, "blocks"));
  for (const std::byte flag : has_window) {
    const bool is_there = flag != std::byte{0};
    blocks.window.push_back(reader.take(is_there ? geometry.block_bytes_window : 0, "windows"));
  }
  if (reader.n_left() > 0) refuse(reader.path(), "blocks", "are followed by other bytes");
  return blocks;
}

}  // namespace

void check_session_start(const std::string &path, Bytes bytes, uint64_t size_bytes) {
  if (bytes.empty()) refuse(path, {}, "is empty");
  if (!as_text(bytes).starts_with(k_session_magic))
    refuse(path, {}, "is not a saved session of Patchbay");
  ByteReader reader(path, bytes);
  reader.take(k_session_magic.size(), "magic");
  if (const auto version = reader.read<uint32_t>("version"); version != k_version) {
    refuse(path, "version", "is not supported", fmt::format("{}", k_version),
           fmt::format("{}", version));
  }
  if (const auto wanted = reader.read<uint64_t>("size"); wanted != size_bytes) {
    refuse(path, "size", "differs: the file is truncated or damaged",
           fmt::format("{} bytes", wanted), fmt::format("{}", size_bytes));
  }
}

void encode_session(const SessionFile &file, const std::function<void(Bytes)> &sink) {
  Header header;
  header.add_text(k_session_magic);
  header.add(k_version);
  const size_t size_place = header.bytes().size();
  header.add(uint64_t{0});
  header.add(file.model);
  add(header, file.geometry);
  header.add(static_cast<uint32_t>(file.tokens.size()));
  header.add_bytes(std::as_bytes(std::span(file.tokens)));
  header.add(static_cast<uint32_t>(file.spans.size()));
  for (const auto &span : file.spans) add(header, span);
  for (const auto &bytes : file.blocks.window) header.add(bytes.empty() ? uint8_t{0} : uint8_t{1});

  std::vector<Bytes> pieces;
  pieces.insert(pieces.end(), file.blocks.full.begin(), file.blocks.full.end());
  pieces.insert(pieces.end(), file.blocks.window.begin(), file.blocks.window.end());
  uint64_t size_bytes = header.bytes().size() + sizeof(Xxh128Digest);
  for (const auto &piece : pieces) size_bytes += piece.size();
  header.set_at(size_place, size_bytes);
  pieces.insert(pieces.begin(), header.bytes());

  Xxh128 hash;
  for (const auto &piece : pieces) {
    hash.add(piece);
    sink(piece);
  }
  const Xxh128Digest checksum = hash.digest();
  sink(std::as_bytes(std::span(checksum)));
}

SessionFile decode_session(const std::string &path, Bytes bytes) {
  check_session_start(path, bytes.first(std::min(bytes.size(), k_session_start_bytes)),
                      bytes.size());
  ByteReader reader(path, check_sum(path, bytes));
  reader.take(k_session_start_bytes, "start");
  SessionFile file;
  file.model = read_digest<Xxh128Digest>(reader, "model");
  file.geometry = read_geometry(reader);
  file.tokens = read_tokens(reader);
  file.spans = read_spans(reader, file.tokens.size());
  file.blocks = read_blocks(reader, file);
  return file;
}

}  // namespace patchbay
