#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "server/json_fields.h"
#include "server/service.h"

namespace patchbay {

/// What the dialects that load and unload adapters have in common: they only spell it differently.
struct LoadWish {
  std::string name;
  std::string path;      ///< as the request has it
  bool replace = false;  ///< an adapter of that name
};

/// Loads under the rules of AdapterFiles and the registry. Refused as well: the name is the base's.
[[nodiscard]] asio::awaitable<Expected<RegisteredAdapter>> load_adapter_of(Service &service,
                                                                           LoadWish wish);

/// The name means nothing from now on; who wears the adapter keeps it to the end.
[[nodiscard]] Expected<RegisteredAdapter> unload_adapter_of(Service &service,
                                                            const std::string &name);

}  // namespace patchbay
