#include "gguf/file_kind.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "gguf/gguf_builder.h"

namespace patchbay {
namespace {

FileKind kind_of(std::string_view content) {
  return guess_file_kind(std::as_bytes(std::span(content)));
}

TEST(GuessFileKind, KnowsWhatUsersMixUp) {
  EXPECT_EQ(kind_of("GGUF\x03"), FileKind::gguf);
  EXPECT_EQ(kind_of("tjgg\x03"), FileKind::ggml_legacy);
  EXPECT_EQ(kind_of("algg\x01"), FileKind::ggml_legacy);
  EXPECT_EQ(kind_of(raw_bytes<uint64_t>(16) + "{\"a\""), FileKind::safetensors);
  EXPECT_EQ(kind_of("PK\x03\x04\x14"), FileKind::zip);
  EXPECT_EQ(kind_of("\x80\x02\x8a"), FileKind::pickle);
  EXPECT_EQ(kind_of("version https://git-lfs.github.com/spec/v1\n"), FileKind::git_lfs_pointer);
  EXPECT_EQ(kind_of("\n <!DOCTYPE html><html>"), FileKind::html);
  EXPECT_EQ(kind_of("{\"r\": 8}\n"), FileKind::text);
  EXPECT_EQ(kind_of("na\u00efve"), FileKind::text);
  EXPECT_EQ(kind_of(std::string_view("a\0b", 3)), FileKind::unknown);
  EXPECT_EQ(kind_of(""), FileKind::unknown);
}

TEST(GuessFileKind, ASafetensorsLengthMayLookLikeAnotherMagic) {
  EXPECT_EQ(kind_of(raw_bytes<uint64_t>(0x0280) + "{}"), FileKind::safetensors);
  EXPECT_EQ(kind_of(raw_bytes<uint64_t>(0x04034b50) + "{}"), FileKind::safetensors);
  EXPECT_EQ(kind_of(raw_bytes<uint64_t>(100'000'001) + "{}"), FileKind::unknown);
}

}  // namespace
}  // namespace patchbay
