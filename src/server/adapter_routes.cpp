#include "server/adapter_routes.h"

#include <fmt/format.h>

#include "base/log.h"

namespace patchbay {

asio::awaitable<Expected<RegisteredAdapter>> load_adapter_of(Service &service, LoadWish wish) {
  const auto refuse = [](ErrorCode code, std::string message) {
    return Expected<RegisteredAdapter>(tl::unexpected(Error{code, std::move(message)}));
  };
  const auto named = check_adapter_name(wish.name);
  if (!named) co_return refuse(named.error().code, named.error().message);
  if (wish.name == service.model_id) {
    co_return refuse(ErrorCode::invalid_argument,
                     fmt::format("'{}' is the name of the base model", wish.name));
  }
  const auto path = service.files.resolve(wish.path);
  if (!path) co_return refuse(path.error().code, path.error().message);
  AdapterLoader::Wish load;
  load.name = std::move(wish.name);
  load.path = *path;
  load.replace = wish.replace;
  auto loaded = co_await service.loader.load(std::move(load));
  if (loaded) log().info("adapter '{}' is loaded from {}", loaded->name, loaded->path);
  co_return loaded;
}

Expected<RegisteredAdapter> unload_adapter_of(Service &service, const std::string &name) {
  auto removed = service.registry.remove(name);
  if (removed) log().info("adapter '{}' is unloaded", name);
  return removed;
}

}  // namespace patchbay
