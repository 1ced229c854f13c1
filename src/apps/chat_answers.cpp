#include "apps/chat_answers.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace patchbay {
namespace {

// A signal wakes nobody who waits for a condition, so somebody has to look.
constexpr std::chrono::milliseconds k_look{50};

/// Rung by the engine, waited for here.
class Doorbell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, k_look, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

struct Running {
  std::optional<RequestHandle> handle{};  ///< none: it is over
  ChatAnswer answer{};
};

/// Takes what is there. Whether the request is over.
bool take_events(RequestHandle &handle, ChatAnswer &answer,
                 const std::function<void(std::string_view)> &on_text) {
  while (auto event = handle.try_next()) {
    const std::string *text = nullptr;
    if (const auto *token = std::get_if<TokenEvent>(&*event)) text = &token->text;
    if (const auto *end = std::get_if<ChoiceEnd>(&*event)) text = &end->text;
    if (text != nullptr && !text->empty()) {
      answer.text += *text;
      on_text(*text);
    }
    if (auto *end = std::get_if<RequestEnd>(&*event)) {
      answer.error = std::move(end->error);
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<ChatAnswer> answer_all(
    Engine &engine, std::vector<Request> requests, Interrupts &interrupts,
    const std::function<void(size_t i_request, std::string_view text)> &on_text) {
  const auto bell = std::make_shared<Doorbell>();
  std::vector<Running> all(requests.size());
  size_t n_open = 0;
  (void)interrupts.take();
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_events = [bell] { bell->ring(); };
    auto submitted = engine.submit(std::move(requests[i]));
    if (auto *error = std::get_if<Error>(&submitted)) {
      all[i].answer.error = std::move(*error);
    } else {
      all[i].handle.emplace(std::get<RequestHandle>(std::move(submitted)));
      ++n_open;
    }
  }
  while (n_open > 0) {
    bell->wait();
    const bool is_enough = interrupts.take();
    for (size_t i = 0; i < all.size(); ++i) {
      Running &running = all[i];
      if (!running.handle) continue;
      if (is_enough) running.handle->cancel();
      const auto tell = [&](std::string_view text) { on_text(i, text); };
      if (!take_events(*running.handle, running.answer, tell)) continue;
      running.handle.reset();
      --n_open;
    }
  }
  std::vector<ChatAnswer> answers;
  for (auto &running : all) answers.push_back(std::move(running.answer));
  return answers;
}

}  // namespace patchbay
