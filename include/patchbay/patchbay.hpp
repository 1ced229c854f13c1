#pragma once

// Everything: patchbay::Model (a GGUF base and the adapters that fit it), patchbay::Engine (many
// requests at once over it) and patchbay::Session (one answer after the other).

#include "patchbay/engine.hpp"
#include "patchbay/error.hpp"
#include "patchbay/model.hpp"
#include "patchbay/request.hpp"
#include "patchbay/sampling.hpp"
#include "patchbay/session.hpp"
