#include "apps/npy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

/// NumPy's .npy header, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
std::string npy_header(size_t n_rows, size_t n_columns) {
  constexpr size_t k_alignment = 64;
  constexpr std::string_view k_magic("\x93NUMPY\x01\x00", 8);
  std::string fields = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows, n_columns);
  const size_t unpadded = k_magic.size() + 2 + fields.size() + 1;
  fields += std::string((k_alignment - unpadded % k_alignment) % k_alignment, ' ') + '\n';
  std::string header(k_magic);
  header += static_cast<char>(fields.size() & 0xFFU);
  header += static_cast<char>(fields.size() >> 8U);
  return header + fields;
}

/// Whether `path` is a pipe, a device or a folder, which a file of the same name must not replace.
bool is_special(const fs::path &path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// The file that a link leads to, so that writing does not replace the link.
fs::path follow_link(const fs::path &path) {
  std::error_code ignored;
  const fs::path target = fs::canonical(path, ignored);
  return target.empty() ? path : target;
}

}  // namespace

void write_npy(const std::string &path, std::span<const float> values, size_t n_rows,
               size_t n_columns) {
  const bool in_place = is_special(path);
  const fs::path target = in_place ? fs::path(path) : follow_link(path);
  const fs::path written =
      in_place ? target : fs::path(fmt::format("{}.{}.part", target.string(), getpid()));
  std::error_code error;
  errno = 0;
  std::ofstream out(written, std::ios::binary);
  out << npy_header(n_rows, n_columns);
  out.write(reinterpret_cast<const char *>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  out.close();
  if (out && !in_place) fs::rename(written, target, error);
  if (out && !error) return;
  const std::string why = error ? error.message() : std::strerror(errno);
  if (!in_place) fs::remove(written, error);
  throw LoadError({.path = path, .problem = "cannot be written: " + why});
}

}  // namespace patchbay
