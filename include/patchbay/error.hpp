#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace patchbay {

/// Why a request or a call was refused; a short canonical list in the manner of absl::StatusCode.
enum class ErrorCode {
  invalid_argument,
  unauthenticated,    ///< nobody known asks
  permission_denied,  ///< somebody known asks for what is not theirs
  not_found,
  context_overflow,
  out_of_memory,
  too_large,    ///< more than is taken at a time
  queue_full,   ///< too much is waiting already
  unavailable,  ///< loading or shutting down
  cancelled,
  deadline_exceeded,
  internal,
};

/// The canonical spelling of a code, e.g. "invalid_argument".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// What is wrong with a request: an expected thing, returned and never thrown.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message{};
};

/// A file or the machine is wrong (model or adapter loading, start-up).
/// The message reads "<path>: <item> <problem>: want <wanted>, found <found> (<hint>)"; parts left
/// empty are left out.
class LoadError : public std::runtime_error {
 public:
  // The empty braces keep -Wextra from reporting parts that a caller leaves out.
  struct Parts {
    std::string path{};     ///< file as the user named it
    std::string item{};     ///< tensor, metadata key or option; empty when the whole file is meant
    std::string problem{};  ///< e.g. "has incorrect shape"
    std::string wanted{};
    std::string found{};
    std::string hint{};  ///< what to do about it
    ErrorCode code = ErrorCode::invalid_argument;
  };

  explicit LoadError(Parts parts);

  [[nodiscard]] const Parts &parts() const { return parts_; }
  [[nodiscard]] ErrorCode code() const { return parts_.code; }

 private:
  Parts parts_;
};

}  // namespace patchbay
