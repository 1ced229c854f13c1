#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/inbox.h"
#include "engine/roster.h"
#include "engine/step_schedule.h"
#include "engine/token_cost.h"

namespace patchbay {

/// Who sends requests, and which.
struct Sender {
  std::string tenant{};
  /// Requests per second, at random times; with `one_at_a_time` that is counted from the end of the
  /// last one.
  double rate = 1;
  bool one_at_a_time = false;
  int64_t n_rank = 0;  ///< of the adapter that they wear; 0: the base
  unsigned char adapter = 1;
  int32_t priority = 0;
  float cached_share = 0;  ///< of their prompts
  double start_s = 0;
};

/// What a sender got and how long it waited.
struct Served {
  double offered = 0;  ///< cost of all that it sent
  double cost = 0;     ///< charged
  uint64_t n_sent = 0;
  uint64_t n_refused = 0;
  uint64_t n_done = 0;
  uint64_t n_tokens_out = 0;
  double worst_wait_s = 0;  ///< until admission; of those that wait at the end until then
};

/// The engine on simulated time: inbox, roster and step schedule are its own, a step takes as long
/// as was measured (docs/decisions/0010-fair-sharing.md), and memory is never short.
class EngineSimulation {
 public:
  static constexpr uint32_t k_n_seats = 8;
  static constexpr int32_t k_most_prompt = 256;
  static constexpr int32_t k_most_out = 64;
  static constexpr size_t k_n_queue = 512;
  static constexpr double k_step_ms = 2.6;
  static constexpr double k_row_ms = 0.48;

  EngineSimulation(std::vector<Sender> senders, AdmissionRules rules = {})
      : senders_(std::move(senders)),
        served_(senders_.size()),
        next_(senders_.size()),
        roster_(k_n_seats, std::move(rules)) {
    for (size_t i = 0; i < senders_.size(); ++i) next_[i] = senders_[i].start_s + wait_of(i);
  }

  /// Runs for so many seconds of its own time.
  const std::vector<Served> &run(double seconds) {
    while (now_s_ < seconds) {
      arrive();
      admit();
      if (answers_.empty()) {
        now_s_ = *std::ranges::min_element(next_);
      } else {
        step();
      }
    }
    for (const auto &job : roster_.queue()) note_wait(*job);
    return served_;
  }

 private:
  struct Answer {
    std::shared_ptr<Sequence> sequence;
    uint32_t n_computed = 0;
    uint32_t n_out = 0;

    [[nodiscard]] Job &job() const { return sequence->job(); }
    [[nodiscard]] uint32_t n_tokens() const {
      return static_cast<uint32_t>(job().request.prompt.size()) + n_out;
    }
    [[nodiscard]] bool ended() const {
      return n_out == static_cast<uint32_t>(job().request.n_predict);
    }
  };

  [[nodiscard]] double uniform() { return static_cast<double>(random_() >> 11U) * 0x1.0p-53; }
  [[nodiscard]] int32_t between(int32_t least, int32_t most) {
    return least + static_cast<int32_t>(uniform() * (most - least + 1));
  }
  [[nodiscard]] double wait_of(size_t i) { return -std::log1p(-uniform()) / senders_[i].rate; }
  [[nodiscard]] Clock::time_point now() const { return time_of(now_s_); }
  [[nodiscard]] static Clock::time_point time_of(double seconds) {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  }
  [[nodiscard]] Served &served(const Job &job) { return served_[sender_of_.at(&job)]; }
  void note_wait(const Job &job) {
    const double waited = std::chrono::duration<double>(now() - job.submitted).count();
    served(job).worst_wait_s = std::max(served(job).worst_wait_s, waited);
  }

  [[nodiscard]] std::shared_ptr<Job> make_job(size_t i) {
    const Sender &sender = senders_[i];
    auto job = std::make_shared<Job>();
    job->request.tenant = sender.tenant;
    job->request.priority = sender.priority;
    job->request.prompt.resize(static_cast<size_t>(between(k_most_prompt / 4, k_most_prompt)), 1);
    job->request.n_predict = between(k_most_out / 4, k_most_out);
    job->submitted = time_of(next_[i]);
    // The last token of a prompt is always computed.
    const auto n_prompt = static_cast<float>(job->request.prompt.size() - 1);
    job->n_cached_estimate = static_cast<uint32_t>(sender.cached_share * n_prompt);
    if (sender.n_rank > 0) {
      auto adapter = std::make_shared<Adapter>();
      adapter->digest = {sender.adapter};
      adapter->pairs.push_back({.n_rank = sender.n_rank});
      job->request.spans = {{0, {{std::move(adapter), 1}}}};
    }
    return job;
  }

