#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/inspect_pairs.h"
#include "engine/loaded_model.h"
#include "gguf/gguf_file.h"

namespace patchbay {

/// What the files of an adapter say.
struct AdapterReport {
  std::string format;  ///< "gguf" or "peft"
  std::string path;
  std::string name;
  std::optional<std::string> architecture;  ///< a PEFT folder does not state it
  std::optional<double> alpha;
  std::vector<int64_t> invocation_tokens;  ///< of an aLoRA
  std::string task_name;
  std::string prompt_prefix;
  std::string base_name;
  std::vector<std::string> notes;
  std::vector<std::string>
      problems;  ///< each of them keeps this build from loading it, for whatever base
  std::vector<PairReport> pairs;
  /// |W' - W| / |W| of the base's tensors that the adapter changes at strength 1, where it was
  /// asked for; of experts the largest.
  std::map<std::string, double> movements;
  nlohmann::ordered_json settings;  ///< GGUF: metadata; PEFT: the options that are set
};

/// The adapter as its file has it, without a base. Shows what can be shown of a flawed one; throws
/// LoadError when there is no reading it at all.
[[nodiscard]] AdapterReport read_gguf_report(const GgufFile &file, bool with_norms);
[[nodiscard]] AdapterReport read_peft_report(const std::filesystem::path &folder, bool with_norms);

/// Loads the adapter for `base` and puts what came of it in place of what the files alone say; on
/// failure the report stays as it is. Returns {base, base_name, fits, error, outlook}: the last is
/// what would happen, in words.
[[nodiscard]] nlohmann::ordered_json check_fit(const LoadedModel &base,
                                               const AdapterLoadOptions &options, bool with_norms,
                                               AdapterReport &report);

/// `fit` as check_fit gives it, or null; `base` may be null.
[[nodiscard]] nlohmann::ordered_json adapter_json(const AdapterReport &report,
                                                  nlohmann::ordered_json fit,
                                                  const LoadedModel *base, bool with_pairs);

}  // namespace patchbay
