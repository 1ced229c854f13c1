#include "server/sampling_fields.h"

#include <charconv>
#include <limits>
#include <random>

#include "patchbay/model.hpp"

namespace patchbay {
namespace {

constexpr double k_most_temperature = 1000;
constexpr double k_least_repeat_penalty = 1e-6;
constexpr size_t k_most_stops = 64;

std::optional<int32_t> token_of(const Json &value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto id = value.get<int64_t>();
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(id);
}

std::optional<int32_t> token_of(const std::string &digits) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (error != std::errc() || end != digits.data() + digits.size() || id < 0) return std::nullopt;
  return id;
}

/// A number to add; llama-server also takes false for "never".
std::optional<float> bias_of(const Json &value) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) return std::nullopt;
  return static_cast<float>(value.get<double>());
}

/// OpenAI's {"15": -100} and llama-server's [[15, -1.0], [16, false]].
void read_logit_bias(JsonFields &fields, SamplingParams &params) {
  const Json *value = fields.any("logit_bias");
  if (value == nullptr) return;
  const auto wrong = [&] {
    fields.refuse("logit_bias", "an object {\"token id\": bias} or an array [[token id, bias]]",
                  *value);
  };
  const auto add = [&](std::optional<int32_t> token, const Json &bias_value) {
    const auto bias = bias_of(bias_value);
    if (!token || !bias) return wrong();
    params.logit_bias.emplace_back(*token, *bias);
  };
  if (value->is_object()) {
    for (const auto &[key, bias] : value->items()) add(token_of(key), bias);
  } else if (value->is_array()) {
    for (const Json &pair : *value) {
      if (!pair.is_array() || pair.size() != 2) return wrong();
      add(token_of(pair[0]), pair[1]);
    }
  } else {
    wrong();
  }
}

template <class T>
void replace(T &value, const std::optional<T> &otherwise) {
  if (otherwise) value = *otherwise;
}

void apply(const SamplingDefaults &defaults, SamplingParams &params) {
  replace(params.temperature, defaults.temperature);
  replace(params.top_k, defaults.top_k);
  replace(params.top_p, defaults.top_p);
  replace(params.min_p, defaults.min_p);
  replace(params.n_penalty_last, defaults.n_penalty_last);
  replace(params.repeat_penalty, defaults.repeat_penalty);
  replace(params.presence_penalty, defaults.presence_penalty);
  replace(params.frequency_penalty, defaults.frequency_penalty);
}

float narrow(std::optional<double> value, float otherwise) {
  return value ? static_cast<float>(*value) : otherwise;
}

}  // namespace

uint64_t random_seed() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

void read_sampling(JsonFields &fields, Request &request, const SamplingDefaults &defaults) {
  SamplingParams &params = request.sampling;
  apply(defaults, params);
  params.temperature =
      narrow(fields.number("temperature", 0, k_most_temperature), params.temperature);
  params.top_p = narrow(fields.number("top_p", 0, 1), params.top_p);
  params.min_p = narrow(fields.number("min_p", 0, 1), params.min_p);
  params.presence_penalty =
      narrow(fields.number("presence_penalty", -100, 100), params.presence_penalty);
  params.frequency_penalty =
      narrow(fields.number("frequency_penalty", -100, 100), params.frequency_penalty);
  constexpr int64_t k_most = std::numeric_limits<int32_t>::max();
  if (const auto n = fields.integer("repeat_last_n", -1, k_most))
    params.n_penalty_last = static_cast<int32_t>(*n);
  // vLLM calls it repetition_penalty.
  for (const char *name : {"repetition_penalty", "repeat_penalty"})
    params.repeat_penalty =
        narrow(fields.number(name, k_least_repeat_penalty, 1 / k_least_repeat_penalty),
               params.repeat_penalty);
  // vLLM writes -1 for all.
  if (const auto top_k = fields.integer("top_k", -1, k_most))
    params.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));
  const auto seed = fields.integer("seed", -1, std::numeric_limits<int64_t>::max());
  params.seed =
      seed && *seed >= 0 ? static_cast<uint64_t>(*seed) : defaults.seed.value_or(random_seed());
  read_logit_bias(fields, params);
  request.ignore_eos = fields.flag("ignore_eos").value_or(request.ignore_eos);
  request.stop = fields.texts("stop");
  std::erase(request.stop, "");
  if (request.stop.size() > k_most_stops)
    fields.refuse("stop", "at most 64 strings", *fields.any("stop"));
  request.n_choices =
      static_cast<uint32_t>(fields.integer("n", 1, defaults.n_choices_max).value_or(1));
}

int32_t read_n_predict(JsonFields &fields, std::initializer_list<const char *> names,
                       int32_t otherwise) {
  std::optional<int64_t> found;
  for (const char *name : names) {
    const auto n = fields.integer(name, -1, std::numeric_limits<int32_t>::max());
    if (!found) found = n;
  }
  return static_cast<int32_t>(found.value_or(otherwise));
}

std::optional<std::vector<int32_t>> tokens_of(JsonFields &fields, const char *name,
                                              const Json &value, const Model &model,
                                              bool add_special) {
  if (value.is_string()) {
    if (!model.has_tokenizer()) {
      fields.refuse(name, "token ids, as the model has no tokenizer", value);
      return std::nullopt;
    }
    return model.tokenize(value.get_ref<const std::string &>(), add_special);
  }
  std::vector<int32_t> tokens;
  if (value.is_array()) {
    for (const Json &item : value) {
      if (const auto token = token_of(item)) tokens.push_back(*token);
    }
    if (tokens.size() == value.size()) return tokens;
  }
  fields.refuse(name, "a string or an array of token ids", value);
  return std::nullopt;
}

}  // namespace patchbay
