#include "server/slot_files.h"
#include "base/regular_file.h"
#include "engine/session_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace patchbay {
namespace {

constexpr size_t k_most_name_bytes = 255;  // of what file systems take

/// A name in the folder itself, visible there.
bool is_file_name(const std::string &name) {
  const auto is_wrong = [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  };
  return !name.empty() && name.size() <= k_most_name_bytes && name.front() != '.' &&
         std::ranges::none_of(name, is_wrong);
}

/// Nothing else in the folder is ever replaced: it may be that of the models.
Expected<void> check_may_be_written(const std::filesystem::path &path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {};
  std::string begin(k_session_magic.size(), '\0');
  try {
    RegularFile::open(path).read(std::as_writable_bytes(std::span(begin)));
  } catch (const LoadError &) {
    begin.clear();  // shorter, or no file
  }
  if (begin == k_session_magic) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("filename: '{}' is there and no saved session", path.filename().string()));
}

template <class T>
Expected<T> expected(std::variant<T, Error> result) {
  if (auto *error = std::get_if<Error>(&result)) return tl::unexpected(std::move(*error));
  return std::get<T>(std::move(result));
}

Expected<SavedSession> save_now(Engine &engine, const std::filesystem::path &path,
                                const SessionTokens &tokens) {
  const auto checked = check_may_be_written(path);
  if (!checked) return tl::unexpected(checked.error());
  return expected(engine.save_session(path, tokens));
}

}  // namespace

SlotFiles::SlotFiles(Engine &engine, std::filesystem::path folder)
    : engine_(engine), folder_(std::move(folder)) {
  std::error_code ignored;
  if (is_on() && !std::filesystem::is_directory(folder_, ignored))
    throw LoadError({.path = folder_.string(), .problem = "is no folder for slots to be saved in"});
}

Expected<std::filesystem::path> SlotFiles::place_of(const std::string &name) const {
  if (!is_on()) {
    return fail(ErrorCode::permission_denied,
                "slots are not saved: the server was started without --slot-save-path");
  }
  if (!is_file_name(name))
    return fail(ErrorCode::invalid_argument, "filename: wanted a name without a path");
  return folder_ / name;
}

asio::awaitable<Expected<SavedSession>> SlotFiles::save(std::string name, SessionTokens tokens) {
  const auto place = place_of(name);
  if (!place) co_return tl::unexpected(place.error());
  const auto on_thread = [](Engine &engine, std::filesystem::path path,
                            SessionTokens wanted) -> asio::awaitable<Expected<SavedSession>> {
    co_return save_now(engine, path, wanted);
  };
  auto task = on_thread(engine_, *place, std::move(tokens));
  co_return co_await asio::co_spawn(pool_, std::move(task), asio::use_awaitable);
}

asio::awaitable<Expected<RestoredSession>> SlotFiles::restore(std::string name,
                                                              RestoreOptions options) {
  const auto place = place_of(name);
  if (!place) co_return tl::unexpected(place.error());
  const auto on_thread = [](Engine &engine, std::filesystem::path path,
                            RestoreOptions wanted) -> asio::awaitable<Expected<RestoredSession>> {
    co_return expected(engine.restore_session(path, wanted));
  };
  auto task = on_thread(engine_, *place, std::move(options));
  co_return co_await asio::co_spawn(pool_, std::move(task), asio::use_awaitable);
}

}  // namespace patchbay
