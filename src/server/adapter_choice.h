#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/auth.h"
#include "server/json_fields.h"
#include "server/service.h"
#include "server/worn_adapters.h"

namespace patchbay {

/// One element of the field `lora`.
struct ListedAdapter {
  std::optional<int64_t> id;  ///< or else:
  std::string name;
  std::optional<float> strength;  ///< none: the adapter's own
};

/// What a request says about adapters, in any dialect.
struct AdapterWish {
  std::optional<std::string> model;  ///< base or adapter
  std::optional<std::vector<ListedAdapter>> lora;
  std::string adapter_field{};           ///< a dialect's own field, for messages
  std::optional<std::string> adapter{};  ///< what that one names
};

/// The fields `model` and `lora`, and those of read_adapter_names().
[[nodiscard]] AdapterWish read_adapter_wish(JsonFields &fields);
/// What dialects call an adapter's name besides: `adapter_id` (LoRAX), `lora_path` (SGLang),
/// `lora_request.lora_name` (TensorRT-LLM). Names only, never a path to open.
void read_adapter_names(JsonFields &fields, AdapterWish &wish);

/// What the request wears; `error` instead when the wish cannot be met: not_found (`model` names
/// nothing), invalid_argument, permission_denied, which comes before the others. Loads an adapter
/// on first use.
struct AdapterChoice {
  std::vector<WornEntry> worn;
  std::string model;  ///< as answers call it
  std::optional<ApiError> error;
};
[[nodiscard]] asio::awaitable<AdapterChoice> choose_adapters(Service &service, Principal principal,
                                                             AdapterWish wish);

}  // namespace patchbay
