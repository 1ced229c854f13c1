#pragma once

#include <functional>

namespace patchbay {

/// What a command line asks for: a command to run, or only an exit code when help, version or an
/// error has been printed.
struct CommandLine {
  std::function<int()> command;
  int exit_code = 0;
};

/// Reads the command line. CLI11 is known here and to the options of the commands only.
[[nodiscard]] CommandLine parse_command_line(int argc, char **argv);

}  // namespace patchbay
