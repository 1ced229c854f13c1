#include "engine/session_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/regular_file.h"
#include "base/replacement_file.h"
#include "base/text.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

void expect_equal(const std::string &path, std::string_view item, const std::string &wanted,
                  const std::string &found) {
  if (wanted == found) return;
  throw LoadError({.path = path,
                   .item = std::string(item),
                   .problem = "differs",
                   .wanted = wanted,
                   .found = found,
                   .hint = "saved by another engine"});
}

void check_geometry(const std::string &path, const KvGeometry &found, const KvGeometry &wanted) {
  const auto expect = [&](std::string_view item, auto KvGeometry::*field) {
    expect_equal(path, item, fmt::format("{}", wanted.*field), fmt::format("{}", found.*field));
  };
  expect_equal(path, "cache type", ggml_type_name(wanted.type), ggml_type_name(found.type));
  expect("n_layer", &KvGeometry::n_layer);
  expect("n_head_kv", &KvGeometry::n_head_kv);
  expect("n_embd_head", &KvGeometry::n_embd_head);
  expect("n_swa", &KvGeometry::n_swa);
  expect("block_size", &KvGeometry::block_size);
  const auto name = [](KvLayout layout) {
    return layout == KvLayout::by_head ? "by head" : "by token";
  };
  expect_equal(path, "layout", name(wanted.layout), name(found.layout));
  expect("bytes of a block", &KvGeometry::block_bytes_full);
  expect("bytes of a window's block", &KvGeometry::block_bytes_window);
}

/// Those who load adapters without a name may give several the same one: one that fits is enough.
void check_adapter(const std::string &path, const SessionAdapter &worn,
                   std::span<const std::shared_ptr<const Adapter>> given) {
  const Adapter *other = nullptr;
  for (const auto &adapter : given) {
    if (adapter == nullptr || adapter->name != worn.name) continue;
    if (adapter->digest == worn.digest) return;
    other = adapter.get();
  }
  if (other == nullptr) return;
  throw LoadError({.path = path,
                   .item = fmt::format("adapter '{}'", printable(worn.name)),
                   .problem = "has other content than when the session was saved",
                   .wanted = hex(worn.digest),
                   .found = hex(other->digest)});
}

}  // namespace

HeldSession collect_session(const Executor &executor, const SessionTokens &tokens) {
  HeldSession held;
  std::vector<WornFrom> worn;
  for (const auto &[first, adapters] : tokens.spans) {
    SessionSpan span{.first = static_cast<uint32_t>(first),
                     .digest = executor.kv_digest(adapters),
                     .adapters = {}};
    for (const auto &[adapter, strength] : adapters)
      span.adapters.push_back({adapter->digest, adapter->name, strength});
    worn.push_back({span.first, span.digest});
    held.spans.push_back(std::move(span));
  }
  held.prefix = executor.save(tokens.tenant, {tokens.tokens, worn});
  std::erase_if(held.spans,
                [&](const SessionSpan &span) { return span.first >= held.prefix.n_tokens; });
  return held;
}

SessionFile session_of(const SessionTarget &target, const SessionTokens &tokens,
                       const HeldSession &held) {
  const auto end = tokens.tokens.begin() + held.prefix.n_tokens;
  return {.model = target.model,
          .geometry = target.geometry,
          .tokens = {tokens.tokens.begin(), end},
          .spans = held.spans,
          .blocks = held.prefix.blocks()};
}

std::vector<WornFrom> worn_of(const SessionFile &file) {
  std::vector<WornFrom> worn;
  for (const auto &span : file.spans) worn.push_back({span.first, span.digest});
  return worn;
}

size_t write_session(const std::filesystem::path &path, const SessionFile &file) {
  ReplacementFile out(path);
  size_t n_bytes = 0;
  encode_session(file, [&](std::span<const std::byte> bytes) {
    out.write(bytes);
    n_bytes += bytes.size();
  });
  out.commit();
  return n_bytes;
}

LoadedSession read_session(const std::filesystem::path &path) {
  const RegularFile in = RegularFile::open(path);
  std::array<std::byte, k_session_start_bytes> first{};
  const auto head = std::span(first).first(std::min(first.size(), in.size_bytes()));
  in.read(head);
  // Before memory is taken for a large file of another kind.
  check_session_start(in.path(), head, in.size_bytes());
  LoadedSession loaded{.bytes = HostBytes(in.size_bytes()), .file = {}};
  std::ranges::copy(head, loaded.bytes.bytes().begin());
  in.read(loaded.bytes.bytes().subspan(head.size()));
  loaded.file = decode_session(in.path(), loaded.bytes.bytes());
  return loaded;
}

void check_session(const std::string &path, const SessionFile &file, const SessionTarget &target,
                   std::span<const std::shared_ptr<const Adapter>> adapters) {
  expect_equal(path, "digest of the model", hex(target.model), hex(file.model));
  check_geometry(path, file.geometry, target.geometry);
  const auto out_of_range = std::ranges::find_if(file.tokens, [&](int32_t token) {
    return token < 0 || static_cast<uint32_t>(token) >= target.n_vocab;
  });
  if (out_of_range != file.tokens.end()) {
    throw LoadError({.path = path,
                     .item = "tokens",
                     .problem = "are not all in the vocabulary",
                     .wanted = fmt::format("from 0 to {}", target.n_vocab - 1),
                     .found = fmt::format("{}", *out_of_range)});
  }
  for (const auto &span : file.spans) {
    for (const auto &worn : span.adapters) check_adapter(path, worn, adapters);
  }
}

}  // namespace patchbay
