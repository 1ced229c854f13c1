#pragma once

#include <ggml.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace patchbay {

struct ExtractArguments {
  std::string base;
  std::string tuned;
  std::string output;
  std::optional<int64_t> n_rank;  ///< none: as many as the energy needs
  std::optional<double> energy;
  ggml_type type = GGML_TYPE_F32;
  bool ignore_vectors = false;
  uint32_t n_threads = 0;  ///< 0: all cores
  bool json = false;
};

/// The subcommand `extract`; `arguments` outlives the app.
void add_extract(CLI::App &app, ExtractArguments &arguments);

int extract(const ExtractArguments &arguments);

}  // namespace patchbay
