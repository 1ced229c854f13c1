#include "chat/tool_call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace patchbay {
namespace {

using State = JsonObjectScanner::State;
using Member = JsonObjectScanner::Member;

constexpr std::string_view k_blanks = " \t\r\n";

size_t n_leading_blanks(std::string_view text) {
  return std::min(text.find_first_not_of(k_blanks), text.size());
}

bool is_blank(std::string_view text) { return n_leading_blanks(text) == text.size(); }

std::string_view without_trailing_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(k_blanks) + 1);
}

/// How much of the text's end begins `tag`, without being all of it.
size_t n_begun(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

/// The member of that key; none when it is there twice, as nobody knows which one is meant.
const Member *find(const std::vector<Member> &members, std::string_view quoted_key) {
  const Member *found = nullptr;
  for (const Member &member : members) {
    if (member.key != quoted_key) continue;
    if (found != nullptr) return nullptr;
    found = &member;
  }
  return found;
}

std::optional<std::string> text_of(std::string_view json) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

/// What is known of a call from its JSON so far.
struct CallHead {
  std::optional<std::string> name;
  const Member *arguments = nullptr;  ///< of which at least the beginning is there
};

CallHead head_of(const std::string &json, const std::vector<Member> &members) {
  CallHead head;
  const Member *name = find(members, "\"name\"");
  if (name != nullptr && name->end != std::string::npos)
    head.name = text_of(std::string_view(json).substr(name->begin, name->end - name->begin));
  for (const std::string_view key : {"\"arguments\"", "\"parameters\""}) {
    const Member *found = find(members, key);
    if (found != nullptr && found->begin != std::string::npos && json[found->begin] == '{')
      head.arguments = found;
  }
  return head;
}

bool has_arguments(const std::vector<Member> &members) {
  return std::ranges::any_of(members, [](const Member &member) {
    return member.key == "\"arguments\"" || member.key == "\"parameters\"";
  });
}

}  // namespace

ToolCallParser::ToolCallParser(Options options)
    : options_(std::move(options)),
      place_(options_.style == ToolCallStyle::llama3 ? Place::start : Place::text) {}

std::vector<AnswerDelta> ToolCallParser::push(std::string_view text) {
  text_ += text;
  run();
  return take_deltas();
}

std::vector<AnswerDelta> ToolCallParser::finish() {
  while (place_ == Place::call && !has_begun_) {
    take_back();
    run();
  }
  if (place_ == Place::call) {
    ++n_calls_;  // whose arguments are cut off
  } else if (!follows_call_ || !is_blank(text_)) {
    emit_content(text_);
  }
  text_.clear();
  return take_deltas();
}

void ToolCallParser::run() {
  while (step()) {
  }
}

/// Whether there may be more to do with the same text.
bool ToolCallParser::step() {
  switch (place_) {
    case Place::start:
      return step_start();
    case Place::text:
      return step_text();
    case Place::call:
      return step_call();
    case Place::after_call:
      return step_after_call();
  }
  return false;
}

bool ToolCallParser::step_start() {
  const size_t n_blanks = n_leading_blanks(text_);
  if (n_blanks == text_.size()) return false;
  if (text_[n_blanks] == '{') {
    open_call(n_blanks);
  } else {
    place_ = Place::text;
  }
  return true;
}

bool ToolCallParser::step_text() {
  const std::string_view tag = opening_tag(options_.style);
  if (tag.empty() || n_calls_ >= options_.n_calls_max) {
    if (follows_call_ && is_blank(text_)) return false;
    emit_content(text_);
    text_.clear();
    return false;
  }
  const size_t at = text_.find(tag);
  const bool is_call = at != std::string::npos;
  const size_t n_certain = is_call ? at : text_.size() - n_begun(text_, tag);
  // Blanks before a call are left out, so they wait for what follows.
  const std::string_view content = without_trailing_blanks(text_.substr(0, n_certain));
  const size_t n_content = content.size();
  if (n_content > 0) emit_content(text_.substr(0, n_content));
  text_.erase(0, n_content);
  if (is_call) open_call(at - n_content + tag.size());
  return is_call;
}

