#include "lora/peft_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/replacement_file.h"
#include "gguf/safetensors_writer.h"
#include "lora/peft_folder.h"
#include "lora/peft_reverse.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *k_prefix = "base_model.model.";

/// The lora_alpha of a pair: the number that people would have written, where it gives the scale to
/// the bit.
double alpha_of(const NamedPair &pair, double stated) {
  const auto rank = static_cast<double>(pair.n_rank);
  const double exact = static_cast<double>(pair.scale) * rank;
  for (const double alpha : {stated, std::round(exact)}) {
    if (static_cast<float>(alpha / rank) == pair.scale) return alpha;
  }
  return exact;
}

template <class Value>
Value most_common(const std::vector<Value> &values, Value fallback) {
  std::map<Value, size_t> votes;
  for (const Value &value : values) votes[value]++;
  if (votes.empty()) return fallback;
  return std::ranges::max_element(votes, {}, [](const auto &vote) { return vote.second; })->first;
}

/// A number as JSON has it: whole ones without a fraction.
ordered_json number(double value) {
  constexpr double k_exact = 1LL << 53;
  if (value == std::floor(value) && std::abs(value) < k_exact) return static_cast<int64_t>(value);
  return value;
}

void put_ranks_and_alphas(const Adapter &adapter, const std::vector<NamedPair> &pairs,
                          ordered_json &config) {
  std::vector<int64_t> ranks;
  std::vector<double> alphas;
  for (const auto &pair : pairs) {
    ranks.push_back(pair.n_rank);
    alphas.push_back(alpha_of(pair, adapter.alpha));
  }
  const int64_t rank = most_common<int64_t>(ranks, 1);
  const double alpha = most_common<double>(alphas, 1);
  auto rank_pattern = ordered_json::object();
  auto alpha_pattern = ordered_json::object();
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (ranks[i] != rank) rank_pattern[pairs[i].pattern_name()] = ranks[i];
    if (alphas[i] != alpha) alpha_pattern[pairs[i].pattern_name()] = number(alphas[i]);
  }
  config["r"] = rank;
  config["lora_alpha"] = number(alpha);
  config["rank_pattern"] = std::move(rank_pattern);
  config["alpha_pattern"] = std::move(alpha_pattern);
}

ordered_json or_null(const std::set<std::string> &items) {
  return items.empty() ? ordered_json() : ordered_json(items);
}

/// Full paths, so that no module without a pair is targeted.
void put_targets(const std::vector<NamedPair> &pairs, ordered_json &config) {
  std::set<std::string> modules;
  std::set<std::string> parameters;
  for (const auto &pair : pairs) {
    (pair.parameter.empty() ? modules : parameters).insert(pair.pattern_name());
  }
  // PEFT chooses targets itself where the list is null, and none where it is empty.
  config["target_modules"] = modules;
  config["target_parameters"] = or_null(parameters);
}

/// Options of the whole adapter that a pair has or has not.
bool all_or_none(const Adapter &adapter, const std::vector<NamedPair> &pairs,
                 Factor NamedPair::*part, const char *what) {
  const auto has = [&](const NamedPair &pair) { return (pair.*part).n_elements() > 0; };
  const auto n = std::ranges::count_if(pairs, has);
  if (n == 0 || n == std::ssize(pairs)) return n > 0;
  const auto without = std::ranges::find_if_not(pairs, has);
  throw LoadError({.path = adapter.path,
                   .item = without->module,
                   .problem = fmt::format(
                       "has no {}, and {} other pairs have, which PEFT cannot say", what, n)});
}

void put_replacements(const std::vector<NamedPair> &pairs,
                      const std::vector<NamedReplacement> &replacements, ordered_json &config) {
  std::set<std::string> targeted;
  for (const auto &pair : pairs) targeted.insert(pair.module);
  std::set<std::string> saved;
  auto rows = ordered_json::object();
  std::string bias = "none";
  for (const auto &replaced : replacements) {
    if (!replaced.rows.empty()) {
      rows[replaced.module] = replaced.rows;
    } else if (replaced.leaf == "bias") {
      const bool everywhere = bias == "all" || !targeted.contains(replaced.module);
      bias = everywhere ? "all" : "lora_only";
    } else {
      saved.insert(replaced.module);
    }
  }
  config["bias"] = bias;
  config["modules_to_save"] = or_null(saved);
  config["trainable_token_indices"] = rows.empty() ? ordered_json() : std::move(rows);
}

