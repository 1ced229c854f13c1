#include "base/error.h"

namespace patchbay {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unauthenticated:
      return "unauthenticated";
    case ErrorCode::permission_denied:
      return "permission_denied";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::context_overflow:
      return "context_overflow";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::too_large:
      return "too_large";
    case ErrorCode::queue_full:
      return "queue_full";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

namespace {

std::string compose(const LoadError::Parts &parts) {
  std::string text = parts.path;
  if (!text.empty()) text += ": ";
  if (!parts.item.empty()) text += parts.item + " ";
  text += parts.problem;
  if (!parts.wanted.empty()) text += ": want " + parts.wanted;
  if (!parts.found.empty()) text += (parts.wanted.empty() ? ": found " : ", found ") + parts.found;
  if (!parts.hint.empty()) text += " (" + parts.hint + ")";
  return text;
}

}  // namespace

LoadError::LoadError(Parts parts) : std::runtime_error(compose(parts)), parts_(std::move(parts)) {}

}  // namespace patchbay
