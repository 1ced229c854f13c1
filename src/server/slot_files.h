#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "patchbay/engine.hpp"

namespace patchbay {

namespace asio = boost::asio;

/// Sessions (docs/sessions.md) in the files of one folder, by name, written and read on a thread of
/// its own. Any thread.
class SlotFiles {
 public:
  /// `engine` outlives the object. Without a folder everything is refused with permission_denied.
  /// Throws LoadError: the folder is none.
  SlotFiles(Engine &engine, std::filesystem::path folder);
  ~SlotFiles() { pool_.join(); }
  SlotFiles(const SlotFiles &) = delete;
  SlotFiles &operator=(const SlotFiles &) = delete;

  [[nodiscard]] bool is_on() const { return !folder_.empty(); }

  /// As Engine::save_session() and restore_session(). Refused besides: invalid_argument, the name
  /// is none of a file in the folder, or a file of that name is no session.
  [[nodiscard]] asio::awaitable<Expected<SavedSession>> save(std::string name,
                                                             SessionTokens tokens);
  [[nodiscard]] asio::awaitable<Expected<RestoredSession>> restore(std::string name,
                                                                   RestoreOptions options);

 private:
  [[nodiscard]] Expected<std::filesystem::path> place_of(const std::string &name) const;

  Engine &engine_;
  std::filesystem::path folder_;
  asio::thread_pool pool_{1};
};

}  // namespace patchbay
