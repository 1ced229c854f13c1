#pragma once

#include "server/generate.h"

namespace patchbay {

/// A request in the dialect of Text Generation Inference and LoRAX: {"inputs", "parameters"}.
/// `streams`: the route is one that streams.
[[nodiscard]] DialectRequest read_tgi(JsonFields &fields, const Service &service, bool streams);

}  // namespace patchbay
