#include "apps/npy.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace patchbay {

void write_npy(const std::string &path, std::span<const float> values, size_t n_rows, size_t n_columns) {
  constexpr size_t k_alignment = 64;
  constexpr std::string_view k_magic("\x93NUMPY\x01\x00", 8);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows, n_columns);
  const size_t unpadded = k_magic.size() + 2 + header.size() + 1;
  header += std::string((k_alignment - unpadded % k_alignment) % k_alignment, ' ') + '\n';

  const std::string temporary = path + ".part";
  std::ofstream out(temporary, std::ios::binary);
  out.write(k_magic.data(), static_cast<std::streamsize>(k_magic.size()));
  out.put(static_cast<char>(header.size() & 0xFFU));
  out.put(static_cast<char>(header.size() >> 8U));
  out << header;
  out.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (!out || error) {
    const std::string why = error ? error.message() : std::strerror(errno);
    std::filesystem::remove(temporary, error);
    throw LoadError({.path = path, .problem = "cannot be written: " + why});
  }
}

}  // namespace patchbay
