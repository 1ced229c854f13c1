#include "engine/session_file.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace patchbay {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// Blocks of two tokens: three of them, the last half full, one without its window.
class SessionFileTest : public testing::Test {
 protected:
  SessionFileTest() {
    for (size_t i = 0; i < kept_.size(); ++i) kept_[i] = static_cast<std::byte>(i * 37 + 1);
    const std::span all(kept_);
    file_ = {.model = {1, 2, 3},
             .geometry = {.n_layer = 2,
                          .n_head_kv = 1,
                          .n_embd_head = 8,
                          .n_swa = 3,
                          .block_size = 2,
                          .type = GGML_TYPE_F32,
                          .layout = KvLayout::by_head,
                          .block_bytes_full = 8,
                          .block_bytes_window = 4},
             .tokens = {5, 40, 2, 19, 33},
             .spans = {{.first = 0, .digest = {}, .adapters = {}},
                       {.first = 3,
                        .digest = {9, 9},
                        .adapters = {{.digest = {7}, .name = "pirate", .strength = 0.5F}}}},
             .blocks = {.full = {all.subspan(0, 8), all.subspan(8, 8), all.subspan(16, 8)},
                        .window = {{}, all.subspan(24, 4), all.subspan(28, 4)}}};
  }

  static Bytes encoded(const SessionFile &file) {
    Bytes bytes;
    encode_session(file, [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return bytes;
  }

  static std::string refusal(std::span<const std::byte> bytes) {
    try {
      static_cast<void>(decode_session("s.bin", bytes));
    } catch (const LoadError &error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return {};
  }

  /// As somebody would write it who makes the checksum fit.
  static Bytes sealed(Bytes bytes) {
    const auto content = std::span(bytes).first(bytes.size() - sizeof(Xxh128Digest));
    Xxh128 hash;
    hash.add(content);
    const Xxh128Digest digest = hash.digest();
    std::memcpy(bytes.data() + content.size(), digest.data(), digest.size());
    return bytes;
  }

  std::array<std::byte, 32> kept_{};
  SessionFile file_;
};

TEST_F(SessionFileTest, GivesBackWhatWasWritten) {
  const Bytes bytes = encoded(file_);
  const SessionFile read = decode_session("s.bin", bytes);
  EXPECT_EQ(read.model, file_.model);
  EXPECT_EQ(read.geometry, file_.geometry);
  EXPECT_EQ(read.tokens, file_.tokens);
  EXPECT_EQ(read.spans, file_.spans);
  ASSERT_EQ(read.blocks.full.size(), 3U);
  ASSERT_EQ(read.blocks.window.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::ranges::equal(read.blocks.full[i], file_.blocks.full[i])) << i;
    EXPECT_TRUE(std::ranges::equal(read.blocks.window[i], file_.blocks.window[i])) << i;
  }
  EXPECT_EQ(encoded(read), bytes);
}

TEST_F(SessionFileTest, EveryFlippedByteIsRefused) {
  const Bytes whole = encoded(file_);
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const auto flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      Bytes damaged = whole;
      damaged[i] ^= flip;
      EXPECT_NE(refusal(damaged), "") << "byte " << i;
    }
  }
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(SessionFileTest, EveryOtherLengthIsRefused) {
  Bytes bytes = encoded(file_);
  for (size_t n_bytes = 0; n_bytes < bytes.size(); ++n_bytes)
    EXPECT_NE(refusal(std::span(bytes).first(n_bytes)), "") << n_bytes;
  bytes.push_back({});
  EXPECT_THAT(refusal(bytes), HasSubstr("s.bin: size differs"));
}

TEST_F(SessionFileTest, SaysWhatIsWrong) {
  const Bytes whole = encoded(file_);
  EXPECT_THAT(refusal({}), HasSubstr("s.bin: is empty"));
  EXPECT_THAT(refusal(std::span(whole).first(5)), HasSubstr("is not a saved session"));
  EXPECT_THAT(refusal(std::span(whole).first(20)), HasSubstr("truncated"));
  Bytes newer = whole;
  newer[8] = std::byte{2};
  EXPECT_THAT(refusal(newer), HasSubstr("version is not supported: want 1, found 2"));
  Bytes damaged = whole;
  damaged[whole.size() - 20] ^= std::byte{1};
  EXPECT_THAT(refusal(damaged), HasSubstr("checksum differs"));
}

/// Somebody can make the checksum fit: every number is bounded by the file all the same.
TEST_F(SessionFileTest, NoNumberLeadsOutOfTheFile) {
  const Bytes whole = encoded(file_);
  size_t n_refused = 0;
  for (size_t i = 20; i + sizeof(Xxh128Digest) + sizeof(uint32_t) <= whole.size(); ++i) {
    for (const uint32_t number : {0U, 1U, 3U, 0x7fffffffU, 0xffffffffU}) {
      Bytes changed = whole;
      std::memcpy(changed.data() + i, &number, sizeof(number));
      n_refused += refusal(sealed(std::move(changed))).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(n_refused, 100U);
}

TEST_F(SessionFileTest, SpansAndShapesThatCannotBeAreRefused) {
  const std::vector<std::pair<std::string, void (*)(SessionFile &)>> changes{
      {"spans do not rise", [](SessionFile &file) { file.spans[1].first = 0; }},
      {"spans do not rise", [](SessionFile &file) { file.spans[0].first = 1; }},
      {"spans do not rise", [](SessionFile &file) { file.spans[1].first = 5; }},
      {"strength of an adapter is not finite",
       [](SessionFile &file) { file.spans[1].adapters[0].strength = INFINITY; }},
      {"block_size is 0", [](SessionFile &file) { file.geometry.block_size = 0; }},
      {"bytes of a block are 0", [](SessionFile &file) { file.geometry.block_bytes_full = 0; }},
      {"n_tokens is 0", [](SessionFile &file) { file.tokens.clear(); }},
      {"layout is not known",
       [](SessionFile &file) { file.geometry.layout = static_cast<KvLayout>(7); }},
      {"has a count that the file is too short for",
       [](SessionFile &file) { file.blocks.full.resize(1); }},
      {"are followed by other bytes",
       [](SessionFile &file) { file.geometry.block_bytes_full = 7; }},
  };
  for (const auto &[problem, change] : changes) {
    SessionFile changed = file_;
    change(changed);
    EXPECT_THAT(refusal(encoded(changed)), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace patchbay
