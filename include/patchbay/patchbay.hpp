#pragma once

// Everything: patchbay::Model (a GGUF base and the adapters that fit it) and patchbay::Session
// (text from it).

#include "patchbay/error.hpp"
#include "patchbay/model.hpp"
#include "patchbay/sampling.hpp"
#include "patchbay/session.hpp"
