#include "lora/digest.h"

namespace patchbay {
namespace {

void add(Sha256 &hash, const Factor &factor) {
  hash.value(static_cast<int32_t>(factor.type));
  for (const int64_t n : factor.ne) hash.value(n);
  hash.bytes(factor.data);
}

}  // namespace

AdapterDigest digest_of(const Adapter &adapter) {
  Sha256 hash;
  for (const auto &pair : adapter.pairs) {
    hash.text(pair.target);
    hash.value(static_cast<int32_t>(pair.kind));
    hash.value(pair.scale);
    add(hash, pair.a);
    add(hash, pair.b);
    add(hash, pair.magnitude);
    add(hash, pair.bias);
  }
  for (const auto &replacement : adapter.replacements) {
    hash.text(replacement.tensor);
    add(hash, replacement.value);
    hash.value(replacement.rows.size());
    hash.bytes(std::as_bytes(std::span(replacement.rows)));
  }
  hash.value(adapter.invocation_tokens.size());
  hash.bytes(std::as_bytes(std::span(adapter.invocation_tokens)));
  return hash.finish();
}

}  // namespace patchbay
