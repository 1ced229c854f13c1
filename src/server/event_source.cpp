#include "server/event_source.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <utility>

namespace patchbay {
namespace {

constexpr auto k_token = asio::as_tuple(asio::use_awaitable);

}  // namespace

/// What wakes the coroutine that waits; outlives it, as the engine and the watch may ring later. A
/// timer that is cancelled is the signal: Asio's channels lose messages.
struct EventSource::Bell {
  explicit Bell(const asio::any_io_executor &strand) : timer(strand) {}

  // On the strand.
  void ring() { timer.cancel(); }

  asio::steady_timer timer;
  bool rung = false;  ///< since the last look
  bool gone = false;
};

EventSource::EventSource(const asio::any_io_executor &strand, std::shared_ptr<ByteStream> stream)
    : bell_(std::make_shared<Bell>(strand)) {
  // The stream goes with the coroutine: bytes of a next request wake it late.
  const auto watch = [](std::shared_ptr<ByteStream> watched,
                        std::weak_ptr<Bell> bell) -> asio::awaitable<void> {
    const bool is_gone = co_await watched->wait_for_close();
    const auto alive = bell.lock();
    if (!is_gone || alive == nullptr) co_return;
    alive->gone = true;
    alive->ring();
  };
  asio::co_spawn(strand, watch(std::move(stream), bell_), asio::detached);
}

EventSource::~EventSource() = default;

std::optional<Error> EventSource::submit(Engine &engine, Request request) {
  request.on_events = [bell = std::weak_ptr(bell_)] {
    const auto alive = bell.lock();
    if (alive == nullptr) return;
    asio::post(alive->timer.get_executor(), [alive] {
      alive->rung = true;
      alive->ring();
    });
  };
  auto submitted = engine.submit(std::move(request));
  if (auto *error = std::get_if<Error>(&submitted)) return std::move(*error);
  handle_ = std::make_unique<RequestHandle>(std::get<RequestHandle>(std::move(submitted)));
  return std::nullopt;
}

asio::awaitable<EventSource::Woken> EventSource::wait(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (bell_->gone) co_return Woken::gone;
    bell_->rung = false;
    next_ = handle_->try_next();
    if (next_) co_return Woken::event;
    if (std::chrono::steady_clock::now() >= deadline) co_return Woken::quiet;
    bell_->timer.expires_at(deadline);
    // What rang before the timer was set has rung in vain.
    if (!bell_->rung) (void)co_await bell_->timer.async_wait(k_token);
  }
}

Event EventSource::take() {
  assert(next_);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): wait() has said that it is there
  return *std::exchange(next_, std::nullopt);
}

}  // namespace patchbay
