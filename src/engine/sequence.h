#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/job.h"
#include "engine/sampler.h"
#include "engine/step_plan.h"
#include "engine/text_stream.h"
#include "grammar/grammar_matcher.h"

namespace patchbay {

/// One answer in the making: the tokens of its prompt and what was drawn so far, and how much of
/// them is in the cache. Engine thread.
class Sequence {
 public:
  static constexpr int32_t k_no_seat = -1;

  Sequence(std::shared_ptr<Job> job, uint32_t i_choice,
           const std::shared_ptr<const Tokenizer> &tokenizer);

  [[nodiscard]] Job &job() const { return *job_; }
  [[nodiscard]] const std::shared_ptr<Job> &shared_job() const { return job_; }
  [[nodiscard]] uint32_t i_choice() const { return i_choice_; }
  [[nodiscard]] const std::vector<int32_t> &tokens() const { return tokens_; }
  [[nodiscard]] uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }
  [[nodiscard]] uint32_t n_computed() const { return n_computed_; }
  /// Its name in the cache; k_no_seat while it waits without memory.
  [[nodiscard]] int32_t seq_id() const { return seq_id_; }
  [[nodiscard]] bool is_seated() const { return seq_id_ != k_no_seat; }

  /// Takes a seat of which `n_computed` tokens are in the cache already.
  void sit_down(int32_t seq_id, uint32_t n_computed);
  /// Gives the seat up: everything will be computed again.
  void stand_up();

  /// The next `n_tokens` tokens to compute. Valid until the sequence changes.
  [[nodiscard]] Chunk next_chunk(uint32_t n_tokens) const;
  void computed(uint32_t n_tokens) { n_computed_ += n_tokens; }

  /// What its keys and values depend on, of all known tokens. Valid until the sequence changes.
  [[nodiscard]] ContentView content() const { return {tokens_, job_->worn}; }

  /// Waits until `leader` has computed the `n_shared` tokens that both begin with.
  void follow(const std::shared_ptr<const Sequence> &leader, uint32_t n_shared);
  [[nodiscard]] bool is_following() const { return n_shared_ > 0; }
  /// The leader is that far, or will never be.
  [[nodiscard]] bool can_go_on() const;
  void stop_following() { n_shared_ = 0; }

  struct Drawn {
    std::optional<TokenEvent> event;  ///< none: the grammar lets nothing follow
    std::optional<StopReason> end;    ///< why no token comes after it
  };
  /// Draws the token after the last one from F32 [n_vocab]; `n_ctx`: tokens that the cache can
  /// hold of this sequence. invalid_argument: the request's grammar wants more text, and no token
  /// that may be drawn goes on with it; or it is too ambiguous.
  [[nodiscard]] Expected<Drawn> draw(std::span<const float> logits, uint32_t n_ctx);

  /// The end of the answer, with the text that was held back.
  [[nodiscard]] ChoiceEnd finish(StopReason reason);

 private:
  [[nodiscard]] Expected<std::optional<int32_t>> choose(std::span<const float> logits);
  [[nodiscard]] bool is_eog(int32_t token) const;
  [[nodiscard]] std::optional<StopReason> end_now(uint32_t n_ctx) const;

  std::shared_ptr<Job> job_;
  uint32_t i_choice_;
  const Tokenizer *tokenizer_;  // of the model, which outlives every sequence; may be null
  std::vector<int32_t> tokens_;
  uint32_t n_computed_ = 0;
  int32_t seq_id_ = k_no_seat;
  std::weak_ptr<const Sequence> leader_;
  uint32_t n_shared_ = 0;  // with the leader; 0: there is none
  Sampler sampler_;
  std::optional<GrammarMatcher> matcher_;
  TextStream text_;
};

}  // namespace patchbay
