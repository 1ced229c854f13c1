#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/interrupts.h"

namespace patchbay {

/// Reads lines from standard input: with editing and history where it is a terminal, else as they
/// come. One object at a time.
class LineReader {
 public:
  /// `prompt` is shown on terminals. `interrupts` outlives the object.
  LineReader(std::string prompt, Interrupts &interrupts);
  ~LineReader();
  LineReader(const LineReader &) = delete;
  LineReader &operator=(const LineReader &) = delete;

  [[nodiscard]] bool is_terminal() const { return editor_ != nullptr; }

  /// The next line without its end; none: there are no more. Ctrl-C gives up what was typed, as an
  /// empty line; where it is no terminal, it ends the lines.
  [[nodiscard]] std::optional<std::string> next();

 private:
  struct Editor;

  [[nodiscard]] std::optional<std::string> next_plain();

  Interrupts &interrupts_;
  std::unique_ptr<Editor> editor_;  // null: no terminal
  std::string waiting_;             // what was read and not asked for, of no terminal
  bool is_over_ = false;
};

}  // namespace patchbay
