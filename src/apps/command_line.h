#pragma once

#include <functional>

namespace patchbay {

/// What a command line asks for: a command to run, or only an exit code when help, version or an
/// error has been printed.
struct CommandLine {
  std::function<int()> command;
  int exit_code = 0;
};

/// Reads the command line. The only file that includes CLI11.
[[nodiscard]] CommandLine parse_command_line(int argc, char **argv);

}  // namespace patchbay
