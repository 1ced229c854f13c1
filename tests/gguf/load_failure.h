#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace patchbay {

/// The message of the LoadError that `act` throws; empty, with a failed test, when it throws none.
template <class Act>
[[nodiscard]] std::string load_failure(Act act) {
  try {
    act();
  } catch (const LoadError &error) {
    return error.what();
  }
  ADD_FAILURE() << "no LoadError was thrown";
  return "";
}

}  // namespace patchbay
