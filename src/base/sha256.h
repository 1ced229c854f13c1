#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

struct evp_md_ctx_st;

namespace patchbay {

using Sha256Digest = std::array<unsigned char, 32>;

/// SHA-256 (FIPS 180-4) over a list of parts. Each goes in with its length before it, so that no
/// two lists run together to the same bytes. Throws std::runtime_error when OpenSSL has no SHA-256.
class Sha256 {
 public:
  Sha256();

  void bytes(std::span<const std::byte> part);
  void text(std::string_view part) { bytes(std::as_bytes(std::span(part))); }
  /// A number, of fixed size and therefore without its length.
  template <class T>
  void value(const T &number) {
    add(std::as_bytes(std::span(&number, 1)));
  }
  /// The bytes alone, without their length, as sha256sum takes a file.
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] Sha256Digest finish();

 private:
  struct Deleter {
    void operator()(evp_md_ctx_st *context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Deleter> context_;
};

}  // namespace patchbay
