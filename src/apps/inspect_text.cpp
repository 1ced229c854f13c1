#include "apps/inspect_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/inspect_table.h"
#include "model/layout_summary.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

constexpr auto k_replace = ordered_json::error_handler_t::replace;

/// Any value on one line; null shows as "-".
std::string value_text(const ordered_json &value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return terminal_text(value.get_ref<const std::string &>());
  return terminal_text(value.dump(-1, ' ', false, k_replace));
}

std::string number_text(const ordered_json &value) {
  return value.is_number_float() ? fmt::format("{:.5g}", value.get<double>()) : value_text(value);
}

/// "[576, 1536]"
std::string shape_text(const ordered_json &shape) {
  return fmt::format("[{}]", fmt::join(shape.get<std::vector<int64_t>>(), ", "));
}

/// "0-5, 8": ascending numbers with runs put together.
std::string layers_text(const ordered_json &layers) {
  std::string text;
  for (size_t begin = 0; begin < layers.size();) {
    const auto first = layers[begin].get<uint64_t>();
    size_t end = begin + 1;
    while (end < layers.size() && layers[end].get<uint64_t>() == first + (end - begin)) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (end - begin > 1) text += fmt::format("-{}", layers[end - 1].get<uint64_t>());
    begin = end;
  }
  return text;
}

/// "8 (210 pairs)", or with the range before when there are several.
std::string counts_text(const ordered_json &counts, const char *key) {
  constexpr size_t k_max_shown = 8;
  if (counts.empty()) return "-";
  std::string text;
  for (size_t i = 0; i < counts.size() && i < k_max_shown; ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", number_text(counts[i].at(key)),
                        count_text(counts[i].at("n_pairs").get<size_t>(), "pair"));
  }
  if (counts.size() > k_max_shown) text += fmt::format(", {} more", counts.size() - k_max_shown);
  if (counts.size() == 1) return text;
  return fmt::format("{}..{}: {}", number_text(counts.front().at(key)),
                     number_text(counts.back().at(key)), text);
}

/// Nested objects become "outer.inner".
void add_values(const std::string &prefix, const ordered_json &object, TextTable &table) {
  for (const auto &[key, value] : object.items()) {
    const std::string name = prefix + terminal_text(key);
    if (value.is_object()) {
      add_values(name + ".", value, table);
    } else {
      table.add({name, value_text(value)});
    }
  }
}

std::string values_text(const char *title, const ordered_json &object) {
  TextTable table(title, "ll");
  if (object.is_object()) add_values("", object, table);
  return table.text();
}

std::string metadata_text(const ordered_json &metadata) {
  TextTable table("metadata", "lll");
  for (const auto &[key, entry] : metadata.items()) {
    const bool is_array = entry.contains("n_items");
    table.add({terminal_text(key), value_text(entry.at("type")),
               is_array ? count_text(entry.at("n_items").get<uint64_t>(), "item")
                        : value_text(entry.at("value"))});
  }
  return table.text();
}

std::string modules_text(std::string title, const ordered_json &modules) {
  TextTable table(std::move(title), "lll");
  for (const auto &module : modules) {
    const auto &layers = module.at("layers");
    const auto n_targets = module.at("n_targets").get<size_t>();
    std::string where;
    if (!layers.empty()) {
      where = fmt::format("{} ({})", count_text(layers.size(), "layer"), layers_text(layers));
    }
    if (n_targets > std::max<size_t>(layers.size(), 1)) {
      where += fmt::format(", {} targets", n_targets);
    }
    table.add({value_text(module.at("module")), value_text(module.at("kind")), where});
  }
  return table.text();
}

/// Paths and messages, which are of use only as a whole.
std::string long_text(const ordered_json &text) {
  constexpr size_t k_max_chars = 4000;
  return terminal_text(text.get_ref<const std::string &>(), k_max_chars);
}

std::string list_text(const char *title, const ordered_json &lines) {
  TextTable table(title, "l");
  for (const auto &line : lines) table.add({long_text(line)});
  return table.text();
}

std::string size_text(const ordered_json &size_bytes) {
  return bytes_text(size_bytes.get<size_t>());
}

