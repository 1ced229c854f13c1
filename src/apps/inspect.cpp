#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/inspect_adapter.h"
#include "apps/inspect_metadata.h"
#include "apps/inspect_model.h"
#include "apps/inspect_text.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The folder of a PEFT adapter named by itself or by one of its files; nullopt for any other file.
/// Throws LoadError for a folder of another kind.
std::optional<fs::path> peft_folder(const fs::path &path) {
  constexpr const char *k_config = "adapter_config.json";
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    // The loader knows best what a folder without the file is; it needs no base for that.
    if (!fs::is_regular_file(path / k_config, ignored)) (void)load_adapter(path, BaseInfo{});
    return path;
  }
  auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool is_part =
      path.filename() == k_config || path.filename() == "adapter_model.safetensors";
  if (is_part && fs::is_regular_file(folder / k_config, ignored)) return folder;
  return std::nullopt;
}

std::shared_ptr<const LoadedModel> open_base(const std::string &path) {
  if (path.empty()) return nullptr;
  return load_model(path, {.repack = false});
}

ordered_json adapter_report(const InspectArguments &arguments, AdapterReport report) {
  const auto base = open_base(arguments.base);
  ordered_json fit;
  if (base != nullptr) fit = check_fit(*base, arguments.tensors, report);
  return adapter_json(report, std::move(fit), base.get(), arguments.tensors);
}

ordered_json collect(const InspectArguments &arguments) {
  if (const auto folder = peft_folder(arguments.path)) {
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
