#include "lora/digest.h"

#include <openssl/evp.h>

#include <memory>
#include <stdexcept>

namespace patchbay {
namespace {

/// Each part goes in with its length before it, so that no two lists of parts run together to the
/// same bytes.
class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new()) {
    check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }

  void bytes(std::span<const std::byte> part) {
    value(static_cast<uint64_t>(part.size()));
    check(EVP_DigestUpdate(context_.get(), part.data(), part.size()));
  }
  void text(std::string_view part) { bytes(std::as_bytes(std::span(part))); }
  template <class T>
  void value(const T &number) {
    check(EVP_DigestUpdate(context_.get(), &number, sizeof number));
  }
  [[nodiscard]] AdapterDigest finish() {
    AdapterDigest digest{};
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
    return digest;
  }

 private:
  static void check(int ok) {
    if (ok != 1) throw std::runtime_error("OpenSSL has no SHA-256");
  }

  struct Deleter {
    void operator()(EVP_MD_CTX *context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Deleter> context_;
};

void add(Hasher &hasher, const Factor &factor) {
  hasher.value(static_cast<int32_t>(factor.type));
  for (const int64_t n : factor.ne) hasher.value(n);
  hasher.bytes(factor.data);
}

}  // namespace

AdapterDigest digest_of(const Adapter &adapter) {
  Hasher hasher;
  for (const auto &pair : adapter.pairs) {
    hasher.text(pair.target);
    hasher.value(static_cast<int32_t>(pair.kind));
    hasher.value(pair.scale);
    add(hasher, pair.a);
    add(hasher, pair.b);
  }
  hasher.bytes(std::as_bytes(std::span(adapter.invocation_tokens)));
  return hasher.finish();
}

}  // namespace patchbay
