#pragma once

#include <ggml.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/lora_list.h"
#include "tools/combine.h"

namespace patchbay {

struct MergeArguments {
  std::string model;  ///< empty: the default model
  std::vector<LoraItem> loras;
  AdapterLoadOptions adapters;
  std::string output;
  std::optional<ggml_type> type;
  size_t split_max_bytes = 0;
  bool allow_alora = false;
  std::optional<CombineRule> combine;
  std::optional<double> density;
  uint64_t seed = 0;
  uint32_t n_threads = 0;  ///< 0: all cores
  bool dry_run = false;
  bool json = false;
};

/// The subcommand `merge`; `arguments` outlives the app.
void add_merge(CLI::App &app, MergeArguments &arguments);

int merge(const MergeArguments &arguments);

}  // namespace patchbay