ordered_json make_config(const Adapter &adapter, const std::vector<NamedPair> &pairs,
                         const std::vector<NamedReplacement> &replacements) {
  ordered_json config{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", nullptr},
                      {"inference_mode", true},
                      {"init_lora_weights", true},
                      {"fan_in_fan_out", false},
                      {"lora_dropout", 0.0},
                      {"use_rslora", false},
                      // The first version with this layout of expert factors.
                      {"peft_version", "0.19.1"}};
  if (!adapter.base_name.empty()) config["base_model_name_or_path"] = adapter.base_name;
  put_ranks_and_alphas(adapter, pairs, config);
  put_targets(pairs, config);
  put_replacements(pairs, replacements, config);
  config["use_dora"] = all_or_none(adapter, pairs, &NamedPair::magnitude, "DoRA lengths");
  config["lora_bias"] = all_or_none(adapter, pairs, &NamedPair::bias, "lora_bias");
  config["alora_invocation_tokens"] =
      adapter.invocation_tokens.empty() ? ordered_json() : ordered_json(adapter.invocation_tokens);
  return config;
}

void add(std::vector<PeftTensor> &tensors, std::string name, const Factor &factor,
         bool is_vector = false) {
  std::vector<int64_t> shape{factor.ne[1], factor.ne[0]};
  if (is_vector) shape = {factor.n_elements()};
  tensors.push_back({.name = std::move(name), .shape = std::move(shape), .factor = factor});
}

void add_pair(const NamedPair &pair, std::vector<PeftTensor> &tensors) {
  auto stem = k_prefix + pair.module;
  for (int i = 0; i < pair.n_wrappers; ++i) stem += ".base_layer";
  if (pair.is_embedding) {
    add(tensors, stem + ".lora_embedding_A", pair.a);
    add(tensors, stem + ".lora_embedding_B", pair.b);
  } else {
    add(tensors, stem + ".lora_A.weight", pair.a);
    add(tensors, stem + ".lora_B.weight", pair.b);
  }
  if (pair.magnitude.n_elements() > 0) {
    add(tensors, stem + ".lora_magnitude_vector", pair.magnitude, true);
  }
  if (pair.bias.n_elements() > 0) add(tensors, stem + ".lora_B.bias", pair.bias, true);
}

void add_replacement(const NamedReplacement &replaced, const std::set<std::string> &targeted,
                     std::vector<PeftTensor> &tensors) {
  const auto stem = k_prefix + replaced.module;
  if (!replaced.rows.empty()) {
    add(tensors, stem + ".token_adapter.trainable_tokens_delta", replaced.value);
    return;
  }
  const bool is_wrapped = replaced.leaf == "bias" && targeted.contains(replaced.module);
  const bool is_vector = replaced.value.ne[1] == 1 && replaced.value.ne[2] == 1;
  add(tensors, fmt::format("{}{}.{}", stem, is_wrapped ? ".base_layer" : "", replaced.leaf),
      replaced.value, is_vector);
}

const char *dtype_of(const Factor &factor) {
  switch (factor.type) {
    case GGML_TYPE_F16:
      return "F16";
    case GGML_TYPE_BF16:
      return "BF16";
    default:
      return "F32";
  }
}

