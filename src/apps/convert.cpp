#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>

#include "apps/commands.h"
#include "apps/convert_base.h"
#include "apps/convert_report.h"
#include "apps/inspect_pairs.h"
#include "apps/interrupts.h"
#include "apps/progress_bar.h"
#include "base/mapped_file.h"
#include "base/replacement_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "lora/gguf_adapter_writer.h"
#include "lora/json_file.h"
#include "lora/peft_folder.h"
#include "lora/peft_writer.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Somebody wants the program to end; what was begun is undone first.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted"), signal_(signal) {}
  [[nodiscard]] int signal() const { return signal_; }

 private:
  int signal_;
};

std::string sha256_of(const fs::path &path) {
  Sha256 hash;
  hash.add(MappedFile::open(path).bytes());
  return hex(hash.finish());
}

AdapterProvenance provenance_of(const fs::path &source) {
  AdapterProvenance provenance{.converter = "patchbay " PATCHBAY_VERSION};
  const auto folder = find_peft_folder(source);
  provenance.source_sha256 = sha256_of(folder ? *folder / k_peft_weights : source);
  if (!folder) return provenance;
  const auto config = JsonFile::open(*folder / k_peft_config);
  const auto *version = config.find("peft_version");
  if (version != nullptr && version->is_string()) {
    provenance.peft_version = version->get<std::string>();
  }
  return provenance;
}

struct TypeCount {
  size_t n_tensors = 0;
  size_t size_bytes = 0;
};

/// [{type, n_tensors, size_bytes}]
ordered_json types_json(const std::map<std::string, TypeCount> &types) {
  auto json = ordered_json::array();
  for (const auto &[type, count] : types) {
    json.push_back(
        {{"type", type}, {"n_tensors", count.n_tensors}, {"size_bytes", count.size_bytes}});
  }
  return json;
}

void count_type(std::map<std::string, TypeCount> &types, ggml_type type, size_t size_bytes) {
  auto &count = types[ggml_type_name(type)];
  count.n_tensors++;
  count.size_bytes += size_bytes;
}

ordered_json make_report(const ConvertArguments &arguments, const Adapter &adapter,
                         const BaseInfo &base) {
  std::vector<PairReport> pairs;
  for (const auto &pair : adapter.pairs) pairs.push_back(report_pair(pair, false));
  ordered_json report{{"source", arguments.path},
                      {"output", nullptr},
                      {"format", arguments.reverse ? "peft" : "gguf"},
                      {"dry_run", arguments.dry_run},
                      {"base", {{"path", base.path}, {"architecture", base.arch}}},
                      {"n_pairs", adapter.pairs.size()},
                      {"n_replacements", adapter.replacements.size()},
                      {"ranks", ranks_json(pairs)},
                      {"scales", scales_json(pairs)},
                      {"notes", adapter.notes}};
  if (!arguments.output.empty()) report["output"] = arguments.output;
  return report;
}

/// Shows the progress, and gives up when a signal came.
WriteProgress watch(ProgressBar &bar, Interrupts &interrupts) {
  return [&bar, &interrupts](size_t done, size_t all) {
    bar.show(done, all);
    if (const int signal = interrupts.take_signal()) throw Interrupted(signal);
  };
}

void to_gguf(const ConvertArguments &arguments, const Adapter &adapter, const BaseInfo &base,
             const WriteProgress &progress, ordered_json &report) {
  const AdapterWriteOptions options{.type = arguments.type,
                                    .provenance = provenance_of(arguments.path),
                                    .overwrite = arguments.overwrite};
  const auto encoded = encode_adapter(adapter, options);
  std::map<std::string, TypeCount> types;
  for (const auto &tensor : encoded.tensors) {
    count_type(types, tensor.factor.type, tensor.factor.data.size());
  }
  report["alpha"] = readable(encoded.alpha);
  report["n_folded"] = encoded.n_folded;
  report["types"] = types_json(types);
  report["size_bytes"] = encoded.size_bytes();
  report["source_sha256"] = options.provenance.source_sha256;
  for (const auto &note : encoded.notes) report["notes"].push_back(note);
  progress(0, encoded.size_bytes());
  if (arguments.dry_run) return;
  write_gguf_adapter(arguments.output, adapter, encoded, base.arch, options, progress);
}

void to_peft(const ConvertArguments &arguments, const Adapter &adapter, const BaseInfo &base,
             const WriteProgress &progress, ordered_json &report) {
  const auto content = make_peft(adapter, base);
  std::map<std::string, TypeCount> types;
  for (const auto &tensor : content.tensors) {
    count_type(types, tensor.factor.type, tensor.factor.data.size());
  }
  report["types"] = types_json(types);
  report["size_bytes"] = content.size_bytes();
  progress(0, content.size_bytes());
  if (arguments.dry_run) return;
  write_peft_folder(arguments.output, content, arguments.overwrite, progress);
}

void print(const ordered_json &report, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", report.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", conversion_text(report));
  }
}

void check_output(const ConvertArguments &arguments, const fs::path &base) {
  const fs::path output = arguments.output;
  check_may_write(output, arguments.overwrite);
  if (!arguments.reverse) {
    check_not_input(output, {arguments.path, base});
    const ReplacementFile could_be_written(output);
    return;
  }
  for (const char *name : {k_peft_weights, k_peft_config})
    check_not_input(output / name, {arguments.path, base});
}

void convert_watched(const ConvertArguments &arguments, Interrupts &interrupts) {
  const auto base_path = arguments.base.empty() ? base_named_by(arguments.path) : arguments.base;
  // Said at once, and not after reading all of a large adapter.
  if (!arguments.output.empty()) check_output(arguments, base_path);
  const auto base = read_conversion_base(base_path);
  const auto adapter = load_adapter(arguments.path, base.info, {}, arguments.adapters);
  auto report = make_report(arguments, *adapter, base.info);
  {
    ProgressBar bar("converting");
    const auto progress = watch(bar, interrupts);
    if (arguments.reverse) {
      to_peft(arguments, *adapter, base.info, progress, report);
    } else {
      to_gguf(arguments, *adapter, base.info, progress, report);
    }
  }
  print(report, arguments.json);
}

}  // namespace

int convert(const ConvertArguments &arguments) {
  constexpr int k_ended_by_signal = 128;  // as shells report it
  Interrupts interrupts({SIGINT, SIGTERM});
  try {
    convert_watched(arguments, interrupts);
    return 0;
  } catch (const Interrupted &interrupted) {
    return k_ended_by_signal + interrupted.signal();
  }
}

}  // namespace patchbay
