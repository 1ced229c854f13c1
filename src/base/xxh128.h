#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace patchbay {

/// In canonical, big-endian order.
using Xxh128Digest = std::array<unsigned char, 16>;

/// XXH3-128 (github.com/Cyan4973/xxHash) over bytes that come piece by piece. Fast; tells apart
/// what differs by accident, not what somebody made to be alike.
class Xxh128 {
 public:
  /// Throws std::bad_alloc.
  Xxh128();

  void add(std::span<const std::byte> bytes);
  [[nodiscard]] Xxh128Digest digest() const;

 private:
  struct Deleter {
    void operator()(XXH3_state_s *state) const;
  };
  std::unique_ptr<XXH3_state_s, Deleter> state_;
};

}  // namespace patchbay
