#pragma once

#include <chrono>
#include <string>

namespace patchbay::jinja {

/// datetime.strftime of local time without a zone, in English.
[[nodiscard]] std::string format_time(std::chrono::system_clock::time_point time,
                                      const std::string &format);

}  // namespace patchbay::jinja