/// The text begins with a call, `n_before` bytes of it being blanks and a tag.
void ToolCallParser::open_call(size_t n_before) {
  opening_ = text_.substr(0, n_before);
  text_.erase(0, n_before);
  scanner_ = {};
  n_scanned_ = 0;
  n_passed_ = 0;
  has_begun_ = false;
  place_ = Place::call;
}

bool ToolCallParser::step_call() {
  while (n_scanned_ < text_.size() && scanner_.state() == State::open)
    scanner_.push(text_[n_scanned_++]);
  if (scanner_.state() == State::wrong) {
    take_back();
    return true;
  }
  if (options_.is_certain && !has_begun_) begin_call();
  if (has_begun_) pass_arguments(text_.size());
  if (scanner_.state() != State::complete) return false;
  if (!has_begun_) begin_call();
  if (!has_begun_) {
    // Nor is anything within it, a text that speaks of calls for instance.
    emit_content(opening_);
    emit_content(std::string_view(text_).substr(0, n_scanned_));
  }
  end_call();
  return true;
}

/// If it is one, and all that belongs in front of its arguments is known.
void ToolCallParser::begin_call() {
  const CallHead head = head_of(text_, scanner_.members());
  if (!head.name || !options_.names.contains(*head.name)) return;
  const bool is_tagged = !is_blank(opening_);
  const bool needs_none =
      scanner_.state() == State::complete && is_tagged && !has_arguments(scanner_.members());
  if (head.arguments == nullptr && !needs_none) return;
  deltas_.push_back(ToolCallBegun{n_calls_, *head.name});
  if (needs_none) deltas_.push_back(ArgumentsDelta{n_calls_, "{}"});
  if (head.arguments != nullptr) n_passed_ = head.arguments->begin;
  has_begun_ = true;
  pass_arguments(text_.size());
}

/// What there is of them before `end`.
void ToolCallParser::pass_arguments(size_t end) {
  const CallHead head = head_of(text_, scanner_.members());
  if (head.arguments == nullptr) return;
  end = std::min({end, head.arguments->end, n_scanned_});
  if (end <= n_passed_) return;
  deltas_.push_back(ArgumentsDelta{n_calls_, text_.substr(n_passed_, end - n_passed_)});
  n_passed_ = end;
}

void ToolCallParser::end_call() {
  text_.erase(0, n_scanned_);
  if (has_begun_) {
    ++n_calls_;
    follows_call_ = true;
  }
  place_ = has_begun_ ? Place::after_call : Place::text;
}

/// What was begun is no JSON: its opening is content, and the rest is read as text.
void ToolCallParser::take_back() {
  if (has_begun_) {
    text_.erase(0, n_passed_);
    ++n_calls_;
  } else {
    emit_content(opening_);
  }
  place_ = Place::text;
}

bool ToolCallParser::step_after_call() {
  const std::string_view tag = closing_tag(options_.style);
  size_t at = n_leading_blanks(text_);
  if (options_.style == ToolCallStyle::llama3) {
    if (at < text_.size() && text_[at] == ';') at += 1 + n_leading_blanks(text_.substr(at + 1));
    if (at == text_.size()) return false;
    if (text_[at] == '{' && n_calls_ < options_.n_calls_max) {
      open_call(at);
    } else {
      place_ = Place::text;
    }
    return true;
  }
  const std::string_view rest = std::string_view(text_).substr(at);
  if (rest.size() < tag.size() && tag.starts_with(rest)) return false;
  if (rest.starts_with(tag)) text_.erase(0, at + tag.size());
  place_ = Place::text;
  return true;
}

void ToolCallParser::emit_content(std::string_view text) {
  if (text.empty()) return;
  if (!is_blank(text)) follows_call_ = false;
  deltas_.push_back(ContentDelta{std::string(text)});
}

std::vector<AnswerDelta> ToolCallParser::take_deltas() { return std::exchange(deltas_, {}); }

}  // namespace patchbay
