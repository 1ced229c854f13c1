#include "jinja/strftime.h"

#include <fmt/format.h>

#include <ctime>
#include <vector>

namespace patchbay::jinja {

namespace {

constexpr size_t k_text_per_directive = 64;  // more than any of them writes

/// What C's strftime does not know, or fills in from a zone that a naive datetime does not have.
std::string with_python_directives(const std::string &format, long microseconds) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'f') {
      out += fmt::format("{:06}", microseconds);
    } else if (next != 'z' && next != 'Z') {
      out += format[i];
      if (next == '\0') continue;
      out += next;
    }
    ++i;
  }
  return out;
}

}  // namespace

std::string format_time(std::chrono::system_clock::time_point time, const std::string &format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  constexpr long k_per_second = 1'000'000;
  const long microseconds = ((since_epoch % k_per_second) + k_per_second) % k_per_second;
  // One character more, because strftime returns 0 both for no room and for no text.
  const std::string c_format = with_python_directives(format, microseconds) + "|";
  std::vector<char> buffer(c_format.size() * k_text_per_directive);
  const size_t n = std::strftime(buffer.data(), buffer.size(), c_format.c_str(), &local);
  return n == 0 ? std::string() : std::string(buffer.data(), n - 1);
}

}  // namespace patchbay::jinja
