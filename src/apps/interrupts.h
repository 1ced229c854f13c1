#pragma once

namespace patchbay {

/// Ctrl-C (SIGINT) as something to ask for, in place of the program's end. Made before any other
/// thread, all of which then leave it alone. One at a time.
class Interrupts {
 public:
  /// Throws LoadError: the system has no more descriptors.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts &) = delete;
  Interrupts &operator=(const Interrupts &) = delete;

  /// Whether it was pressed since the last time this was asked.
  [[nodiscard]] bool take();
  /// Waits until `fd` can be read; false: Ctrl-C came first.
  [[nodiscard]] bool wait_for(int fd);

 private:
  int fd_ = -1;
};

}  // namespace patchbay
