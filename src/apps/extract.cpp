#include "tools/extract.h"
#include "base/cpu_affinity.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/extract_options.h"
#include "apps/inspect_pairs.h"
#include "apps/inspect_table.h"
#include "apps/progress_bar.h"
#include "tools/row_chunks.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

void check_usage(const ExtractArguments &arguments) {
  if (arguments.n_rank && arguments.energy) throw UsageError("--energy is for --rank auto");
  if (!arguments.n_rank && !arguments.energy) throw UsageError("--rank auto needs --energy");
}

ordered_json report_json(const ExtractReport &report, const std::string &output) {
  ordered_json json{{"file", output},
                    {"size_bytes", report.size_bytes},
                    {"n_equal", report.n_equal},
                    {"vectors", report.vectors},
                    {"notes", report.notes},
                    {"pairs", ordered_json::array()}};
  for (const auto &pair : report.pairs) {
    json["pairs"].push_back({{"target", pair.target},
                             {"kind", to_string(pair.kind)},
                             {"n_rank", pair.n_rank},
                             {"relative_change", pair.relative_change},
                             {"energy", pair.energy}});
  }
  return json;
}

std::string report_lines(const ExtractReport &report, const std::string &output) {
  TextTable table("pairs", "llrrr");
  table.add({"target", "kind", "rank", "|W' - W| / |W|", "energy kept"});
  for (const auto &pair : report.pairs) {
    table.add({terminal_text(pair.target), std::string(to_string(pair.kind)),
               fmt::format("{}", pair.n_rank), fmt::format("{:.3g}", pair.relative_change),
               fmt::format("{:.1f} %", 100 * pair.energy)});
  }
  TextTable vectors("norms and biases that differ", "l");
  for (const auto &name : report.vectors) vectors.add({terminal_text(name)});
  TextTable notes("notes", "l");
  for (const auto &note : report.notes) notes.add({note});
  const std::string total =
      fmt::format("\n{}: {}, {}, {} without a difference\n", terminal_text(output, 4000),
                  count_text(report.pairs.size(), "pair"), bytes_text(report.size_bytes),
                  count_text(report.n_equal, "weight"));
  const std::string tables = (report.pairs.empty() ? "" : table.text()) + vectors.text();
  return (tables + notes.text() + total).substr(1);
}

}  // namespace

int extract(const ExtractArguments &arguments) {
  check_usage(arguments);
  const auto base = load_model(arguments.base, WeightOptions::as_stored());
  const auto tuned = load_model(arguments.tuned, WeightOptions::as_stored());
  ProgressBar bar("extracting");
  const ExtractOptions options{
      .rank = {.n_rank = arguments.n_rank.value_or(std::numeric_limits<int64_t>::max()),
               .energy = arguments.energy},
      .type = arguments.type,
      .ignore_vectors = arguments.ignore_vectors,
      .n_threads = arguments.n_threads > 0 ? arguments.n_threads : n_allowed_cpus(),
      .progress = [&](size_t done, size_t all) { bar.show(done, all); }};
  const ExtractReport report = extract(*base, *tuned, arguments.output, options);
  if (arguments.json) {
    fmt::print("{}\n", report_json(report, arguments.output)
                           .dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", report_lines(report, arguments.output));
  }
  return 0;
}

}  // namespace patchbay
