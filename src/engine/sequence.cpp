#include "engine/sequence.h"

#include <limits>

#include "engine/logprobs.h"

namespace patchbay {
namespace {

Sampler make_sampler(const Request &request, uint32_t i_choice, const Tokenizer *tokenizer) {
  SamplingParams params = request.sampling;
  params.seed += i_choice;
  if (request.ignore_eos && tokenizer != nullptr) {
    for (const int32_t token : tokenizer->eog_tokens()) {
      params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
  Sampler sampler(std::move(params));
  for (const int32_t token : request.prompt) sampler.accept(token);
  return sampler;
}

}  // namespace

Sequence::Sequence(std::shared_ptr<Job> job, uint32_t i_choice,
                   const std::shared_ptr<const Tokenizer> &tokenizer)
    : job_(std::move(job)),
      i_choice_(i_choice),
      tokenizer_(tokenizer.get()),
      tokens_(job_->request.prompt),
      sampler_(make_sampler(job_->request, i_choice, tokenizer_)),
      text_(tokenizer, job_->request.stop, job_->request.shown_tokens) {
  if (job_->masks != nullptr) matcher_.emplace(job_->masks);
}

void Sequence::sit_down(int32_t seq_id, uint32_t n_computed) {
  seq_id_ = seq_id;
  n_computed_ = n_computed;
}

void Sequence::stand_up() {
  seq_id_ = k_no_seat;
  n_computed_ = 0;
  stop_following();
}

void Sequence::follow(const std::shared_ptr<const Sequence> &leader, uint32_t n_shared) {
  leader_ = leader;
  n_shared_ = n_shared;
}

bool Sequence::can_go_on() const {
  const auto leader = leader_.lock();
  return leader == nullptr || !leader->is_seated() || leader->n_computed() >= n_shared_;
}

Chunk Sequence::next_chunk(uint32_t n_tokens) const {
  const bool in_prompt = n_computed_ < job_->request.prompt.size();
  return {.seq_id = seq_id_,
          .tokens = tokens_,
          .spans = job_->spans,
          .first = n_computed_,
          .n_tokens = n_tokens,
          .all_logits = job_->request.prompt_logits && in_prompt && !job_->forked,
          .pooling = job_->request.embedding};
}

Expected<Sequence::Drawn> Sequence::draw(std::span<const float> logits, uint32_t n_ctx) {
  const auto chosen = choose(logits);
  if (!chosen) return tl::unexpected(chosen.error());
  if (!*chosen) return Drawn{.end = StopReason::eos};
  const int32_t token = **chosen;
  sampler_.accept(token);
  tokens_.push_back(token);
  TokenEvent event{.i_choice = i_choice_, .token = token};
  if (const auto n_top = job_->request.n_logprobs) {
    Logprobs logprobs = logprobs_of(logits, token, *n_top);
    event.logprob = logprobs.chosen;
    event.top = std::move(logprobs.top);
  }
  if (is_eog(token)) return Drawn{std::move(event), StopReason::eos};
  if (matcher_) {
    if (const auto went_on = matcher_->accept(token); !went_on)
      return tl::unexpected(went_on.error());
  }
  event.text = text_.push(token);
  return Drawn{std::move(event), end_now(n_ctx)};
}

/// The next token; none where the grammar has come to its end.
Expected<std::optional<int32_t>> Sequence::choose(std::span<const float> logits) {
  if (!matcher_) return sampler_.sample(logits);
  if (!matcher_->goes_on()) return std::nullopt;
  const auto allowed = matcher_->allowed();
  if (!allowed) return tl::unexpected(allowed.error());
  const auto token = sampler_.sample(logits, **allowed);
  if (token || matcher_->accepts()) return token;
  return fail(ErrorCode::invalid_argument,
              "the grammar allows none of the tokens that may be drawn here");
}

bool Sequence::is_eog(int32_t token) const {
  return tokenizer_ != nullptr && tokenizer_->is_eog(token);
}

std::optional<StopReason> Sequence::end_now(uint32_t n_ctx) const {
  if (text_.stopped()) return StopReason::stop;
  if (matcher_ && !matcher_->goes_on()) return StopReason::eos;
  const Request &request = job_->request;
  const size_t n_out = tokens_.size() - request.prompt.size();
  const bool enough = request.n_predict >= 0 && n_out >= static_cast<size_t>(request.n_predict);
  // A token that the cache has no room for can still be drawn, as the last one.
  if (enough || tokens_.size() > n_ctx) return StopReason::length;
  return std::nullopt;
}

ChoiceEnd Sequence::finish(StopReason reason) {
  ChoiceEnd end{.i_choice = i_choice_, .reason = reason, .text = text_.finish()};
  // The replacement of a character that stayed unfinished may complete a stop string.
  if (text_.stopped()) end.reason = StopReason::stop;
  return end;
}

}  // namespace patchbay
