#include "server/embedding_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <memory>

#include "server/event_source.h"

namespace patchbay {
namespace {

/// Of one wish in the engine at a time: enough to fill steps, and others' requests find room in the
/// queue.
constexpr size_t k_most_at_once = 32;

/// One prompt on its way.
struct Part {
  Part(const asio::any_io_executor &strand, Exchange &exchange, TrafficCounters &counters,
       const std::vector<std::string> &names)
      : source(strand, exchange.stream()), meter(counters, names, RequestMeter::Clock::now()) {}

  EventSource source;
  RequestMeter meter;
  std::vector<float> vector;
};

class EmbeddingRun {
 public:
  EmbeddingRun(Service &service, Exchange &exchange, EmbeddingWish wish)
      : service_(service), exchange_(exchange), wish_(std::move(wish)) {}

  asio::awaitable<Embeddings> run(Principal principal) {
    tenant_ = principal.tenant;
    AdapterWish adapters = std::move(wish_.adapters);
    AdapterChoice choice =
        co_await choose_adapters(service_, std::move(principal), std::move(adapters));
    if (choice.error) co_return failed(std::move(*choice.error));
    answer_.model = choice.model;
    worn_ = std::move(choice.worn);
    const auto strand = co_await asio::this_coro::executor;
    size_t next = 0;
    while (next < wish_.prompts.size() || !parts_.empty()) {
      while (next < wish_.prompts.size() && parts_.size() < n_at_once()) {
        auto refused = begin(strand, std::move(wish_.prompts[next++]));
        if (refused) co_return failed(std::move(*refused));
      }
      auto error = co_await finish_first();
      if (error) co_return failed(std::move(*error));
      if (answer_.is_gone) break;
    }
    note();
    co_return std::move(answer_);
  }

 private:
  [[nodiscard]] size_t n_at_once() const {
    return std::min<size_t>(k_most_at_once, service_.n_seqs_max);
  }

  Embeddings failed(ApiError error) {
    answer_.error = std::move(error);
    return std::move(answer_);
  }

  [[nodiscard]] ApiError error_of(Error error, size_t n_tokens) const {
    ApiError api;
    api.error = std::move(error);
    if (api.error.code == ErrorCode::context_overflow)
      api.context = {static_cast<uint32_t>(n_tokens), service_.engine.n_ctx()};
    return api;
  }

  std::optional<ApiError> begin(const asio::any_io_executor &strand, std::vector<int32_t> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    request.embedding = wish_.pooling;
    request.tenant = tenant_;
    std::vector<WornEntry> worn = worn_;
    wear(worn, request);
    const auto names = acting_names(worn);
    for (const auto &name : names) {
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    }
    const size_t n_tokens = request.prompt.size();
    answer_.n_tokens += static_cast<uint32_t>(n_tokens);
    Part &part =
        *parts_.emplace_back(std::make_unique<Part>(strand, exchange_, service_.traffic, names));
    auto refused = part.source.submit(service_.engine, std::move(request));
    if (!refused) return std::nullopt;
    part.meter.refuse(*refused);
    return error_of(std::move(*refused), n_tokens);
  }

  /// Waits for the prompt that was begun first.
  asio::awaitable<std::optional<ApiError>> finish_first() {
    Part &part = *parts_.front();
    while (true) {
      const auto woken = co_await part.source.wait(service_.stream_ping);
      if (woken == EventSource::Woken::gone) {
        answer_.is_gone = true;
        co_return std::nullopt;
      }
      if (woken == EventSource::Woken::quiet) continue;
      Event event = part.source.take();
      part.meter.note(event);
      if (auto *embedding = std::get_if<EmbeddingEvent>(&event))
        part.vector = std::move(embedding->values);
      if (auto *end = std::get_if<RequestEnd>(&event)) {
        if (end->error) co_return error_of(std::move(*end->error), end->usage.n_tokens_prompt);
        answer_.vectors.push_back(std::move(part.vector));
        parts_.pop_front();
        co_return std::nullopt;
      }
    }
  }

  void note() {
    std::string header;
    for (const auto &name : names_) header += (header.empty() ? "" : ",") + percent_encode(name);
    exchange_.notes().adapters = header;
    exchange_.notes().n_tokens_prompt = answer_.n_tokens;
    if (!header.empty()) exchange_.add_header("x-adapter-id", header);
  }

  Service &service_;
  Exchange &exchange_;
  EmbeddingWish wish_;
  std::string tenant_;
  std::vector<WornEntry> worn_;
  std::vector<std::string> names_;  // that act in some prompt
  std::deque<std::unique_ptr<Part>> parts_;
  Embeddings answer_;
};

}  // namespace

asio::awaitable<Embeddings> embed_prompts(Service &service, Exchange &exchange, Principal principal,
                                          EmbeddingWish wish) {
  EmbeddingRun run(service, exchange, std::move(wish));
  co_return co_await run.run(std::move(principal));
}

Pooling pooling_of(const LoadedModel &model) {
  switch (model.file->get_u64(fmt::format("{}.pooling_type", model.family->name)).value_or(1)) {
    case 0:
      return Pooling::none;
    case 2:
      return Pooling::cls;
    case 3:
      return Pooling::last;
    default:
      return Pooling::mean;
  }
}

}  // namespace patchbay
