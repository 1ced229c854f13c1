#include "model/hadamard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

constexpr std::string_view k_prefix = "prism.hadamard.";
constexpr const char *k_version = "prism.hadamard.version";
constexpr const char *k_transform = "prism.hadamard.transform";
constexpr const char *k_axis = "prism.hadamard.axis";
constexpr const char *k_block_size = "prism.hadamard.block_size";
constexpr const char *k_sign_mode = "prism.hadamard.sign_mode";
constexpr const char *k_sign_widths = "prism.hadamard.sign_widths";
constexpr const char *k_sign_values = "prism.hadamard.sign_values";
constexpr const char *k_weight_names = "prism.hadamard.weight_names";
constexpr const char *k_inverse_weight_names = "prism.hadamard.inverse_weight_names";
constexpr const char *k_gdn_v_grouped = "prism.hadamard.gdn_v_grouped";

constexpr std::array k_known{
    k_version,     k_transform,   k_axis,         k_block_size,           k_sign_mode,
    k_sign_widths, k_sign_values, k_weight_names, k_inverse_weight_names, k_gdn_v_grouped};

[[noreturn]] void refuse(const std::string &path, std::string item, std::string problem,
                         std::string wanted, std::string found) {
  throw LoadError({.path = path,
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

void require(const GgufFile &file, const char *key) {
  if (!file.has(key)) refuse(file.path(), key, "is missing", "", "");
}

/// Whether any key speaks of a folding. One that is not known may change the maths.
bool is_folded(const GgufFile &file) {
  bool any = false;
  for (const auto &entry : file.entries()) {
    if (!entry.key.starts_with(k_prefix)) continue;
    any = true;
    if (std::ranges::find(k_known, entry.key) == k_known.end()) {
      refuse(file.path(), entry.key, "is a setting of Hadamard folding that is not known", "", "");
    }
  }
  return any;
}

void expect_string(const GgufFile &file, const char *key, std::string_view wanted) {
  const std::string found = file.require_string(key);
  if (found == wanted) return;
  refuse(file.path(), key, "is a form of Hadamard folding that is not known",
         fmt::format("'{}'", wanted), fmt::format("'{}'", printable(found)));
}

void check_form(const GgufFile &file) {
  constexpr uint32_t k_known_version = 1;
  const uint32_t version = file.require_u32(k_version);
  if (version != k_known_version) {
    refuse(file.path(), k_version, "is a version of Hadamard folding that is not known",
           fmt::format("{}", k_known_version), fmt::format("{}", version));
  }
  expect_string(file, k_transform, "normalized-sylvester-walsh-hadamard");
  expect_string(file, k_axis, "input-last-dimension");
  if (file.get_bool(k_gdn_v_grouped).value_or(false)) {
    refuse(file.path(), k_gdn_v_grouped, "is for gated delta nets, which no known family has",
           "false", "true");
  }
}

int64_t read_block_size(const GgufFile &file) {
  const uint32_t block_size = file.require_u32(k_block_size);
  if (!std::has_single_bit(block_size)) {
    refuse(file.path(), k_block_size, "has a value that cannot be used", "a power of two",
           fmt::format("{}", block_size));
  }
  return block_size;
}

std::set<std::string, std::less<>> read_names(const GgufFile &file, const char *key) {
  std::set<std::string, std::less<>> names;
  const auto views = file.get_strings(key).value_or(std::vector<std::string_view>{});
  for (const auto name : views) {
    if (file.find_tensor(name) == nullptr) {
      refuse(file.path(), key, "names a tensor that the file does not have", "",
             fmt::format("'{}'", printable(name)));
    }
    if (!names.emplace(name).second) {
      refuse(file.path(), key, "names a tensor twice", "", fmt::format("'{}'", printable(name)));
    }
  }
  return names;
}

void read_all_names(const GgufFile &file, HadamardFolding &folding) {
  require(file, k_weight_names);
  folding.linears = read_names(file, k_weight_names);
  folding.tables = read_names(file, k_inverse_weight_names);
  for (const auto &name : folding.tables) {
    if (!folding.linears.contains(name)) continue;
    refuse(file.path(), k_inverse_weight_names, "names a tensor that weight_names has as well", "",
           fmt::format("'{}'", printable(name)));
  }
  if (folding.linears.empty() && folding.tables.empty()) {
    refuse(file.path(), k_weight_names, "names no tensor, and no other key does", "", "");
  }
}

/// The input widths of the folded weights, each a whole number of blocks.
std::set<int64_t> folded_widths(const GgufFile &file, const HadamardFolding &folding) {
  std::set<int64_t> widths;
  for (const auto *names : {&folding.linears, &folding.tables}) {
    for (const auto &name : *names) {
      const int64_t width = file.find_tensor(name)->ne[0];
      if (width % folding.block_size != 0) {
        refuse(file.path(), name, "is folded in blocks that do not divide its rows",
               fmt::format("a multiple of {}", folding.block_size), fmt::format("{}", width));
      }
      widths.insert(width);
    }
  }
  return widths;
}

/// The next `width` signs of `values` as numbers.
std::vector<float> take_signs(const GgufFile &file, int64_t width, bool all_plus,
                              std::span<const int64_t> &values) {
  if (width < 1 || static_cast<uint64_t>(width) > values.size()) {
    refuse(file.path(), k_sign_values, "does not hold one sign for each number of sign_widths",
           fmt::format("{} more", width), fmt::format("{}", values.size()));
  }
  const auto own = values.first(static_cast<size_t>(width));
  values = values.subspan(own.size());
  const auto bad = std::ranges::find_if(
      own, [all_plus](int64_t value) { return value != 1 && (all_plus || value != -1); });
  if (bad != own.end()) {
    refuse(file.path(), k_sign_values, "holds a number that is no sign",
           all_plus ? "1, as sign_mode 'identity' says" : "1 or -1", fmt::format("{}", *bad));
  }
  return {own.begin(), own.end()};
}

std::vector<int64_t> require_ints(const GgufFile &file, const char *key) {
  require(file, key);
  return file.get_ints(key).value_or(std::vector<int64_t>{});
}

/// The sign vectors of sign_widths and sign_values, which must cover each other and `widths`.
std::map<int64_t, std::vector<float>> cut_signs(const GgufFile &file,
                                                const std::set<int64_t> &widths, bool all_plus) {
  const auto given_widths = require_ints(file, k_sign_widths);
  const auto all_values = require_ints(file, k_sign_values);
  std::span<const int64_t> values = all_values;
  std::map<int64_t, std::vector<float>> signs;
  for (const int64_t width : given_widths) {
    if (!widths.contains(width) || signs.contains(width)) {
      refuse(file.path(), k_sign_widths, "must list each input width of a folded weight once",
             fmt::format("{}", fmt::join(widths, ", ")), fmt::format("{}", width));
    }
    signs[width] = take_signs(file, width, all_plus, values);
  }
  if (!values.empty()) {
    refuse(file.path(), k_sign_values, "holds more signs than sign_widths has numbers", "",
           fmt::format("{} more", values.size()));
  }
  for (const int64_t width : widths) {
    if (signs.contains(width)) continue;
    refuse(file.path(), k_sign_widths, "has no signs for an input width of a folded weight",
           fmt::format("{}", width), "");
  }
  return signs;
}

std::map<int64_t, std::vector<float>> read_signs(const GgufFile &file,
                                                 const std::set<int64_t> &widths) {
  const std::string mode = file.require_string(k_sign_mode);
  if (mode == "explicit") return cut_signs(file, widths, /*all_plus=*/false);
  if (mode != "identity") {
    refuse(file.path(), k_sign_mode, "has a value that cannot be used", "'identity' or 'explicit'",
           fmt::format("'{}'", printable(mode)));
  }
  // Signs may be left out here, but those that are given must say the same as the mode.
  if (file.has(k_sign_widths) || file.has(k_sign_values)) {
    (void)cut_signs(file, widths, /*all_plus=*/true);
  }
  return {};
}

/// The tensor that holds the numbers of a use.
std::string_view stored_name(const BaseInfo &base, const AdaptableUse &use) {
  const bool is_tied = base.tied_head && use.name == "output.weight";
  return is_tied ? "token_embd.weight" : std::string_view(use.name);
}

}  // namespace

std::optional<HadamardFolding> read_hadamard(const GgufFile &file) {
  if (!is_folded(file)) return std::nullopt;
  check_form(file);
  HadamardFolding folding{.block_size = read_block_size(file)};
  read_all_names(file, folding);
  folding.signs = read_signs(file, folded_widths(file, folding));
  return folding;
}

void settle_folding(const HadamardFolding &folding, BaseInfo &base) {
  const auto check = [&base](const char *key, const std::string &name, bool wants_table) {
    const AdaptableUse *use = base.find_use(name);
    if (use != nullptr && (use->kind == UseKind::embed) == wants_table) return;
    refuse(base.path, key, "names a tensor that the graph would not transform",
           wants_table ? "a table whose rows are looked up" : "a matrix that is only multiplied",
           fmt::format("'{}'", printable(name)));
  };
  for (const auto &name : folding.linears) check(k_weight_names, name, false);
  for (const auto &name : folding.tables) check(k_inverse_weight_names, name, true);
  for (auto &use : base.uses) use.rotated_table = folding.tables.contains(stored_name(base, use));
}

}  // namespace patchbay
