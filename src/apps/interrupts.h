#pragma once

#include <csignal>
#include <initializer_list>

namespace patchbay {

/// Signals, Ctrl-C (SIGINT) if nothing else is said, as something to ask for, in place of the
/// program's end. Made before any other thread, all of which then leave them alone. One at a time.
class Interrupts {
 public:
  /// Throws LoadError: the system has no more descriptors.
  explicit Interrupts(std::initializer_list<int> signals = {SIGINT});
  ~Interrupts();
  Interrupts(const Interrupts &) = delete;
  Interrupts &operator=(const Interrupts &) = delete;

  /// Which of them came last since the last time this was asked; 0: none.
  [[nodiscard]] int take_signal();
  /// Whether one came.
  [[nodiscard]] bool take() { return take_signal() != 0; }
  /// Waits until `fd` can be read; false: a signal came first.
  [[nodiscard]] bool wait_for(int fd);

 private:
  int fd_ = -1;
};

}  // namespace patchbay
