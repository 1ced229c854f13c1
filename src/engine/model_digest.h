#pragma once

#include <mutex>

#include "base/xxh128.h"
#include "gguf/gguf_file.h"

namespace patchbay {

/// Over all bytes of a model's files, shard by shard: the metadata, with the hyper-parameters, and
/// the weights. Reads the whole of it: 10 GB in a second or more.
[[nodiscard]] Xxh128Digest digest_of(const GgufFile &file);

/// The same, computed when it is first asked for. Any thread.
class ModelDigest {
 public:
  [[nodiscard]] const Xxh128Digest &of(const GgufFile &file) const {
    std::call_once(once_, [&] { digest_ = digest_of(file); });
    return digest_;
  }

 private:
  mutable std::once_flag once_;
  mutable Xxh128Digest digest_{};
};

}  // namespace patchbay
