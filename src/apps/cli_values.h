#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace patchbay {

/// All of `text` as a number of type T within [low, high]; CLI11's own conversions let -1 and 2^64
/// through for unsigned types and nan for floats.
template <class T>
T parse_number(const std::string &text, T low, T high) {
  T value{};
  const bool has_plus = text.starts_with('+') && !text.starts_with("+-");
  const char *begin = text.data() + (has_plus ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= low && value <= high)) {
    throw CLI::ValidationError(fmt::format("'{}' is not a number from {} to {}", text, low, high));
  }
  return value;
}

/// The same for an option, which the error names.
template <class T>
T parse_named_number(const std::string &names, const std::string &text, T low, T high) {
  try {
    return parse_number<T>(text, low, high);
  } catch (const CLI::ValidationError &error) {
    throw CLI::ValidationError(names, error.what());
  }
}

/// For an option that names a file: "" is a shell variable that was not set, not the default.
[[nodiscard]] inline std::string check_not_empty(const std::string &text) {
  return text.empty() ? "names no file" : "";
}

/// An option whose number goes to `take`.
template <class T, class Take>
CLI::Option *number_for(CLI::App &app, const std::string &names, T low, T high, const Take &take,
                        const std::string &what) {
  return app
      .add_option_function<std::string>(
          names,
          [names, low, high, take](const std::string &text) {
            take(parse_named_number<T>(names, text, low, high));
          },
          what)
      ->type_name("N");
}

template <class T>
CLI::Option *number(CLI::App &app, const std::string &names, T &target, T low, T high,
                    const std::string &what) {
  return number_for<T>(
             app, names, low, high, [&target](T value) { target = value; }, what)
      ->default_str(fmt::format("{}", target))
      ->run_callback_for_default(false);
}

/// The same for what has no default of its own.
template <class T>
CLI::Option *number(CLI::App &app, const std::string &names, std::optional<T> &target, T low,
                    T high, const std::string &what) {
  return number_for<T>(app, names, low, high, [&target](T value) { target = value; }, what);
}

/// The same where -1 stands for the default, as in llama-server.
template <class T>
CLI::Option *number_or_default(CLI::App &app, const std::string &names, T &target, T low, T high,
                               const std::string &what) {
  return app
      .add_option_function<std::string>(
          names,
          [&target, names, low, high](const std::string &text) {
            if (text != "-1") target = parse_named_number<T>(names, text, low, high);
          },
          what)
      ->type_name("N")
      ->default_str(fmt::format("{}", target));
}

/// A flag that turns `target` off. CLI11's own negated flags show as "--no-x{false}".
inline void switch_off(CLI::App &app, const std::string &name, bool &target,
                       const std::string &what) {
  app.add_flag_callback(name, [&target] { target = false; }, what);
}

/// A number of bytes, with K, M or G for the powers of 1024.
[[nodiscard]] inline size_t parse_bytes(const std::string &name, const std::string &text,
                                        size_t least = 1) {
  constexpr std::string_view k_units = "KMG";
  const size_t unit = text.empty() ? std::string::npos : k_units.find(text.back());
  const bool has_unit = unit != std::string::npos;
  const size_t factor = has_unit ? size_t{1} << (10 * (unit + 1)) : 1;
  const std::string number = has_unit ? text.substr(0, text.size() - 1) : text;
  return factor * parse_named_number<size_t>(name, number, least,
                                             std::numeric_limits<size_t>::max() / factor);
}

/// An option for a number of bytes.
inline CLI::Option *bytes(CLI::App &app, const std::string &name, size_t &target,
                          const std::string &what) {
  return app
      .add_option_function<std::string>(
          name, [&target, name](const std::string &text) { target = parse_bytes(name, text); },
          what + ", in bytes or as 64M or 2G")
      ->type_name("SIZE");
}

/// Two flags, --NAME and --no-NAME.
inline void on_off(CLI::App &app, const std::string &name, bool &target, const std::string &what) {
  const std::string otherwise = target ? " (default)" : "";
  auto *on = app.add_flag_callback("--" + name, [&target] { target = true; }, what + otherwise);
  auto *off = app.add_flag_callback(
      "--no-" + name, [&target] { target = false; },
      target ? "turn that off" : "leave that off (default)");
  on->excludes(off);
}

/// A list that an option may be given several times for.
inline CLI::Option *repeatable(CLI::App &app, const std::string &names,
                               std::vector<std::string> &target, const std::string &what) {
  return app.add_option(names, target, what)->type_size(1)->allow_extra_args(false);
}

/// One of several words.
template <class T>
CLI::Option *choice(CLI::App &app, const std::string &name,
                    const std::vector<std::pair<std::string, T>> &choices, auto &target,
                    const std::string &what) {
  return app
      .add_option_function<std::string>(
          name,
          [&target, name, choices](const std::string &text) {
            std::string words;
            for (const auto &[word, value] : choices) {
              words += (words.empty() ? "" : ", ") + word;
              if (word != text) continue;
              target = value;
              return;
            }
            throw CLI::ValidationError(name, fmt::format("'{}' is none of {}", text, words));
          },
          what)
      ->type_name("WORD");
}

}  // namespace patchbay
