#include "apps/line_reader.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>

namespace patchbay {
namespace {

constexpr int k_n_remembered = 1000;

/// libedit drops whatever is no ASCII where the locale knows no UTF-8.
void want_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// One character of standard input: 1, 0 at the end, -1 for an error, EINTR for Ctrl-C.
int read_char(Interrupts &interrupts, wchar_t *character) {
  std::mbstate_t state{};
  while (true) {
    if (!interrupts.wait_for(STDIN_FILENO)) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t n_read = read(STDIN_FILENO, &byte, 1);
    if (n_read <= 0) return static_cast<int>(n_read);
    const size_t n_used = std::mbrtowc(character, &byte, 1, &state);
    if (n_used == static_cast<size_t>(-2)) continue;  // there is more of it
    if (n_used == 0) continue;  // a Ctrl-D from before the editor had the terminal
    if (n_used != static_cast<size_t>(-1)) return 1;
    state = {};
  }
}

}  // namespace

struct LineReader::Editor {
  Editor(std::string prompt_text, Interrupts &interrupts_of)
      : prompt(std::move(prompt_text)), interrupts(interrupts_of) {
    want_utf8();
    editor = el_init("patchbay", stdin, stdout, stderr);
    history = history_init();
    HistEvent event{};
    ::history(history, &event, H_SETSIZE, k_n_remembered);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, show_prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, history);
    el_set(editor, EL_GETCFN, get_char);
    el_source(editor, nullptr);  // ~/.editrc
  }
  ~Editor() {
    history_end(history);
    el_end(editor);
  }
  Editor(const Editor &) = delete;
  Editor &operator=(const Editor &) = delete;

  static Editor &self(EditLine *of) {
    void *found = nullptr;
    el_get(of, EL_CLIENTDATA, &found);
    return *static_cast<Editor *>(found);
  }
  static char *show_prompt(EditLine *of) { return self(of).prompt.data(); }
  /// libedit's own goes on reading after a signal.
  static int get_char(EditLine *of, wchar_t *character) {
    return read_char(self(of).interrupts, character);
  }

  std::optional<std::string> next() {
    int n_bytes = 0;
    errno = 0;
    const char *line = el_gets(editor, &n_bytes);
    if (line == nullptr) {
      const bool was_interrupted = n_bytes < 0 && errno == EINTR;
      std::fputc('\n', stdout);
      if (!was_interrupted) return std::nullopt;
      el_reset(editor);
      return "";
    }
    std::string text(line, static_cast<size_t>(n_bytes));
    if (text.ends_with('\n')) text.pop_back();
    HistEvent event{};
    if (!text.empty()) ::history(history, &event, H_ENTER, text.c_str());
    return text;
  }

  std::string prompt;
  Interrupts &interrupts;
  EditLine *editor = nullptr;
  History *history = nullptr;
};

LineReader::LineReader(std::string prompt, Interrupts &interrupts) : interrupts_(interrupts) {
  if (isatty(STDIN_FILENO) == 1) editor_ = std::make_unique<Editor>(std::move(prompt), interrupts);
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::next() {
  return editor_ != nullptr ? editor_->next() : next_plain();
}

std::optional<std::string> LineReader::next_plain() {
  size_t end = waiting_.find('\n');
  while (end == std::string::npos && !is_over_) {
    std::array<char, 4096> part{};
    const ssize_t n_read =
        interrupts_.wait_for(STDIN_FILENO) ? read(STDIN_FILENO, part.data(), part.size()) : 0;
    is_over_ = n_read <= 0;
    if (is_over_) break;
    waiting_.append(part.data(), static_cast<size_t>(n_read));
    end = waiting_.find('\n');
  }
  if (end == std::string::npos && waiting_.empty()) return std::nullopt;
  std::string line = waiting_.substr(0, end);
  waiting_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

}  // namespace patchbay
