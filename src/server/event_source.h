#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>

#include "patchbay/engine.hpp"
#include "server/byte_stream.h"

namespace patchbay {

/// The events of one request, awaited on a connection's strand, and whether the peer is still
/// there. When the object goes, the request is cancelled.
class EventSource {
 public:
  /// Watches `stream` from now on.
  EventSource(const asio::any_io_executor &strand, std::shared_ptr<ByteStream> stream);
  ~EventSource();
  EventSource(const EventSource &) = delete;
  EventSource &operator=(const EventSource &) = delete;

  /// Submits; the engine's words come to next().
  [[nodiscard]] std::optional<Error> submit(Engine &engine, Request request);

  /// What happened first.
  enum class Woken {
    event,  ///< take() has it
    quiet,  ///< nothing for that long
    gone,   ///< the peer
  };
  [[nodiscard]] asio::awaitable<Woken> wait(std::chrono::milliseconds limit);
  /// The event that wait() spoke of.
  [[nodiscard]] Event take();

 private:
  struct Bell;

  std::shared_ptr<Bell> bell_;
  std::unique_ptr<RequestHandle> handle_;  // once submitted
  std::optional<Event> next_;
};

}  // namespace patchbay
