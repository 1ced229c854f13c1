#include "lora/peft_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

namespace patchbay {
namespace {

using Components = std::vector<std::string_view>;
using Suffix = std::span<const std::string_view>;

Components split(std::string_view name) {
  Components components;
  while (true) {
    const size_t dot = name.find('.');
    components.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return components;
    name.remove_prefix(dot + 1);
  }
}

std::string joined(Suffix components) { return fmt::format("{}", fmt::join(components, ".")); }

template <size_t n>
bool is_one_of(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// Wrappers of torch that leave a component in the path, wherever they stand.
bool is_torch_wrapper(std::string_view component) {
  constexpr std::string_view k_wrappers[] = {"_orig_mod", "_fsdp_wrapped_module",
                                             "_checkpoint_wrapped_module"};
  return is_one_of(component, k_wrappers);
}

/// Drops what wrappers put in front, as often as it is there: DDP's `module`, PEFT's
/// `base_model.model` or `base_model`. "base_model.model.layers" is read as PEFT's prefix before a
/// model without the level `model`; the tables know both.
Components without_prefixes(Components components) {
  std::erase_if(components, is_torch_wrapper);
  size_t i = 0;
  while (i + 1 < components.size()) {
    if (components[i] == "module") {
      i += 1;
    } else if (components[i] == "base_model") {
      i += components[i + 1] == "model" ? 2 : 1;
    } else {
      break;
    }
  }
  components.erase(components.begin(),
                   components.begin() + static_cast<ptrdiff_t>(std::min(i, components.size())));
  return components;
}

/// Whether a component begins the part of a key that says what the tensor is.
bool starts_suffix(std::string_view component) {
  return component.starts_with("lora_") || component == "base_layer" ||
         component == "token_adapter" || component == "modules_to_save";
}

/// "lora_A.weight", "lora_A.NAME.weight" and, without `leaf`, "lora_A" or "lora_embedding_A.NAME":
/// the name in the middle, empty when there is none; nullopt when the form is another one.
std::optional<std::string> name_between(Suffix suffix, std::string_view leaf) {
  Suffix middle = suffix.subspan(1);
  if (!leaf.empty()) {
    if (middle.empty() || middle.back() != leaf) return std::nullopt;
    middle = middle.first(middle.size() - 1);
  }
  if (middle.size() > 1) return std::nullopt;
  return middle.empty() ? std::string() : std::string(middle.front());
}

struct RoleAndName {
  PeftRole role;
  std::string adapter_name;
};

std::optional<RoleAndName> named(PeftRole role, const std::optional<std::string> &name) {
  if (!name) return std::nullopt;
  return RoleAndName{role, *name};
}

std::optional<RoleAndName> parse_half(Suffix suffix) {
  const bool is_a = suffix[0] == "lora_A";
  if (!is_a && suffix.back() == "bias") {
    return named(PeftRole::lora_bias, name_between(suffix, "bias"));
  }
  // loralib writes no ".weight".
  const auto name =
      suffix.size() == 1 ? std::optional<std::string>("") : name_between(suffix, "weight");
  return named(is_a ? PeftRole::pair_a : PeftRole::pair_b, name);
}

std::optional<RoleAndName> parse_lora_suffix(Suffix suffix) {
  constexpr std::string_view k_samplers[] = {"expert_weights", "expert_weights_prior",
                                             "gaussian_var_prior", "std_prior"};
  const std::string_view first = suffix[0];
  if (first == "lora_A" || first == "lora_B") return parse_half(suffix);
  if (first == "lora_embedding_A") return named(PeftRole::embed_a, name_between(suffix, ""));
  if (first == "lora_embedding_B") return named(PeftRole::embed_b, name_between(suffix, ""));
  if (first == "lora_E") return named(PeftRole::adalora_scale, name_between(suffix, ""));
  if (first == "lora_diag") return named(PeftRole::kasa_diagonal, name_between(suffix, ""));
  if (first == "lora_velora_embed") {
    return named(PeftRole::training_buffer, name_between(suffix, ""));
  }
  if (first == "lora_monteclora_sampler" && suffix.size() <= 3 &&
      is_one_of(suffix.back(), k_samplers)) {
    return named(PeftRole::training_buffer, name_between(suffix, suffix.back()));
  }
  if (first == "lora_magnitude_vector") {
    return named(PeftRole::magnitude,
                 name_between(suffix, suffix.back() == "weight" ? "weight" : ""));
  }
  return std::nullopt;
}

std::optional<RoleAndName> parse_base_layer_suffix(Suffix suffix) {
  // Weights of bitsandbytes, GPTQ and AWQ come with, or as, these.
  constexpr std::string_view k_quantised[] = {"SCB",    "weight_format", "qweight",
                                              "qzeros", "scales",        "g_idx"};
  if (suffix[0] == "bias" && suffix.size() == 1) return RoleAndName{PeftRole::base_bias, ""};
  const bool is_copy =
      suffix[0] == "weight" || (suffix.size() == 1 && is_one_of(suffix[0], k_quantised));
  if (is_copy) return RoleAndName{PeftRole::base_copy, ""};
  return std::nullopt;
}

std::optional<RoleAndName> parse_token_suffix(Suffix suffix) {
  if (suffix.size() < 2) return std::nullopt;
  if (suffix[1] == "base_layer") return RoleAndName{PeftRole::base_copy, ""};
  if (suffix[1] != "trainable_tokens_delta") return std::nullopt;
  return named(PeftRole::token_rows, name_between(suffix.subspan(1), ""));
}

std::optional<RoleAndName> parse_suffix(Suffix suffix, int n_wrappers) {
  if (suffix.empty()) return std::nullopt;
  if (suffix[0].starts_with("lora_")) return parse_lora_suffix(suffix);
  if (n_wrappers > 0) return parse_base_layer_suffix(suffix);
  if (suffix[0] == "token_adapter") return parse_token_suffix(suffix);
  return RoleAndName{PeftRole::whole_tensor, ""};
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = result.ec == std::errc{} && result.ptr == text.data() + text.size();
  return whole && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<PeftHalf> half_of(PeftRole role) {
  switch (role) {
    case PeftRole::pair_a:
      return PeftHalf{.is_a = true, .is_embedding = false};
    case PeftRole::pair_b:
      return PeftHalf{.is_a = false, .is_embedding = false};
    case PeftRole::embed_a:
      return PeftHalf{.is_a = true, .is_embedding = true};
    case PeftRole::embed_b:
      return PeftHalf{.is_a = false, .is_embedding = true};
    default:
      return std::nullopt;
  }
}

std::optional<PeftKey> parse_peft_key(std::string_view key) {
  const Components components = without_prefixes(split(key));
  auto begin = std::find_if(components.begin(), components.end(), starts_suffix);
  // A tensor of the base under its own name: "norm.weight".
  if (begin == components.end() && (components.back() == "weight" || components.back() == "bias")) {
    begin = components.end() - 1;
  }
  const Suffix module(components.begin(), begin);
  Suffix suffix(begin, components.end());
  if (module.empty()) return std::nullopt;
  PeftKey parsed{.module_path = joined(module)};
  while (!suffix.empty() && suffix[0] == "base_layer") {
    parsed.n_wrappers++;
    suffix = suffix.subspan(1);
  }
  auto role = parse_suffix(suffix, parsed.n_wrappers);
  if (!role) return std::nullopt;
  parsed.role = role->role;
  parsed.adapter_name = std::move(role->adapter_name);
  return parsed;
}

std::string bare_module(std::string_view module) {
  Components components = split(module);
  std::erase_if(components, [](std::string_view component) {
    return component == "language_model" || component == "text_model";
  });
  while (components.size() > 1 && components.front() == "model") {
    components.erase(components.begin());
  }
  return joined(components);
}

bool is_vision_or_audio(std::string_view module) {
  constexpr std::string_view k_parts[] = {
      "visual",      "vision_tower", "vision_model", "vision_embed_tokens", "multi_modal_projector",
      "audio_tower", "audio_model",  "embed_vision", "embed_audio",         "mm_projector",
      "connector"};
  const Components components = split(module);
  return std::any_of(components.begin(), components.end(),
                     [&](std::string_view component) { return is_one_of(component, k_parts); });
}

std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name) {
  const Components wanted = split(pattern);
  const Components found = split(name);
  if (wanted.size() != found.size()) return std::nullopt;
  NameNumbers numbers;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != "#" && wanted[i] != "@") {
      if (wanted[i] != found[i]) return std::nullopt;
      continue;
    }
    const auto number = parse_number(found[i]);
    if (!number) return std::nullopt;
    (wanted[i] == "#" ? numbers.i_layer : numbers.i_expert) = *number;
  }
  return numbers;
}

std::string with_layer(std::string_view pattern, int64_t i_layer) {
  const size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), i_layer, pattern.substr(at + 1));
}

}  // namespace patchbay
