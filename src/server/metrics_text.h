#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/histogram.h"

namespace patchbay {

/// Writes Prometheus' text format, version 0.0.4
/// (https://prometheus.io/docs/instrumenting/exposition_formats/). Values are copied from where
/// they are kept anyway at each scrape, so nothing of a metrics library but its writer would be
/// used.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  enum class Type { counter, gauge, histogram, summary };

  /// Begins a family; its samples follow. One without samples is left out.
  void family(std::string_view name, Type type, std::string_view help);

  void sample(double value) { sample({}, value); }
  void sample(const Labels &labels, double value);
  /// Of a summary that has no quantiles.
  void sum(const Labels &labels, double sum, double count);
  void histogram(const Labels &labels, const HistogramCounts &counts);

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, const Labels &labels, double value);

  std::string text_;
  std::string name_;
  std::string header_;  // of the family, until its first sample
};

}  // namespace patchbay
