#pragma once

#include <ggml-cpu.h>

#include <memory>

namespace patchbay {

struct ThreadpoolDeleter {
  void operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }
};

/// Owns a pool of ggml's compute threads; ggml-cpp.h has no handle for it. Destroying it ends and
/// joins the threads.
using threadpool_ptr = std::unique_ptr<ggml_threadpool, ThreadpoolDeleter>;

}  // namespace patchbay
