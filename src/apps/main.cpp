#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "apps/command_line.h"
#include "apps/commands.h"
#include "base/error.h"

namespace {

/// A standard stream that the caller closed would give its number to the next file opened, and what
/// is printed would go there. Standard output stays without writing, so that printing fails.
void occupy_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    if (open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) != fd) return;
  }
}

/// Not fmt::print: it throws where standard error cannot be written, and nothing is left to catch
/// that.
int report(const char *what, int exit_code) {
  std::fputs(fmt::format("patchbay: {}\n", what).c_str(), stderr);
  return exit_code;
}

/// An answer that did not arrive, on a full disk for instance, is no success.
int check_output(int exit_code) {
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return arrived ? exit_code
                 : report("standard output cannot be written", patchbay::k_exit_failure);
}

}  // namespace

int main(int argc, char **argv) {
  using namespace patchbay;
  occupy_closed_streams();
  signal(SIGXFSZ, SIG_IGN);  // a file that would be too long is an error of writing it
  try {
    const CommandLine line = parse_command_line(argc, argv);
    return check_output(line.command ? line.command() : line.exit_code);
  } catch (const UsageError &error) {
    return report(error.what(), k_exit_usage);
  } catch (const std::invalid_argument &error) {  // a request that this model cannot take
    return report(error.what(), k_exit_usage);
  } catch (const std::bad_alloc &) {
    return report("out of memory", k_exit_failure);
  } catch (const std::exception &error) {
    return report(error.what(), k_exit_failure);
  }
}
