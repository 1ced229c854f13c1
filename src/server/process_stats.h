#pragma once

#include <cstdint>

namespace patchbay {

/// What the system says of this process. What cannot be read is 0.
struct ProcessStats {
  double cpu_s = 0;        ///< user and system
  uint64_t rss_bytes = 0;  ///< in memory
  uint64_t virtual_bytes = 0;
  uint32_t n_open_fds = 0;
  uint64_t n_max_fds = 0;
  double started_at = 0;  ///< Unix time
};

/// Any thread.
[[nodiscard]] ProcessStats read_process_stats();

}  // namespace patchbay
