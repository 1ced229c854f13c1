#pragma once

#include <chrono>

#include "server/exchange.h"
#include "server/log_format.h"
#include "server/service.h"

namespace patchbay {

/// Counts an exchange that has ended, and logs one line about it: request id, method, path, status,
/// milliseconds, bytes, and of requests to the model tokens and adapters. Any thread.
void note_exchange(Service &service, LogFormat format, const Exchange &exchange,
                   std::chrono::duration<double> took);

}  // namespace patchbay
