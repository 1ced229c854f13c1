#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdint>
#include <stdexcept>

namespace patchbay {
namespace {

void check(int ok) {
  if (ok != 1) throw std::runtime_error("OpenSSL has no SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::Deleter::operator()(evp_md_ctx_st *context) const { EVP_MD_CTX_free(context); }

void Sha256::bytes(std::span<const std::byte> part) {
  value(static_cast<uint64_t>(part.size()));
  add(part);
}

void Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
  return digest;
}

}  // namespace patchbay