std::string support_text(const ordered_json &report) {
  if (report.at("supported").get<bool>()) return "yes";
  return "no: " + long_text(report.at("problem"));
}

std::string tokenizer_text(const ordered_json &tokenizer) {
  if (tokenizer.is_null()) return "none";
  return fmt::format("{}, pre {}, {} tokens", value_text(tokenizer.at("model")),
                     value_text(tokenizer.at("pre")), tokenizer.at("n_vocab").get<uint64_t>());
}

std::string layout_text(const ordered_json &layout) {
  return to_string(
      LayoutSummary{.n_packed = layout.at("n_packed").get<size_t>(),
                    .n_interleaved = layout.at("n_interleaved").get<size_t>(),
                    .n_as_stored = layout.at("n_as_stored").get<size_t>(),
                    .isas = layout.at("instruction_sets").get<std::vector<std::string>>()});
}

std::string model_head(const ordered_json &report) {
  TextTable table("model", "ll");
  const auto &tied = report.at("tied_head");
  table.add({"path", long_text(report.at("path"))});
  table.add({"format", fmt::format("GGUF v{}, {}, {}", report.at("version").get<uint32_t>(),
                                   count_text(report.at("n_shards").get<size_t>(), "file"),
                                   size_text(report.at("size_bytes")))});
  table.add({"name", value_text(report.at("name"))});
  table.add({"architecture", value_text(report.at("architecture"))});
  table.add({"runs here", support_text(report)});
  table.add({"parameters",
             fmt::format("{:.1f} M in {}, {}",
                         static_cast<double>(report.at("n_parameters").get<int64_t>()) / 1e6,
                         count_text(report.at("n_tensors").get<size_t>(), "tensor"),
                         size_text(report.at("tensor_bytes")))});
  const auto &layout = report.at("layout");
  if (!layout.is_null()) table.add({"layout", layout_text(layout)});
  if (!tied.is_null()) table.add({"tied head", tied.get<bool>() ? "yes" : "no"});
  table.add({"tokenizer", tokenizer_text(report.at("tokenizer"))});
  return table.text();
}

std::string tensor_types_text(const ordered_json &types) {
  TextTable table("tensor types", "lrr");
  for (const auto &type : types) {
    table.add({value_text(type.at("type")),
               count_text(type.at("n_tensors").get<size_t>(), "tensor"),
               size_text(type.at("size_bytes"))});
  }
  return table.text();
}

std::string tensors_text(const ordered_json &tensors) {
  TextTable table("tensors", "lllrl");
  for (const auto &tensor : tensors) {
    const auto layouts = tensor.at("layout").get<std::vector<std::string>>();
    table.add({value_text(tensor.at("name")), value_text(tensor.at("type")),
               shape_text(tensor.at("shape")), size_text(tensor.at("size_bytes")),
               fmt::format("{}", fmt::join(layouts, ", "))});
  }
  return table.text();
}

std::string uses_text(const ordered_json &uses) {
  TextTable table("adapters may target", "lll");
  for (const auto &use : uses) {
    table.add(
        {value_text(use.at("name")), value_text(use.at("kind")), shape_text(use.at("shape"))});
  }
  return table.text();
}

std::string adaptable_text(const ordered_json &adaptable) {
  if (adaptable.is_null()) return {};
  if (adaptable.contains("uses")) return uses_text(adaptable.at("uses"));
  std::string kinds;
  for (const auto &[kind, n] : adaptable.at("n_by_kind").items()) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", n.get<size_t>(), kind);
  }
  return modules_text(fmt::format("adapters may target ({})", kinds), adaptable.at("modules"));
}

std::string model_text(const ordered_json &report) {
  std::string text = model_head(report);
  text += values_text("hyper-parameters", report.at("hyper_parameters"));
  text += tensor_types_text(report.at("tensor_types"));
  text += adaptable_text(report.at("adaptable"));
  text += metadata_text(report.at("metadata"));
  if (report.contains("tensors")) text += tensors_text(report.at("tensors"));
  return text;
}

/// A line only where there is something to say.
void add_unless_empty(TextTable &table, const char *label, const ordered_json &value) {
  const bool empty_text = value.is_string() && value.get_ref<const std::string &>().empty();
  if (!value.empty() && !empty_text) table.add({label, value_text(value)});
}

