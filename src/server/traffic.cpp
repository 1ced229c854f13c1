#include "server/traffic.h"

#include <algorithm>

namespace patchbay {
namespace {

double seconds_between(RequestMeter::Clock::time_point from, RequestMeter::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void raise_to(std::atomic<uint64_t> &highest, uint64_t value) {
  uint64_t known = highest;
  while (known < value && !highest.compare_exchange_weak(known, value)) {
  }
}

}  // namespace

const char *to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::failed:
      return "failed";
    case Outcome::refused:
      return "refused";
    case Outcome::expired:
      return "expired";
    case Outcome::cancelled:
      return "cancelled";
  }
  return "failed";
}

Outcome outcome_of(const Error &error) {
  switch (error.code) {
    case ErrorCode::queue_full:
    case ErrorCode::unavailable:
      return Outcome::refused;
    case ErrorCode::deadline_exceeded:
      return Outcome::expired;
    case ErrorCode::cancelled:
      return Outcome::cancelled;
    default:
      return Outcome::failed;
  }
}

std::shared_ptr<Traffic> TrafficCounters::of(const std::string &name) {
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(name) && entries_.size() >= n_most_) {
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto &entry) { return entry.second.last_used; }));
  }
  Entry &entry = entries_[name];
  if (entry.traffic == nullptr) entry.traffic = std::make_shared<Traffic>();
  entry.last_used = ++n_uses_;
  return entry.traffic;
}

std::shared_ptr<Traffic> TrafficCounters::find(const std::string &name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.traffic;
}

RequestMeter::RequestMeter(TrafficCounters &counters, const std::vector<std::string> &names,
                           Clock::time_point begin)
    : counters_(counters), begin_(begin) {
  for (const auto &name : names) worn_.push_back(counters.of(name));
  if (worn_.empty()) worn_.push_back(counters.of("base"));
}

RequestMeter::~RequestMeter() {
  if (!has_ended_) count(Outcome::cancelled);
}

void RequestMeter::note(const Event &event) {
  if (const auto *token = std::get_if<TokenEvent>(&event)) note_token(token->i_choice);
  if (const auto *last = std::get_if<RequestEnd>(&event)) end(*last);
}

void RequestMeter::note_token(uint32_t i_choice) {
  const auto now = Clock::now();
  const bool is_first = choices_.empty();
  const auto [found, is_first_of_choice] = choices_.try_emplace(i_choice, Choice{now});
  Choice &choice = found->second;
  for (const auto &traffic : worn_) {
    if (is_first) traffic->first_token.observe(seconds_between(begin_, now));
    if (!is_first_of_choice)
      traffic->between_tokens.observe(seconds_between(choice.last_token, now));
  }
  choice.last_token = now;
  ++choice.n_tokens;
}

void RequestMeter::end(const RequestEnd &end) {
  const Usage &usage = end.usage;
  for (const auto &traffic : worn_) {
    traffic->n_tokens_prompt += usage.n_tokens_prompt;
    traffic->n_tokens_cached += usage.n_tokens_cached;
    traffic->n_tokens_out += usage.n_tokens_out;
    traffic->queue.observe(usage.queue_ms / 1e3);
  }
  TrafficCounters::Totals &totals = counters_.totals();
  totals.n_tokens_prompt_computed += usage.n_tokens_prompt - usage.n_tokens_cached;
  totals.n_tokens_cached += usage.n_tokens_cached;
  totals.n_tokens_out += usage.n_tokens_out;
  uint64_t n_longest = 0;
  for (const auto &[i, choice] : choices_) n_longest = std::max(n_longest, choice.n_tokens);
  raise_to(totals.n_tokens_longest, usage.n_tokens_prompt + n_longest);
  totals.prompt_s += usage.prompt_ms / 1e3;
  totals.decode_s += usage.decode_ms / 1e3;
  count(end.error ? outcome_of(*end.error) : Outcome::done);
}

void RequestMeter::count(Outcome outcome) {
  has_ended_ = true;
  for (const auto &traffic : worn_) ++traffic->requests[static_cast<size_t>(outcome)];
}

}  // namespace patchbay
