#include "patchbay/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/log.h"
#include "engine/call_queue.h"
#include "engine/compute_options.h"
#include "engine/engine_core.h"
#include "engine/event_queue.h"
#include "engine/inbox.h"
#include "engine/notifier.h"
#include "engine/packed_cache.h"
#include "engine/request_checks.h"
#include "engine/request_grammar.h"
#include "engine/session_store.h"

namespace patchbay {
namespace {

// Beyond any use.
constexpr uint32_t k_max_ubatch = 1U << 16U;
constexpr uint32_t k_max_seqs = 1U << 12U;
// So far apart, a counter of one tenant still notes each token of another.
constexpr double k_least_weight = 0.001;
constexpr double k_most_weight = 1000;

void check(const EngineOptions &options) {
  const auto refuse = [](const std::string &field, const std::string &wanted, auto found) {
    throw std::invalid_argument(fmt::format("{} must be {}, found {}", field, wanted, found));
  };
  if (options.n_ctx > k_max_kv_tokens)
    refuse("n_ctx", fmt::format("at most {}", k_max_kv_tokens), options.n_ctx);
  if (options.n_ubatch < 1 || options.n_ubatch > k_max_ubatch)
    refuse("n_ubatch", fmt::format("from 1 to {}", k_max_ubatch), options.n_ubatch);
  if (options.n_ctx > 0 && options.kv_memory_bytes > 0)
    throw std::invalid_argument("n_ctx and kv_memory_bytes both say how large the KV cache is");
  if (options.n_seqs_max < 1 || options.n_seqs_max > k_max_seqs)
    refuse("n_seqs_max", fmt::format("from 1 to {}", k_max_seqs), options.n_seqs_max);
  if (options.n_queue_max < 1) refuse("n_queue_max", "at least 1", options.n_queue_max);
  if (!(options.prefill_share > 0 && options.prefill_share <= 1))
    refuse("prefill_share", "above 0 and at most 1", options.prefill_share);
  for (const auto &[tenant, weight] : options.tenant_weights) {
    if (!(weight >= k_least_weight && weight <= k_most_weight))
      refuse(fmt::format("the weight of tenant '{}'", tenant),
             fmt::format("from {} to {}", k_least_weight, k_most_weight), weight);
  }
}

EngineCore::Limits limits_of(const EngineOptions &options, const Executor &executor) {
  const float n_prefill = options.prefill_share * static_cast<float>(options.n_ubatch);
  return {.n_ctx = std::min(executor.n_ctx(), executor.model().hparams().n_ctx_train),
          .n_ubatch = options.n_ubatch,
          .n_prefill_beside = std::max(1U, static_cast<uint32_t>(n_prefill)),
          .n_seqs_max = std::min(options.n_seqs_max, options.n_ubatch),
          .n_queue_max = options.n_queue_max,
          .adapter_bytes = options.adapter_memory_bytes,
          .keep_prefixes = options.prefix_cache,
          .admission = {.tenant_weights = options.tenant_weights,
                        .aging = std::chrono::milliseconds(options.aging_ms)}};
}

LoadError shutting_down() {
  return LoadError({.problem = "the engine is shutting down", .code = ErrorCode::unavailable});
}

/// What `work` returns, or the error that it throws.
template <class Work>
std::variant<std::invoke_result_t<Work>, Error> or_error(const Work &work) {
  try {
    return work();
  } catch (const LoadError &error) {
    return Error{error.code(), error.what()};
  } catch (const std::bad_alloc &) {
    return Error{ErrorCode::out_of_memory, "not enough memory for the session's blocks"};
  }
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const std::shared_ptr<const Model> &model, const EngineOptions &options)
      : Impl(model, options,
             std::make_unique<Executor>(model->loaded(), executor_options(options, *model))) {}

  ~Impl() {
    inbox_->close();
    thread_.join();
    // Its last calls may still ask the engine something.
    notifier_.stop();
  }
  Impl(const Impl &) = delete;
  Impl &operator=(const Impl &) = delete;

  std::variant<RequestHandle, Error> submit(Request request);
  SavedSession save_session(const std::filesystem::path &path, SessionTokens tokens);
  RestoredSession restore_session(const std::filesystem::path &path, const RestoreOptions &options);

  [[nodiscard]] EngineStats stats() const {
    EngineStats stats = [this] {
      const std::lock_guard lock(stats_mutex_);
      return stats_;
    }();
    stats.residency.load_ms += packed_cache_.packed_ms();
    return stats;
  }
  [[nodiscard]] uint32_t n_ctx() const { return limits_.n_ctx; }

