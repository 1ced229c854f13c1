#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "patchbay/model.hpp"
#include "patchbay/request.hpp"
#include "server/json_fields.h"

namespace patchbay {

/// What the command line sets for requests that do not say, which stands above a dialect's own
/// default; and how many answers one may ask for.
struct SamplingDefaults {
  std::optional<float> temperature{};
  std::optional<int32_t> top_k{};
  std::optional<float> top_p{};
  std::optional<float> min_p{};
  std::optional<int32_t> n_penalty_last{};
  std::optional<float> repeat_penalty{};
  std::optional<float> presence_penalty{};
  std::optional<float> frequency_penalty{};
  std::optional<uint64_t> seed{};
  std::optional<int32_t> n_predict{};
  uint32_t n_choices_max = 64;
};

/// The fields that all dialects spell alike, into a request that holds the dialect's defaults:
/// temperature, top_p, top_k, min_p, seed, presence_penalty, frequency_penalty, repeat_penalty (or
/// repetition_penalty), repeat_last_n, stop, ignore_eos, logit_bias, n. Errors stay in `fields`.
void read_sampling(JsonFields &fields, Request &request, const SamplingDefaults &defaults = {});

/// Tokens at most, from the first of these fields that the request has; -1: until the context is
/// full.
[[nodiscard]] int32_t read_n_predict(JsonFields &fields, std::initializer_list<const char *> names,
                                     int32_t otherwise);

/// A seed for requests that name none.
[[nodiscard]] uint64_t random_seed();

/// Token ids (an array of whole numbers), or a text. Nothing, and an error in `fields`, for
/// anything else.
[[nodiscard]] std::optional<std::vector<int32_t>> tokens_of(JsonFields &fields, const char *name,
                                                            const Json &value, const Model &model,
                                                            bool add_special);

}  // namespace patchbay