  [[nodiscard]] static double cost_of(const Job &job) {
    const auto n_prompt = static_cast<double>(job.request.prompt.size()) - job.n_cached_estimate;
    return adapter_cost_factor(job.request) *
           (n_prompt * k_prompt_token_cost + job.request.n_predict * k_drawn_token_cost);
  }

  void arrive() {
    for (size_t i = 0; i < senders_.size(); ++i) {
      while (next_[i] <= now_s_) send(i);
    }
    for (auto &job : inbox_.take(false)) {
      roster_.enqueue(std::move(job));
      if (roster_.queue().size() <= k_n_queue) continue;
      const auto given_up = roster_.last_of_longest();
      ++served(*given_up).n_refused;
      roster_.leave_queue(given_up);
      inbox_.left_queue(given_up->request);
      close(*given_up);
    }
  }

  void send(size_t i) {
    const auto job = make_job(i);
    served_[i].offered += cost_of(*job);
    ++served_[i].n_sent;
    const bool taken = inbox_.put(job) == Inbox::Put::taken;
    if (taken) sender_of_[job.get()] = i;
    if (!taken) ++served_[i].n_refused;
    next_[i] = taken && senders_[i].one_at_a_time ? INFINITY : next_[i] + wait_of(i);
  }

  void admit() {
    while (roster_.n_free_seats() > 0) {
      const auto job = roster_.next(now()).job;
      if (job == nullptr) return;
      roster_.admit(job, now());
      inbox_.left_queue(job->request);
      note_wait(*job);
      auto sequence = std::make_shared<Sequence>(job, 0, nullptr);
      roster_.seat(sequence);
      answers_.push_back({.sequence = std::move(sequence), .n_computed = job->n_cached_estimate});
      charge(*job, k_prompt_token_cost *
                       static_cast<double>(job->request.prompt.size() - job->n_cached_estimate));
    }
  }

  void step() {
    // In the order in which they are served; here each is admitted once.
    std::vector<SeqProgress> progress;
    for (const auto &answer : answers_) progress.push_back({answer.n_tokens(), answer.n_computed});
    const auto n_tokens = schedule_step(progress, {.n_ubatch = 256, .n_prefill_beside = 128});
    double ms = k_step_ms;
    for (size_t i = 0; i < answers_.size(); ++i)
      ms += k_row_ms * n_tokens[i] * answers_[i].job().cost_factor;
    now_s_ += ms / 1000;
    for (size_t i = 0; i < answers_.size(); ++i) {
      Answer &answer = answers_[i];
      answer.n_computed += n_tokens[i];
      if (n_tokens[i] > 0 && answer.n_computed == answer.n_tokens()) draw(answer);
    }
    std::erase_if(answers_, [](const Answer &answer) { return answer.ended(); });
  }

  void draw(Answer &answer) {
    ++answer.n_out;
    ++served(answer.job()).n_tokens_out;
    charge(answer.job(), k_drawn_token_cost);
    if (!answer.ended()) return;
    ++served(answer.job()).n_done;
    roster_.unseat(*answer.sequence);
    roster_.remove(*answer.sequence);
    close(answer.job());
  }

  void charge(Job &job, double cost) {
    roster_.charge(job, cost);
    served(job).cost += cost * job.cost_factor;
  }

  void close(Job &job) {
    const size_t i = sender_of_.at(&job);
    roster_.close(job);
    sender_of_.erase(&job);
    if (senders_[i].one_at_a_time) next_[i] = now_s_ + wait_of(i);
  }

  std::mt19937_64 random_{7};
  std::vector<Sender> senders_;
  std::vector<Served> served_;
  std::vector<double> next_;  // time of each sender's next request
  std::map<const Job *, size_t> sender_of_;
  Inbox inbox_{k_n_queue};
  Roster roster_;
  std::vector<Answer> answers_;
  double now_s_ = 0;
};

}  // namespace patchbay
