#include "tokenizer/detokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tiny_vocab.h"

namespace patchbay {
namespace {

constexpr int32_t byte_token(int byte) { return 3 + byte; }

class DetokenizerTest : public testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> tokenizer_ = load_built(tiny_sentencepiece().builder());
};

TEST_F(DetokenizerTest, UnfinishedCharacterIsHeldBack) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(byte_token(0xF0)), "");
  EXPECT_EQ(detokenizer.push(byte_token(0x9F)), "");
  EXPECT_EQ(detokenizer.push(byte_token(0x98)), "");
  EXPECT_EQ(detokenizer.push(byte_token(0x80)), "😀");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST_F(DetokenizerTest, CharacterCutOffByTextIsReplaced) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(byte_token(0xE2)), "");
  EXPECT_EQ(detokenizer.push(260), "\uFFFDa");
}

TEST_F(DetokenizerTest, CharacterCutOffByTheEndIsReplaced) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(byte_token(0xE2)), "");
  EXPECT_EQ(detokenizer.push(byte_token(0x82)), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
}

TEST_F(DetokenizerTest, ControlTokensAreSkippedAndDoNotCutCharacters) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(byte_token(0xC3)), "");
  EXPECT_EQ(detokenizer.push(2), "");
  EXPECT_EQ(detokenizer.push(byte_token(0xA9)), "é");
}

TEST_F(DetokenizerTest, ControlTokensAreShownOnRequest) {
  Detokenizer detokenizer(tokenizer_, {.show_control = true});
  EXPECT_EQ(detokenizer.push(1), "<s>");
}

TEST_F(DetokenizerTest, GeneratedTextKeepsItsFirstBlank) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(263), " a");
}

TEST_F(DetokenizerTest, TextFromTheStartLosesTheBlankOfTheTokenizer) {
  Detokenizer detokenizer(tokenizer_, {.drop_space_prefix = true});
  EXPECT_EQ(detokenizer.push(1), "");
  EXPECT_EQ(detokenizer.push(263), "a");
  EXPECT_EQ(detokenizer.push(263), " a");
}

TEST_F(DetokenizerTest, IdsOutsideTheVocabularyGiveNothing) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(-1), "");
  EXPECT_EQ(detokenizer.push(tokenizer_->n_vocab()), "");
}

}  // namespace
}  // namespace patchbay
