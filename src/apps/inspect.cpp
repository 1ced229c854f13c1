#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "apps/inspect_adapter.h"
#include "apps/inspect_metadata.h"
#include "apps/inspect_model.h"
#include "apps/inspect_plot.h"
#include "apps/inspect_text.h"
#include "base/replacement_file.h"
#include "lora/peft_folder.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

std::shared_ptr<const LoadedModel> open_base(const std::string &path) {
  if (path.empty()) return nullptr;
  return load_model(path, WeightOptions::as_stored());
}

/// Files need not state one.
std::string name_of(const LoadedModel &base) {
  return base.info.name.empty() ? std::filesystem::path(base.info.path).filename().string()
                                : base.info.name;
}

ordered_json adapter_report(const InspectArguments &arguments, AdapterReport report) {
  const auto base = open_base(arguments.base);
  const bool with_norms = arguments.tensors || !arguments.plot.empty();
  ordered_json fit;
  if (base != nullptr) fit = check_fit(*base, arguments.adapters, with_norms, report);
  if (!arguments.plot.empty()) check_not_input(arguments.plot, {arguments.path, arguments.base});
  if (!arguments.plot.empty() && fit.at("fits").get<bool>())
    draw_heat_map(movement_map(report.movements, report.name, name_of(*base)), arguments.plot);
  return adapter_json(report, std::move(fit), base.get(), arguments.tensors);
}

void check_usage(const InspectArguments &arguments) {
  if (arguments.plot.empty()) return;
  if (arguments.base.empty())
    throw UsageError("--plot shows an adapter's changes beside a base's weights: it needs --base");
  if (!is_picture(arguments.plot))
    throw UsageError(fmt::format("--plot {} ends neither in .png nor in .svg", arguments.plot));
}

ordered_json collect(const InspectArguments &arguments) {
  check_usage(arguments);
  if (const auto folder = find_peft_folder(arguments.path)) {
    return adapter_report(arguments, read_peft_report(*folder, arguments.tensors));
  }
  const auto file = GgufFile::open(arguments.path);
  if (text_of(file, "general.type") == "adapter") {
    return adapter_report(arguments, read_gguf_report(file, arguments.tensors));
  }
  if (!arguments.base.empty()) {
    throw UsageError(fmt::format("{} is a model; --base is for adapters", arguments.path));
  }
  return model_json(file, arguments.tensors);
}

bool is_misfit(const ordered_json &report) {
  const auto fit = report.find("fit");
  return fit != report.end() && !fit->is_null() && !fit->at("fits").get<bool>();
}

}  // namespace

int inspect(const InspectArguments &arguments) {
  const ordered_json report = collect(arguments);
  if (arguments.json) {
    fmt::print("{}\n", report.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", report_text(report));
  }
  return is_misfit(report) ? k_exit_failure : 0;
}

}  // namespace patchbay
