#include "apps/chat_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

namespace patchbay {
namespace {

using Kind = ChatCommand::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 8> k_names{{{"/adapter", Kind::adapter},
                                                                    {"/strength", Kind::strength},
                                                                    {"/compare", Kind::compare},
                                                                    {"/system", Kind::system},
                                                                    {"/clear", Kind::clear},
                                                                    {"/help", Kind::help},
                                                                    {"/quit", Kind::quit},
                                                                    {"/exit", Kind::quit}}};

std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

size_t number_of(std::string_view name, const std::vector<std::string> &names) {
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

Expected<ChosenAdapter> parse_one(const std::string &word, const std::vector<std::string> &names,
                                  const std::vector<float> &strengths) {
  const size_t exact = number_of(word, names);
  if (exact < names.size()) return ChosenAdapter{exact, strengths[exact]};
  const size_t colon = word.rfind(':');
  const size_t found = number_of(word.substr(0, colon), names);
  if (found == names.size()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is no adapter '{}'", word.substr(0, colon)));
  }
  const auto strength = parse_strength(std::string_view(word).substr(colon + 1));
  if (!strength) return tl::unexpected(strength.error());
  return ChosenAdapter{found, *strength};
}

}  // namespace

ChatCommand parse_chat_command(std::string_view line) {
  if (line.starts_with("//")) return {.text = std::string(line.substr(1))};
  if (!line.starts_with('/')) return {.text = std::string(line)};
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const auto named =
      std::ranges::find(k_names, line.substr(0, end), &std::pair<std::string_view, Kind>::first);
  if (named == k_names.end()) return {.kind = Kind::unknown, .text = std::string(line)};
  return {.kind = named->second, .text = std::string(without_blanks_before(line.substr(end)))};
}

Expected<std::vector<ChosenAdapter>> parse_chosen_adapters(std::string_view words,
                                                           const std::vector<std::string> &names,
                                                           const std::vector<float> &strengths) {
  std::istringstream stream{std::string(words)};
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  std::vector<ChosenAdapter> chosen;
  if (list.size() == 1 && list[0] == "base" && number_of("base", names) == names.size())
    return chosen;
  for (const auto &word : list) {
    const auto one = parse_one(word, names, strengths);
    if (!one) return tl::unexpected(one.error());
    if (std::ranges::find(chosen, one->i_adapter, &ChosenAdapter::i_adapter) != chosen.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the adapter '{}' is there twice", names[one->i_adapter]));
    }
    chosen.push_back(*one);
  }
  return chosen;
}

Expected<float> parse_strength(std::string_view text) {
  float strength = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), strength);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  if (is_all && std::isfinite(strength)) return strength;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no strength", text));
}

}  // namespace patchbay
