#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "engine/executor.h"
#include "engine/session_file.h"
#include "kv/host_tier.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// What a session has to agree with before its blocks are of use to an engine.
struct SessionTarget {
  Xxh128Digest model{};
  KvGeometry geometry;
  uint32_t n_vocab = 0;
};

/// What the prefix cache holds of some tokens, as a file would have it. Engine thread; the rest
/// any.
struct HeldSession {
  std::vector<SessionSpan> spans;
  SavedPrefix prefix;
};
/// Throws std::bad_alloc.
[[nodiscard]] HeldSession collect_session(const Executor &executor, const SessionTokens &tokens);

/// As it is to be written, with views of `held`.
[[nodiscard]] SessionFile session_of(const SessionTarget &target, const SessionTokens &tokens,
                                     const HeldSession &held);

/// What the tokens of a session wear.
[[nodiscard]] std::vector<WornFrom> worn_of(const SessionFile &file);

/// Returns the bytes of the file, which is there whole or not at all. Throws LoadError.
size_t write_session(const std::filesystem::path &path, const SessionFile &file);

/// A file in memory: nobody can change it any more.
struct LoadedSession {
  HostBytes bytes;
  SessionFile file;  ///< with views into them
};
/// Throws LoadError, and std::bad_alloc.
[[nodiscard]] LoadedSession read_session(const std::filesystem::path &path);

/// Throws LoadError, naming the field, when the session is of another model or cache, or an adapter
/// of a name that it knows has other content.
void check_session(const std::string &path, const SessionFile &file, const SessionTarget &target,
                   std::span<const std::shared_ptr<const Adapter>> adapters);

}  // namespace patchbay
