#include <fmt/format.h>

#include <new>

#include "apps/command_line.h"
#include "apps/commands.h"
#include "base/error.h"

namespace {

int report(const char *what, int exit_code) {
  fmt::print(stderr, "patchbay: {}\n", what);
  return exit_code;
}

}  // namespace

int main(int argc, char **argv) {
  using namespace patchbay;
  try {
    const CommandLine line = parse_command_line(argc, argv);
    return line.command ? line.command() : line.exit_code;
  } catch (const UsageError &error) {
    return report(error.what(), k_exit_usage);
  } catch (const std::bad_alloc &) {
    return report("out of memory", k_exit_failure);
  } catch (const std::exception &error) {
    return report(error.what(), k_exit_failure);
  }
}
