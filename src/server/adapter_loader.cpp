#include "server/adapter_loader.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>

#include "server/open_adapter.h"

namespace patchbay {
namespace {

constexpr std::chrono::seconds k_miss_lasts{1};
constexpr size_t k_most_misses = 1024;

}  // namespace

asio::awaitable<Expected<RegisteredAdapter>> AdapterLoader::load(Wish wish) {
  const auto on_thread = [](AdapterLoader *self,
                            Wish wanted) -> asio::awaitable<Expected<RegisteredAdapter>> {
    co_return self->load_now(wanted);
  };
  auto task = on_thread(this, std::move(wish));
  co_return co_await asio::co_spawn(pool_, std::move(task), asio::use_awaitable);
}

asio::awaitable<Expected<RegisteredAdapter>> AdapterLoader::find_or_load(std::string name) {
  if (auto found = registry_.find(name)) co_return std::move(*found);
  const auto on_thread = [](AdapterLoader *self,
                            std::string wanted) -> asio::awaitable<Expected<RegisteredAdapter>> {
    co_return self->find_or_load_now(wanted);
  };
  auto task = on_thread(this, std::move(name));
  co_return co_await asio::co_spawn(pool_, std::move(task), asio::use_awaitable);
}

Expected<RegisteredAdapter> AdapterLoader::load_now(const Wish &wish) {
  if (!wish.replace && registry_.find(wish.name)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the adapter '{}' has already been loaded", wish.name));
  }
  try {
    const auto begin = std::chrono::steady_clock::now();
    RegisteredAdapter entry = open_adapter(model_, wish.name, wish.path);
    load_seconds_.observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    misses_.erase(wish.name);
    return wish.replace ? registry_.replace(std::move(entry)) : registry_.add(std::move(entry));
  } catch (const LoadError &error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc &) {
    return fail(ErrorCode::out_of_memory,
                fmt::format("not enough memory for the adapter '{}'", wish.name));
  }
}

Expected<RegisteredAdapter> AdapterLoader::find_or_load_now(const std::string &name) {
  if (auto found = registry_.find(name)) return std::move(*found);
  const auto now = std::chrono::steady_clock::now();
  const auto missed = misses_.find(name);
  const bool missed_lately = missed != misses_.end() && now - missed->second < k_miss_lasts;
  if (missed_lately)
    return fail(ErrorCode::not_found, fmt::format("there is no adapter '{}'", name));
  const auto path = files_.find(name);
  if (path) return load_now({.name = name, .path = *path});
  if (misses_.size() >= k_most_misses) misses_.clear();
  misses_[name] = now;
  return tl::unexpected(path.error());
}

}  // namespace patchbay
