#include "server/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace patchbay {
namespace {

/// The fields of /proc/self/stat from the third one on (proc(5)): the second, the program's name,
/// may hold blanks.
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

double boot_time() {
  std::ifstream file("/proc/stat");
  std::string word;
  double time = 0;
  while (file >> word) {
    if (word == "btime" && file >> time) return time;
  }
  return 0;
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  constexpr size_t k_first = 3;
  const auto fields = stat_fields();
  const auto number = [&](size_t i) {
    return i - k_first < fields.size() ? std::stod(fields[i - k_first]) : 0.0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  stats.cpu_s = (number(14) + number(15)) / ticks;
  stats.virtual_bytes = static_cast<uint64_t>(number(23));
  stats.rss_bytes = static_cast<uint64_t>(number(24)) * static_cast<uint64_t>(getpagesize());
  if (!fields.empty()) stats.started_at = boot_time() + number(22) / ticks;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error))
    ++stats.n_open_fds;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.n_max_fds = limit.rlim_cur;
  return stats;
}

}  // namespace patchbay
