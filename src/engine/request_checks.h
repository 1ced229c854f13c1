#pragma once

#include <cstdint>

#include "base/error.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// What a request must fit into.
struct RequestBounds {
  uint32_t n_vocab = 0;
  uint32_t n_ctx = 0;
  uint32_t n_seqs_max = 0;
};

/// Everything that can be said about a request before it waits: invalid_argument or
/// context_overflow, naming the field, what is wanted and what was found. Any thread.
[[nodiscard]] Expected<void> check_request(const Request &request, const RequestBounds &bounds);

}  // namespace patchbay
