#include "apps/input_text.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace patchbay {
namespace {

[[noreturn]] void refuse(const std::string &name) {
  const auto code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::invalid_argument;
  throw LoadError({.path = name,
                   .problem = std::string("cannot be read: ") + std::strerror(errno),
                   .code = code});
}

std::string read_all(std::FILE *file, const std::string &name) {
  std::string text;
  std::array<char, 1U << 16U> chunk;
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), file))
    text.append(chunk.data(), n);
  if (std::ferror(file) != 0) refuse(name);
  return text;
}

}  // namespace

std::string read_input_text(const std::string &path) {
  if (path == "-") return read_all(stdin, "standard input");
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"),
                                                              std::fclose);
  if (file == nullptr) refuse(path);
  return read_all(file.get(), path);
}

}  // namespace patchbay
