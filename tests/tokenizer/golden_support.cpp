#include "golden_support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <stdexcept>

#include "gguf/gguf_file.h"

namespace patchbay {

namespace {

constexpr size_t k_max_ids_in_full = 400;

std::string unescape(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes.push_back(text[i]);
    } else if (text[i + 1] == '\\') {
      bytes.push_back('\\');
      i += 1;
    } else {
      bytes.push_back(
          static_cast<char>(std::stoi(std::string(text.substr(i + 2, 2)), nullptr, 16)));
      i += 3;
    }
  }
  return bytes;
}

std::string parse_string(std::string_view line) {
  if (!line.starts_with('@')) return unescape(line);
  const size_t blank = line.find(' ');
  const int count = std::stoi(std::string(line.substr(1, blank - 1)));
  const std::string part = unescape(line.substr(blank + 1));
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += part;
  return bytes;
}

uint64_t fnv1a(std::span<const int32_t> tokens) {
  uint64_t value = 0xCBF29CE484222325;
  for (const std::byte byte : std::as_bytes(tokens)) {
    value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  }
  return value;
}

}  // namespace

std::vector<std::string> golden_lines(const std::string &name) {
  const auto path = std::filesystem::path(PATCHBAY_SOURCE_DIR) / "tests/data/tokenizer" / name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> golden_strings() {
  std::vector<std::string> strings;
  for (const std::string &line : golden_lines("strings.txt")) strings.push_back(parse_string(line));
  return strings;
}

std::string format_golden(std::span<const int32_t> tokens) {
  if (tokens.size() > k_max_ids_in_full) {
    return fmt::format("#{} {:016x}", tokens.size(), fnv1a(tokens));
  }
  return fmt::format("{}", fmt::join(tokens, " "));
}

std::filesystem::path model_path(const std::string &name) {
  return std::filesystem::path(PATCHBAY_SOURCE_DIR) / "models" / name;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path &path) {
  return Tokenizer::load(GgufFile::open(path));
}

}  // namespace patchbay
