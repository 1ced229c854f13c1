#include "server/metrics_text.h"

#include <fmt/format.h>

#include <cmath>

namespace patchbay {
namespace {

const char *to_string(MetricsText::Type type) {
  switch (type) {
    case MetricsText::Type::counter:
      return "counter";
    case MetricsText::Type::gauge:
      return "gauge";
    case MetricsText::Type::histogram:
      return "histogram";
    case MetricsText::Type::summary:
      return "summary";
  }
  return "untyped";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// The three characters that end or escape a label's value.
void append_escaped(std::string &text, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

}  // namespace

void MetricsText::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  header_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, to_string(type));
}

void MetricsText::sample(const Labels &labels, double value) { line("", labels, value); }

void MetricsText::sum(const Labels &labels, double sum, double count) {
  line("_sum", labels, sum);
  line("_count", labels, count);
}

void MetricsText::histogram(const Labels &labels, const HistogramCounts &counts) {
  uint64_t n = 0;
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (size_t i = 0; i < counts.counts.size(); ++i) {
    n += counts.counts[i];
    with_bound.back().second = i < counts.bounds.size() ? number(counts.bounds[i]) : "+Inf";
    line("_bucket", with_bound, static_cast<double>(n));
  }
  sum(labels, counts.sum, static_cast<double>(n));
}

void MetricsText::line(std::string_view suffix, const Labels &labels, double value) {
  text_ += std::exchange(header_, {});
  text_ += name_;
  text_ += suffix;
  char before = '{';
  for (const auto &[name, label] : labels) {
    text_ += before;
    text_ += name;
    text_ += "=\"";
    append_escaped(text_, label);
    text_ += '"';
    before = ',';
  }
  if (!labels.empty()) text_ += '}';
  text_ += ' ';
  text_ += number(value);
  text_ += '\n';
}

}  // namespace patchbay
