#pragma once

#include <cstdint>
#include <optional>

#include "server/json_fields.h"
#include "server/service.h"

namespace patchbay {

/// The field id_slot, which is llama-server's and known in all dialects; -1 is none. Errors stay in
/// `fields`.
[[nodiscard]] inline std::optional<uint32_t> read_slot(JsonFields &fields, const Service &service) {
  const auto id = fields.integer("id_slot", -1, static_cast<int64_t>(service.n_seqs_max) - 1);
  return id && *id >= 0 ? std::optional(static_cast<uint32_t>(*id)) : std::nullopt;
}

}  // namespace patchbay
