#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include "lora/adapter_registry.h"
#include "patchbay/model.hpp"
#include "server/adapter_files.h"
#include "server/histogram.h"

namespace patchbay {

namespace asio = boost::asio;

/// Loads adapters while the server runs, on a thread of its own, one after the other: a second wish
/// for the same one finds it loaded. Any thread.
class AdapterLoader {
 public:
  /// All outlive the object.
  AdapterLoader(const Model &model, AdapterRegistry &registry, const AdapterFiles &files,
                Histogram &load_seconds)
      : model_(model), registry_(registry), files_(files), load_seconds_(load_seconds) {}
  ~AdapterLoader() { pool_.join(); }
  AdapterLoader(const AdapterLoader &) = delete;
  AdapterLoader &operator=(const AdapterLoader &) = delete;

  struct Wish {
    std::string name;
    std::filesystem::path path;  ///< resolved
    bool replace = false;        ///< an adapter of that name, if there is one
  };
  /// Refused: as the registry and the adapter's reader do, and nothing has changed.
  [[nodiscard]] asio::awaitable<Expected<RegisteredAdapter>> load(Wish wish);
  /// The same in the calling thread. REQUIRES: nobody else uses the loader yet.
  [[nodiscard]] Expected<RegisteredAdapter> load_now(const Wish &wish);

  /// The adapter of that name, loaded from the folders when it is not there yet. A miss is
  /// remembered for a second. Refused: not_found, or what is wrong with its files.
  [[nodiscard]] asio::awaitable<Expected<RegisteredAdapter>> find_or_load(std::string name);

 private:
  [[nodiscard]] Expected<RegisteredAdapter> find_or_load_now(const std::string &name);

  const Model &model_;
  AdapterRegistry &registry_;
  const AdapterFiles &files_;
  Histogram &load_seconds_;
  std::map<std::string, std::chrono::steady_clock::time_point> misses_;  // the thread's
  asio::thread_pool pool_{1};
};

}  // namespace patchbay