 private:
  Impl(std::shared_ptr<const Model> model, const EngineOptions &options,
       std::unique_ptr<Executor> executor)
      : model_(std::move(model)),
        limits_(limits_of(options, *executor)),
        geometry_(executor->kv_geometry()),
        reads_packed_(executor->reads_packed()),
        grammars_(model_->loaded()),
        inbox_(std::make_shared<Inbox>(options.n_queue_max)),
        core_(std::move(executor), limits_,
              {.notify = [this](const auto &events) { due_.push_back(events); },
               .left_queue = [this](const auto &request) { inbox_->left_queue(request); }}),
        stats_(core_.stats()),
        thread_([this] { run(); }) {}

  [[nodiscard]] std::map<const Adapter *, std::shared_ptr<const PackedAdapter>> pack(
      const Request &request);
  [[nodiscard]] SessionTarget session_target() const;
  template <class Work>
  std::invoke_result_t<Work, Executor &> between_steps(const Work &work);
  void run();
  void step();

  std::shared_ptr<const Model> model_;
  EngineCore::Limits limits_;
  KvGeometry geometry_;
  const bool reads_packed_;
  PackedCache packed_cache_;
  GrammarCache grammars_;
  std::shared_ptr<Inbox> inbox_;
  CallQueue calls_;
  Notifier notifier_;
  // The engine thread's: whom the notifier is to call, all of a step at once, as each time that it
  // wakes takes time from the computation.
  std::vector<std::shared_ptr<EventQueue>> due_;
  EngineCore core_;  // the engine thread's, once that runs
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  bool idle_ = true;    // the engine thread's
  std::thread thread_;  // last: it uses the others
};

std::variant<RequestHandle, Error> Engine::Impl::submit(Request request) {
  const RequestBounds bounds{
      .n_vocab = model_->n_vocab(), .n_ctx = limits_.n_ctx, .n_seqs_max = limits_.n_seqs_max};
  if (auto checked = check_request(request, bounds); !checked) return checked.error();
  auto masks = grammars_.get(request);
  if (!masks) return masks.error();
  auto events = std::make_shared<EventQueue>(std::move(request.on_events));
  auto job = std::make_shared<Job>();
  try {
    job->packed = pack(request);
  } catch (const LoadError &error) {
    return Error{error.code(), error.what()};
  }
  job->request = std::move(request);
  job->masks = *std::move(masks);
  job->events = events;
  switch (inbox_->put(std::move(job))) {
    case Inbox::Put::full:
      return Error{ErrorCode::queue_full, "the queue is full: try again later"};
    case Inbox::Put::closed:
      return Error{ErrorCode::unavailable, "the engine is shutting down"};
    case Inbox::Put::taken:
      break;
  }
  return RequestHandle(std::move(events), inbox_);
}

std::map<const Adapter *, std::shared_ptr<const PackedAdapter>> Engine::Impl::pack(
    const Request &request) {
  std::map<const Adapter *, std::shared_ptr<const PackedAdapter>> packed;
  if (!reads_packed_) return packed;
  for (const auto &span : request.spans) {
    for (const auto &[adapter, strength] : span.adapters) {
      if (strength != 0) packed[adapter.get()] = packed_cache_.get(adapter);
    }
  }
  return packed;
}

SessionTarget Engine::Impl::session_target() const {
  const LoadedModel &model = *model_->loaded();
  return {
      .model = model.digest.of(*model.file), .geometry = geometry_, .n_vocab = model_->n_vocab()};
}

/// Has the engine thread do it, and waits. Throws what it throws, and LoadError when the engine is
/// shutting down.
template <class Work>
std::invoke_result_t<Work, Executor &> Engine::Impl::between_steps(const Work &work) {
  auto call = std::make_shared<std::packaged_task<std::invoke_result_t<Work, Executor &>()>>(
      [this, &work] { return work(core_.executor()); });
  auto result = call->get_future();
  // The queue alone holds it, so that the result says when the call is dropped.
  if (!calls_.post([call = std::move(call)] { (*call)(); })) throw shutting_down();
  inbox_->wake();
  try {
    return result.get();
  } catch (const std::future_error &) {
    throw shutting_down();
  }
}

SavedSession Engine::Impl::save_session(const std::filesystem::path &path, SessionTokens tokens) {
  // The last token of an answer may be one that the context had no room for.
  if (tokens.tokens.size() > limits_.n_ctx) tokens.tokens.resize(limits_.n_ctx);
  const RequestBounds bounds{
      .n_vocab = model_->n_vocab(), .n_ctx = limits_.n_ctx, .n_seqs_max = limits_.n_seqs_max};
  const Request request{.prompt = tokens.tokens, .spans = tokens.spans};
  if (auto checked = check_request(request, bounds); !checked)
    throw LoadError({.problem = checked.error().message, .code = checked.error().code});
  const SessionTarget target = session_target();
  const HeldSession held =
      between_steps([&](const Executor &executor) { return collect_session(executor, tokens); });
  if (held.prefix.n_tokens == 0) {
    throw LoadError(
        {.path = path.string(),
         .problem = limits_.keep_prefixes
                        ? "is not written: the prefix cache holds nothing of these tokens"
                        : "is not written: the prefix cache is off",
         .code = ErrorCode::not_found});
  }
  return {.n_tokens = held.prefix.n_tokens,
          .size_bytes = write_session(path, session_of(target, tokens, held))};
}

RestoredSession Engine::Impl::restore_session(const std::filesystem::path &path,
                                              const RestoreOptions &options) {
  if (!limits_.keep_prefixes)
    throw LoadError({.path = path.string(), .problem = "is of no use: the prefix cache is off"});
  const LoadedSession session = read_session(path);
  check_session(path.string(), session.file, session_target(), options.adapters);
  const std::vector<WornFrom> worn = worn_of(session.file);
  const uint32_t n_tokens = between_steps([&](Executor &executor) {
    return executor.load(options.tenant, {session.file.tokens, worn}, session.file.blocks);
  });
  return {.n_tokens = n_tokens,
          .n_tokens_all = static_cast<uint32_t>(session.file.tokens.size()),
          .size_bytes = session.bytes.bytes().size()};
}

void Engine::Impl::run() {
  while (!inbox_->closed()) {
    try {
      step();
    } catch (const std::exception &error) {
      // Out of memory, most likely; what was in the making cannot be trusted any more.
      log().error("the engine gives up all requests: {}", error.what());
      core_.end_all({ErrorCode::internal, error.what()});
      notifier_.post(due_);
    }
  }
  calls_.close();
  for (auto &job : inbox_->take(false)) core_.enqueue(std::move(job));
  core_.end_all({ErrorCode::cancelled, "the engine is shutting down"});
  notifier_.post(due_);
}

void Engine::Impl::step() {
  for (auto &job : inbox_->take(/*wait=*/idle_)) core_.enqueue(std::move(job));
  for (const auto &call : calls_.take()) call();
  idle_ = !core_.step();
  notifier_.post(due_);
  const std::lock_guard lock(stats_mutex_);
  core_.publish(stats_);
}

RequestHandle::RequestHandle(std::shared_ptr<EventQueue> events, std::shared_ptr<Inbox> inbox)
    : events_(std::move(events)), inbox_(std::move(inbox)) {}
RequestHandle::RequestHandle(RequestHandle &&) noexcept = default;

RequestHandle &RequestHandle::operator=(RequestHandle &&other) noexcept {
  if (this != &other) {
    RequestHandle old(std::move(*this));
    events_ = std::move(other.events_);
    inbox_ = std::move(other.inbox_);
  }
  return *this;
}

RequestHandle::~RequestHandle() {
  if (events_ == nullptr) return;  // moved from
  cancel();
  events_->disarm();
}

std::optional<Event> RequestHandle::next() {
  return events_ == nullptr ? std::nullopt : events_->next();
}

std::optional<Event> RequestHandle::try_next() {
  return events_ == nullptr ? std::nullopt : events_->try_next();
}

void RequestHandle::cancel() {
  if (events_ == nullptr) return;  // moved from
  events_->cancel();
  inbox_->wake();
}

Engine::Engine(const std::shared_ptr<const Model> &model, const EngineOptions &options) {
  check(options);
  if (model == nullptr) throw std::invalid_argument("the model is null");
  impl_ = std::make_unique<Impl>(model, options);
}
Engine::~Engine() = default;

std::variant<RequestHandle, Error> Engine::submit(Request request) {
  return impl_->submit(std::move(request));
}

std::variant<SavedSession, Error> Engine::save_session(const std::filesystem::path &path,
                                                       const SessionTokens &tokens) {
  return or_error([&] { return impl_->save_session(path, tokens); });
}

std::variant<RestoredSession, Error> Engine::restore_session(const std::filesystem::path &path,
                                                             const RestoreOptions &options) {
  return or_error([&] { return impl_->restore_session(path, options); });
}

EngineStats Engine::stats() const { return impl_->stats(); }

uint32_t Engine::n_ctx() const { return impl_->n_ctx(); }

}  // namespace patchbay