void write_weights(const fs::path &path, const PeftContent &content,
                   const WriteProgress &progress) {
  std::vector<SafetensorsEntry> entries;
  uint64_t n_bytes = 0;
  for (const auto &tensor : content.tensors) {
    const uint64_t end = n_bytes + tensor.factor.data.size();
    entries.push_back({.name = tensor.name,
                       .dtype = dtype_of(tensor.factor),
                       .shape = tensor.shape,
                       .begin = n_bytes,
                       .end = end});
    n_bytes = end;
  }
  ReplacementFile file(path, FileReaders::as_umask);
  const auto head = safetensors_head(entries);
  file.write(std::as_bytes(std::span(head)));
  size_t done = 0;
  for (const auto &tensor : content.tensors) {
    if (progress) progress(done, n_bytes);
    file.write(tensor.factor.data);
    done += tensor.factor.data.size();
  }
  if (progress) progress(done, n_bytes);
  file.commit();
}

void write_config(const fs::path &path, const PeftContent &content) {
  ReplacementFile file(path, FileReaders::as_umask);
  const auto text =
      content.config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void write_files(const fs::path &folder, const PeftContent &content,
                 const WriteProgress &progress) {
  write_weights(folder / k_peft_weights, content, progress);
  write_config(folder / k_peft_config, content);
}

/// A folder beside the wanted one; gone with this object unless it got its name.
class NewFolder {
 public:
  explicit NewFolder(const fs::path &path) : path_(path) {
    // As files are made, see ReplacementFile: not after the folder's own name.
    const auto whole = fs::absolute(path).lexically_normal();
    target_ = whole.has_filename() ? whole : whole.parent_path();
    std::string pattern = (target_.parent_path() / ".patchbay-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) fail_with_errno(path_.string(), "cannot be made");
    made_ = pattern;
  }
  NewFolder(const NewFolder &) = delete;
  NewFolder &operator=(const NewFolder &) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!made_.empty()) fs::remove_all(made_, ignored);
  }

  [[nodiscard]] const fs::path &path() const { return made_; }

  void commit() {
    fs::permissions(made_, usual_permissions());
    if (rename(made_.c_str(), target_.c_str()) != 0) {
      fail_with_errno(path_.string(), "cannot be made");
    }
    made_.clear();
  }

 private:
  /// Those of the files in it, and that it may be entered.
  [[nodiscard]] fs::perms usual_permissions() const {
    const auto of_file = fs::status(made_ / k_peft_config).permissions();
    auto all = of_file | fs::perms::owner_exec;
    if ((of_file & fs::perms::group_read) != fs::perms::none) all |= fs::perms::group_exec;
    if ((of_file & fs::perms::others_read) != fs::perms::none) all |= fs::perms::others_exec;
    return all;
  }

  fs::path path_;
  fs::path target_;
  fs::path made_;
};

}  // namespace

size_t PeftContent::size_bytes() const {
  return std::accumulate(
      tensors.begin(), tensors.end(), size_t{0},
      [](size_t sum, const PeftTensor &tensor) { return sum + tensor.factor.data.size(); });
}

PeftContent make_peft(const Adapter &adapter, const BaseInfo &base) {
  const auto pairs = name_pairs(adapter, base);
  const auto replacements = name_replacements(adapter, base);
  PeftContent content{.config = make_config(adapter, pairs, replacements)};
  std::set<std::string> targeted;
  for (const auto &pair : pairs) {
    targeted.insert(pair.module);
    add_pair(pair, content.tensors);
  }
  for (const auto &replaced : replacements) {
    add_replacement(replaced, targeted, content.tensors);
  }
  std::ranges::sort(content.tensors, {}, &PeftTensor::name);
  return content;
}

void write_peft_folder(const fs::path &folder, const PeftContent &content, bool overwrite,
                       const WriteProgress &progress) {
  check_may_write(folder, overwrite);
  std::error_code ignored;
  const auto status = fs::status(folder, ignored);
  if (fs::is_directory(status)) return write_files(folder, content, progress);
  if (fs::exists(status)) {
    throw LoadError({.path = folder.string(), .problem = "is there and not a folder"});
  }
  NewFolder made(folder);
  try {
    write_files(made.path(), content, progress);
  } catch (const LoadError &error) {  // it names a place that nobody has asked for
    auto parts = error.parts();
    parts.path = folder.string();
    throw LoadError(std::move(parts));
  }
  made.commit();
}

}  // namespace patchbay
