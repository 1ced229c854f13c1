#include "apps/interrupts.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

#include "base/error.h"

namespace patchbay {

Interrupts::Interrupts(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw LoadError({.problem = "signals cannot be waited for"});
}

Interrupts::~Interrupts() { close(fd_); }

int Interrupts::take_signal() {
  int signal = 0;
  signalfd_siginfo info{};
  while (read(fd_, &info, sizeof info) == sizeof info) signal = static_cast<int>(info.ssi_signo);
  return signal;
}

bool Interrupts::wait_for(int fd) {
  std::array<pollfd, 2> both{{{.fd = fd_, .events = POLLIN}, {.fd = fd, .events = POLLIN}}};
  while (true) {
    // Another signal, such as that of a terminal that was resized, ends nothing.
    if (poll(both.data(), both.size(), -1) < 0) continue;
    if (take()) return false;
    if (both[1].revents != 0) return true;
  }
}

}  // namespace patchbay
