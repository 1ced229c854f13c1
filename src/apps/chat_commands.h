#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace patchbay {

/// What a line typed into `patchbay chat` asks for.
struct ChatCommand {
  enum class Kind { say, adapter, strength, compare, system, clear, help, quit, unknown };

  Kind kind = Kind::say;
  std::string text{};  ///< what follows the command's name; for say and unknown, all of it
};

/// A line that begins with one slash is a command; with two, text that begins with one.
[[nodiscard]] ChatCommand parse_chat_command(std::string_view line);

/// A choice of adapters by number, with their strengths.
struct ChosenAdapter {
  size_t i_adapter = 0;
  float strength = 1;
};

/// Reads "NAME[:STRENGTH] ...", where `base` alone chooses none. A word that is a name is that
/// name, whatever characters it has. invalid_argument: a name that is none of `names` or comes
/// twice, a strength that is no finite number.
[[nodiscard]] Expected<std::vector<ChosenAdapter>> parse_chosen_adapters(
    std::string_view words, const std::vector<std::string> &names,
    const std::vector<float> &strengths);

/// One finite number. invalid_argument: anything else.
[[nodiscard]] Expected<float> parse_strength(std::string_view text);

}  // namespace patchbay
