#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/utf8.h"
#include "golden_support.h"
#include "tokenizer/detokenizer.h"

namespace patchbay {
namespace {

struct GoldenModel {
  const char *file;
  const char *golden;
  /// Whether decoding gives `text` back: no character without tokens, none that means a blank.
  bool (*is_lossless)(const Tokenizer &, std::string_view text);
};

void PrintTo(const GoldenModel &model, std::ostream *out) { *out << model.file; }

// This vocabulary lacks some bytes; HF drops them as well.
bool has_all_bytes(const Tokenizer &tokenizer, std::string_view text) {
  for (const char c : text) {
    if (tokenizer.encode({&c, 1}).empty() && static_cast<uint8_t>(c) < 0x80) return false;
    if (static_cast<uint8_t>(c) >= 0xF1) return false;
  }
  return true;
}

bool has_no_blank_mark(const Tokenizer &, std::string_view text) {
  return text.find(k_blank_mark) == std::string_view::npos;
}

class TokenizerGolden : public testing::TestWithParam<GoldenModel> {
 protected:
  void SetUp() override {
    const auto path = model_path(GetParam().file);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    tokenizer_ = load_tokenizer(path);
    strings_ = golden_strings();
    lines_ = golden_lines(GetParam().golden);
    ASSERT_EQ(strings_.size(), lines_.size());
    ASSERT_GE(strings_.size(), 2000U);
  }

  // "parsed" or "parsed|plain"
  [[nodiscard]] std::string actual_line(const std::string &text) const {
    const std::string parsed = format_golden(tokenizer_->encode(text));
    const std::string plain = format_golden(tokenizer_->encode(text, {.parse_special = false}));
    return parsed == plain ? parsed : parsed + "|" + plain;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> strings_;
  std::vector<std::string> lines_;
};

TEST_P(TokenizerGolden, IdsEqualThoseOfHuggingFace) {
  size_t n_differences = 0;
  for (size_t i = 0; i < strings_.size(); ++i) {
    const std::string actual = actual_line(strings_[i]);
    if (actual == lines_[i]) continue;
    if (++n_differences <= 10) {
      ADD_FAILURE() << "string " << i << " \"" << strings_[i].substr(0, 200) << "\"\n want "
                    << lines_[i] << "\nfound " << actual;
    }
  }
  fmt::print("{} strings, {} differences\n", strings_.size(), n_differences);
  EXPECT_EQ(n_differences, 0U);
}

TEST_P(TokenizerGolden, DecodingGivesValidTextBack) {
  size_t n_compared = 0;
  for (const std::string &text : strings_) {
    if (!is_valid_utf8(text) || !GetParam().is_lossless(*tokenizer_, text)) continue;
    const auto tokens = tokenizer_->encode(text, {.add_special = false});
    ASSERT_EQ(tokenizer_->decode(tokens, {.show_control = true}), text);
    ++n_compared;
  }
  fmt::print("{} of {} strings are lossless\n", n_compared, strings_.size());
  EXPECT_GT(n_compared, strings_.size() / 2);
}

TEST_P(TokenizerGolden, StreamedTextIsWholeCharactersAndEqualsDecode) {
  for (const std::string &text : strings_) {
    const auto tokens = tokenizer_->encode(text, {.add_special = false});
    Detokenizer detokenizer(tokenizer_, {.show_control = true});
    std::string streamed;
    for (const int32_t token : tokens) {
      const std::string part = detokenizer.push(token);
      ASSERT_TRUE(is_valid_utf8(part));
      streamed += part;
    }
    streamed += detokenizer.finish();
    ASSERT_EQ(streamed, tokenizer_->decode(tokens, {.show_control = true}));
  }
}

TEST_P(TokenizerGolden, ThreadsShareOneTokenizer) {
  std::vector<size_t> n_differences(4);
  std::vector<std::thread> threads;
  for (size_t i_thread = 0; i_thread < n_differences.size(); ++i_thread) {
    threads.emplace_back([&, i_thread] {
      for (size_t i = 0; i < 500; ++i) {
        if (actual_line(strings_[i]) != lines_[i]) ++n_differences[i_thread];
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(n_differences, std::vector<size_t>(4));
}

INSTANTIATE_TEST_SUITE_P(
    RealModels, TokenizerGolden,
    testing::Values(GoldenModel{"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2.txt", has_all_bytes},
                    GoldenModel{"gemma-3-270m-q4_k_m.gguf", "gemma3.txt", has_no_blank_mark}),
    [](const auto &param) {
      return std::string(param.param.golden, std::string_view(param.param.golden).find('.'));
    });

}  // namespace
}  // namespace patchbay
