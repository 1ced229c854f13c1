#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace patchbay {

/// While it lives no file of this process may grow beyond so many bytes: as on a full disk, a write
/// fails half-way.
class FileLimit {
 public:
  explicit FileLimit(rlim_t n_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{.rlim_cur = n_bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileLimit(const FileLimit &) = delete;
  FileLimit &operator=(const FileLimit &) = delete;
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace patchbay