std::string fit_text(const ordered_json &fit) {
  if (fit.is_null()) return "not checked (--base MODEL does)";
  const std::string base = long_text(fit.at("base"));
  if (fit.at("fits").get<bool>()) return "fits " + base;
  return fmt::format("does not fit {}: {}", base, long_text(fit.at("error")));
}

std::string adapter_head(const ordered_json &report) {
  TextTable table("adapter", "ll");
  table.add({"path", long_text(report.at("path"))});
  table.add({"format", report.at("format") == "gguf" ? "GGUF" : "PEFT folder"});
  table.add({"name", value_text(report.at("name"))});
  add_unless_empty(table, "architecture", report.at("architecture"));
  add_unless_empty(table, "trained on", report.at("base_name"));
  table.add({"fit", fit_text(report.at("fit"))});
  table.add({"pairs", fmt::format("{}, {}", report.at("n_pairs").get<size_t>(),
                                  size_text(report.at("factor_bytes")))});
  table.add({"alpha", number_text(report.at("alpha"))});
  table.add({"ranks", counts_text(report.at("ranks"), "n_rank")});
  table.add({"scales", counts_text(report.at("scales"), "scale")});
  add_unless_empty(table, "aLoRA tokens", report.at("invocation_tokens"));
  add_unless_empty(table, "aLoRA text", report.at("invocation_text"));
  add_unless_empty(table, "task", report.at("task_name"));
  add_unless_empty(table, "prompt prefix", report.at("prompt_prefix"));
  return table.text();
}

std::string percent_text(const ordered_json &part) {
  return part.is_null() ? "-" : fmt::format("{:.3g} %", 100 * part.get<double>());
}

std::string pairs_text(const ordered_json &pairs) {
  TextTable table("pairs", "llrrllrrrr");
  table.add({"target", "kind", "rank", "scale", "A", "B", "|A|", "|B|", "|s B A|", "of |W|"});
  for (const auto &pair : pairs) {
    const auto factor = [&](const char *type, const char *shape) {
      return fmt::format("{} {}", value_text(pair.at(type)), shape_text(pair.at(shape)));
    };
    table.add({value_text(pair.at("target")), value_text(pair.at("kind")),
               number_text(pair.at("n_rank")), number_text(pair.at("scale")),
               factor("type_a", "shape_a"), factor("type_b", "shape_b"),
               number_text(pair.at("norm_a")), number_text(pair.at("norm_b")),
               number_text(pair.at("norm_delta")), percent_text(pair.at("relative_change"))});
  }
  return pairs.empty() ? "" : table.text();
}

/// Tensors that no pair is on.
std::string others_text(const ordered_json &report) {
  TextTable table("other tensors that move", "lr");
  table.add({"tensor", "of |W|"});
  bool is_empty = true;
  for (const auto &movement : report.at("movements")) {
    const auto has_pair = [&](const ordered_json &pair) {
      return pair.at("target") == movement.at("tensor");
    };
    if (std::ranges::any_of(report.at("pairs"), has_pair)) continue;
    table.add({value_text(movement.at("tensor")), percent_text(movement.at("relative_change"))});
    is_empty = false;
  }
  return is_empty ? "" : table.text();
}

std::string adapter_text(const ordered_json &report) {
  std::string text = adapter_head(report);
  const auto &fit = report.at("fit");
  if (!fit.is_null()) text += list_text("with this base", fit.at("outlook"));
  text += list_text("problems", report.at("problems"));
  text += list_text("notes", report.at("notes"));
  text += modules_text("targets", report.at("targets"));
  if (report.contains("config")) text += values_text("config", report.at("config"));
  if (report.contains("metadata")) text += metadata_text(report.at("metadata"));
  if (report.contains("pairs")) {
    text += pairs_text(report.at("pairs"));
    text += others_text(report);
  }
  return text;
}

}  // namespace

std::string report_text(const ordered_json &report) {
  const std::string text = report.at("kind") == "model" ? model_text(report) : adapter_text(report);
  return text.substr(1);  // the empty line before the first title
}

}  // namespace patchbay
