#pragma once

#include "server/generate.h"

namespace patchbay {

/// A request in SGLang's dialect: {"text" or "input_ids", "sampling_params"}. `streams`: the route
/// is one that streams.
[[nodiscard]] DialectRequest read_sglang(JsonFields &fields, const Service &service, bool streams);

}  // namespace patchbay
