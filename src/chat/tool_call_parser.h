#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "chat/json_object_scanner.h"
#include "chat/tool_call_style.h"

namespace patchbay {

struct ContentDelta {
  std::string text;
};
struct ToolCallBegun {
  uint32_t i_call = 0;  ///< counts up from 0
  std::string name;
};
/// More of the arguments' JSON text, as the model wrote it, of the call that has begun last.
struct ArgumentsDelta {
  uint32_t i_call = 0;
  std::string text;
};
using AnswerDelta = std::variant<ContentDelta, ToolCallBegun, ArgumentsDelta>;

/// Tells the calls of an answer from its text while it is written. However the text is cut into
/// pieces, what comes out is the same when it is joined. Whatever is no call, because its JSON is
/// damaged or cut off or its name is none of the tools', comes out as content; only blanks around
/// calls are left out. One thread at a time.
class ToolCallParser {
 public:
  struct Options {
    ToolCallStyle style = ToolCallStyle::none;
    std::set<std::string> names{};  ///< of the tools
    uint32_t n_calls_max = 1U << 16U;
    /// The text is held to the calls' grammar, so arguments are passed on while they are written.
    /// Otherwise only once they are complete, as what turns out to be no call is content.
    bool is_certain = false;
  };

  explicit ToolCallParser(Options options);

  [[nodiscard]] std::vector<AnswerDelta> push(std::string_view text);
  /// What is left when nothing follows. Push nothing afterwards.
  [[nodiscard]] std::vector<AnswerDelta> finish();

  [[nodiscard]] uint32_t n_calls() const { return n_calls_; }

 private:
  enum class Place {
    start,       ///< where a call may stand without a tag
    text,        ///< until an opening tag
    call,        ///< in the JSON of one
    after_call,  ///< until a closing tag, or another call
  };

  void run();
  [[nodiscard]] bool step();
  [[nodiscard]] bool step_start();
  [[nodiscard]] bool step_text();
  [[nodiscard]] bool step_call();
  [[nodiscard]] bool step_after_call();
  void open_call(size_t n_before);
  void begin_call();
  void pass_arguments(size_t end);
  void end_call();
  void take_back();
  void emit_content(std::string_view text);
  [[nodiscard]] std::vector<AnswerDelta> take_deltas();

  Options options_;
  Place place_;
  std::string text_;     // not yet told; in a call, all of its JSON
  std::string opening_;  // of a call: what stood before its JSON
  JsonObjectScanner scanner_;
  size_t n_scanned_ = 0;       // of text_, in a call
  size_t n_passed_ = 0;        // of text_, in a call whose arguments are passed on already
  bool has_begun_ = false;     // the call, with begin_call()
  bool follows_call_ = false;  // no content since the last one
  uint32_t n_calls_ = 0;
  std::vector<AnswerDelta> deltas_;
};

}  // namespace patchbay
