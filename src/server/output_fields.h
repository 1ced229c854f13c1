#pragma once

#include "patchbay/request.hpp"
#include "server/json_fields.h"

namespace patchbay {

/// The fields that say what an answer has to be of: OpenAI's response_format, llama-server's
/// grammar and json_schema; at most one of them. Errors stay in `fields`.
void read_output_form(JsonFields &fields, Request &request);

}  // namespace patchbay
