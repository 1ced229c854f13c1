#include "tools/merge.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "apps/commands.h"
#include "apps/inspect_pairs.h"
#include "apps/inspect_table.h"
#include "apps/merge_options.h"
#include "apps/model_files.h"
#include "apps/progress_bar.h"
#include "base/cpu_affinity.h"
#include "base/log.h"
#include "tools/row_chunks.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

std::vector<MergedAdapter> load_all(const MergeArguments &arguments, const BaseInfo &base) {
  std::vector<MergedAdapter> adapters;
  for (const auto &item : arguments.loras) {
    auto adapter = load_adapter(item.path, base, item.name, arguments.adapters);
    adapters.push_back({std::move(adapter), item.strength});
    for (const auto &note : adapters.back().adapter->notes) log().warn("{}: {}", item.path, note);
  }
  return adapters;
}

void check_usage(const MergeArguments &arguments) {
  const bool prunes = arguments.combine && *arguments.combine != CombineRule::linear;
  if (prunes && !arguments.density)
    throw UsageError(fmt::format("--combine {} needs --density", to_string(*arguments.combine)));
  if (!prunes && arguments.density)
    throw UsageError("--density is for --combine ties, dare_linear and dare_ties");
}

MergeReport merge_into(const MergeArguments &arguments, const std::string &model) {
  const auto base = load_model(model, WeightOptions::as_stored());
  const auto adapters = load_all(arguments, base->info);
  std::vector<MergedAdapter> changing = adapters;
  MergeOptions options{
      .type = arguments.type,
      .split_max_bytes = arguments.split_max_bytes,
      .allow_alora = arguments.allow_alora,
      .dry_run = arguments.dry_run,
      .n_threads = arguments.n_threads > 0 ? arguments.n_threads : n_allowed_cpus()};
  if (arguments.combine) {
    options.combine = to_string(*arguments.combine);
    changing = {{combine_adapters(adapters, *arguments.combine, arguments.density.value_or(1),
                                  arguments.seed)}};
  }
  ProgressBar bar("merging");
  options.progress = [&](size_t done, size_t all) { bar.show(done, all); };
  return merge(*base, changing, adapters, arguments.output, options);
}

ordered_json tensor_json(const ChangedTensor &tensor) {
  ordered_json json{{"name", tensor.name},
                    {"type_before", nullptr},
                    {"type_after", tensor.type_after},
                    {"size_bytes", tensor.size_bytes},
                    {"relative_change", nullptr}};
  if (!tensor.type_before.empty()) json["type_before"] = tensor.type_before;
  if (tensor.relative_change) json["relative_change"] = *tensor.relative_change;
  return json;
}

ordered_json report_json(const MergeReport &report, bool dry_run, double seconds) {
  ordered_json json{{"dry_run", dry_run},
                    {"files", report.files},
                    {"size_bytes", report.size_bytes},
                    {"n_tensors", report.n_tensors},
                    {"n_changed", report.changed.size()},
                    {"seconds", seconds},
                    {"notes", report.notes},
                    {"changed", ordered_json::array()}};
  for (const auto &tensor : report.changed) json["changed"].push_back(tensor_json(tensor));
  return json;
}

/// The tensors of one module over all layers.
struct ModuleLine {
  size_t n_tensors = 0;
  std::string types;
  double least = 0;
  double most = 0;
  bool is_known = false;
  size_t size_bytes = 0;

  void add(const ChangedTensor &tensor) {
    ++n_tensors;
    size_bytes += tensor.size_bytes;
    const std::string type = tensor.type_before == tensor.type_after || tensor.type_before.empty()
                                 ? tensor.type_after
                                 : tensor.type_before + " -> " + tensor.type_after;
    if (types.find(type) == std::string::npos) types += (types.empty() ? "" : ", ") + type;
    if (!tensor.relative_change) return;
    least = is_known ? std::min(least, *tensor.relative_change) : *tensor.relative_change;
    most = std::max(most, *tensor.relative_change);
    is_known = true;
  }
};

std::string report_lines(const MergeReport &report, bool dry_run, double seconds) {
  std::map<std::string, ModuleLine> modules;
  for (const auto &tensor : report.changed) modules[split_target(tensor.name).module].add(tensor);
  TextTable table("changed", "lrlrr");
  table.add({"module", "tensors", "type", "|W' - W| / |W|", "size"});
  for (const auto &[module, line] : modules) {
    table.add({terminal_text(module), fmt::format("{}", line.n_tensors), line.types,
               line.is_known ? fmt::format("{:.3g} .. {:.3g}", line.least, line.most) : "-",
               bytes_text(line.size_bytes)});
  }
  TextTable notes("notes", "l");
  for (const auto &note : report.notes) notes.add({terminal_text(note, 1000)});
  TextTable files(dry_run ? "would write" : "written", "l");
  for (const auto &file : report.files) files.add({terminal_text(file, 4000)});
  const std::string total =
      fmt::format("\n{} of {} tensors changed, {}, {:.1f} s\n", report.changed.size(),
                  report.n_tensors, bytes_text(report.size_bytes), seconds);
  return (table.text() + notes.text() + files.text() + total).substr(1);
}

}  // namespace

int merge(const MergeArguments &arguments) {
  const auto start = std::chrono::steady_clock::now();
  const std::string model = arguments.model.empty() ? default_model() : arguments.model;
  check_usage(arguments);
  const MergeReport report = merge_into(arguments, model);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (arguments.json) {
    fmt::print("{}\n", report_json(report, arguments.dry_run, took.count())
                           .dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", report_lines(report, arguments.dry_run, took.count()));
  }
  return 0;
}

}  // namespace patchbay
