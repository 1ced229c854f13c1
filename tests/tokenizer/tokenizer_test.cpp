#include "tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "../gguf/load_failure.h"
#include "base/utf8.h"
#include "tiny_vocab.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string load_message(const GgufBuilder &builder) {
  return load_failure([&] { static_cast<void>(load_built(builder)); });
}

TEST(Tokenizer, FileWithoutTokenizerGivesNull) {
  GgufBuilder builder;
  builder.set("general.architecture", "llama");
  EXPECT_EQ(load_built(builder), nullptr);
  builder.set("tokenizer.ggml.model", "none");
  EXPECT_EQ(load_built(builder), nullptr);
}

TEST(Tokenizer, TextsAreOwnedAndOutliveTheFile) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  EXPECT_EQ(tokenizer->piece(10), "abc");
  EXPECT_EQ(tokenizer->n_vocab(), 13);
  EXPECT_EQ(tokenizer->find("<tool>"), 1);
}

TEST(Tokenizer, TextAboveTheLimitIsRefused) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  EXPECT_THROW(static_cast<void>(tokenizer->encode(std::string(k_max_text_bytes + 1, 'a'))),
               std::length_error);
}

TEST(ByteLevel, MergesByRankNotByLength) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(2, 9));
  EXPECT_THAT(tokenizer->encode("ab ab"), ElementsAre(8, 5, 8));
  EXPECT_THAT(tokenizer->encode("é"), ElementsAre(12));
}

TEST(ByteLevel, WholePieceIsTakenWhenTheFamilyIgnoresMerges) {
  auto builder = tiny_byte_level().builder();
  builder.set("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_THAT(load_built(builder)->encode("abc"), ElementsAre(10));
}

TEST(ByteLevel, ByteWithoutTokenGivesNothing) {
  EXPECT_THAT(load_built(tiny_byte_level().builder())->encode("azb"), ElementsAre(8));
}

TEST(ByteLevel, PiecesAreBytesAndAddedTokensTheirText) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  EXPECT_EQ(tokenizer->piece(5), " ");
  EXPECT_EQ(tokenizer->piece(6), "\xC3");
  EXPECT_EQ(tokenizer->piece(0), "<|end|>");
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_EQ(tokenizer->piece(13), "");
}

TEST(ByteLevel, UnknownPretokenizerIsNamedWithTheKnownOnes) {
  auto builder = tiny_byte_level().builder();
  builder.set("tokenizer.ggml.pre", "klingon");
  EXPECT_THAT(load_message(builder),
              testing::AllOf(HasSubstr("klingon"), HasSubstr("llama-bpe"), HasSubstr("smollm")));
}

TEST(SentencePiece, MergesByScoreOverThePrefixedText) {
  const auto tokenizer = load_built(tiny_sentencepiece().builder());
  EXPECT_THAT(tokenizer->encode("ab", {.add_special = false}), ElementsAre(263, 261));
  EXPECT_THAT(tokenizer->encode("bab", {.add_special = false}), ElementsAre(259, 261, 262));
  EXPECT_THAT(tokenizer->encode("", {.add_special = false}), IsEmpty());
}

TEST(SentencePiece, LongerLeftPartWinsATie) {
  auto builder = tiny_sentencepiece().builder();
  builder.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = load_built(builder);
  EXPECT_THAT(tokenizer->encode("aaa", {.add_special = false}), ElementsAre(265));
  EXPECT_THAT(tokenizer->encode("aaaaa", {.add_special = false}), ElementsAre(264, 265));
}

TEST(SentencePiece, UnspelledCharacterBecomesItsBytes) {
  const auto tokenizer = load_built(tiny_sentencepiece().builder());
  EXPECT_THAT(tokenizer->encode("é", {.add_special = false}), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{3 + 0xC3, 3 + 0xA9}), "é");
}

TEST(SentencePiece, UnspelledCharactersWithoutBytesAreOneUnknown) {
  TinyVocab vocab{.model = "llama", .tokens = {}, .types = {}, .scores = {}, .merges = {}};
  vocab.add("<unk>", 2);
  vocab.add("a");
  auto builder = vocab.builder();
  builder.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = load_built(builder);
  EXPECT_THAT(tokenizer->encode("éèaé"), ElementsAre(0, 1, 0));
  EXPECT_THAT(tokenizer->encode("<unk>a"), ElementsAre(0, 1));
}

TEST(SentencePiece, UserDefinedTokenIsWholeAndTextAfterItIsPrefixed) {
  const auto tokenizer = load_built(tiny_sentencepiece().builder());
  EXPECT_THAT(tokenizer->encode("b<x>a", {.add_special = false}), ElementsAre(259, 261, 266, 263));
}

TEST(SentencePiece, RunOfBlanksIsOnePiece) {
  auto builder = tiny_sentencepiece().builder();
  builder.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = load_built(builder);
  EXPECT_THAT(tokenizer->encode("b  a", {.add_special = false}), ElementsAre(261, 267, 260));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{261, 267, 260}), "b  a");
}

TEST(SentencePiece, PieceWithABlankInsideIsFoundAcrossWords) {
  auto vocab = tiny_sentencepiece();
  vocab.add("b▁a", 1, -1);
  const auto tokenizer = load_built(vocab.builder());
  EXPECT_THAT(tokenizer->encode("b a", {.add_special = false}), ElementsAre(259, 268));
}

TEST(SentencePiece, DecodingDropsThePrefixOnlyAtTheStart) {
  const auto tokenizer = load_built(tiny_sentencepiece().builder());
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{1, 263, 263}), "a a");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{263}, {.drop_space_prefix = false}), " a");
}

TEST(SentencePiece, ControlAndByteTokensAreNotMadeByMerging) {
  auto vocab = tiny_sentencepiece();
  vocab.add("ba", 3, 5);
  const auto tokenizer = load_built(vocab.builder());
  const EncodeOptions plain{.add_special = false, .parse_special = false};
  EXPECT_THAT(tokenizer->encode("ba", plain), ElementsAre(259, 261, 260));
}

TEST(Specials, BosAndEosComeAsTheFileSays) {
  auto builder = tiny_sentencepiece().builder();
  builder.set("tokenizer.ggml.bos_token_id", uint32_t{1}).set("tokenizer.ggml.eos_token_id", 2U);
  EXPECT_THAT(load_built(builder)->encode("a"), ElementsAre(1, 263));
  EXPECT_THAT(load_built(builder)->encode("a", {.add_special = false}), ElementsAre(263));
  builder.set("tokenizer.ggml.add_eos_token", true).set("tokenizer.ggml.add_bos_token", false);
  EXPECT_THAT(load_built(builder)->encode("a"), ElementsAre(263, 2));
}

TEST(Specials, BosIsDoubledOnlyWhenTheTextSpellsIt) {
  auto builder = tiny_sentencepiece().builder();
  builder.set("tokenizer.ggml.bos_token_id", 1U);
  EXPECT_THAT(load_built(builder)->encode("<s>a"), ElementsAre(1, 1, 263));
  EXPECT_THAT(load_built(builder)->encode("<s>a", {.add_special = false}), ElementsAre(1, 263));
}

TEST(Specials, ByteLevelAddsBosOnlyForFamiliesThatDo) {
  auto builder = tiny_byte_level().builder();
  builder.set("tokenizer.ggml.bos_token_id", 0U);
  EXPECT_THAT(load_built(builder)->encode("c"), ElementsAre(4));
  builder.set("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_THAT(load_built(builder)->encode("c"), ElementsAre(0, 4));
}

TEST(Specials, ControlTokenInTextIsParsedOnlyOnRequest) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  EXPECT_THAT(tokenizer->encode("a<|end|><tool>"), ElementsAre(2, 0, 1));
  EXPECT_THAT(tokenizer->encode("a<|end|><tool>", {.parse_special = false}),
              testing::Not(testing::Contains(0)));
  EXPECT_THAT(tokenizer->encode("<tool>", {.parse_special = false}), ElementsAre(1));
}

TEST(Specials, ControlTokensAreSkippedUnlessAskedFor) {
  const auto tokenizer = load_built(tiny_byte_level().builder());
  const std::vector<int32_t> tokens{2, 0, 1};
  EXPECT_EQ(tokenizer->decode(tokens), "a<tool>");
  EXPECT_EQ(tokenizer->decode(tokens, {.show_control = true}), "a<|end|><tool>");
  EXPECT_TRUE(tokenizer->is_control(0));
  EXPECT_FALSE(tokenizer->is_control(1));
  EXPECT_FALSE(tokenizer->is_control(-1));
}

TEST(Specials, GenerationEndsWithNamedAndWellKnownTokens) {
  auto vocab = tiny_byte_level();
  vocab.add("<|im_end|>", 3);  // 13
  vocab.add("<|eot_id|>", 1);  // 14: ordinary text in this vocabulary
  vocab.scores.clear();
  auto builder = vocab.builder();
  builder.set("tokenizer.ggml.eos_token_id", 2U).set("tokenizer.ggml.eot_token_id", 3U);
  const auto tokenizer = load_built(builder);
  EXPECT_THAT(tokenizer->eog_tokens(), ElementsAre(0, 2, 3, 13));
  EXPECT_TRUE(tokenizer->is_eog(13));
  EXPECT_FALSE(tokenizer->is_eog(14));
  EXPECT_EQ(tokenizer->special().eot, 3);
}

TEST(Specials, IllFormedInputCountsAsReplacementCharacter) {
  const auto tokenizer = load_built(tiny_sentencepiece().builder());
  EXPECT_EQ(tokenizer->encode("a\xE2\x82"
                              "b"),
            tokenizer->encode("a\uFFFD"
                              "b"));
}

TEST(DamagedVocab, UnknownKindIsRefused) {
  auto vocab = tiny_byte_level();
  vocab.model = "rwkv";
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("\"rwkv\""));
}

TEST(DamagedVocab, MissingOrEmptyTokensAreRefused) {
  auto vocab = tiny_byte_level();
  vocab.tokens.clear();
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.tokens is missing"));
  auto builder = vocab.builder();
  builder.set_array("tokenizer.ggml.tokens", std::vector<std::string>{});
  EXPECT_THAT(load_message(builder), HasSubstr("tokenizer.ggml.tokens is empty"));
}

TEST(DamagedVocab, TypesOfOtherLengthOrValueAreRefused) {
  auto vocab = tiny_byte_level();
  vocab.types.pop_back();
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("want 13, found 12"));
  for (const int32_t type : {-1, 7}) {
    vocab = tiny_byte_level();
    vocab.types[4] = type;
    EXPECT_THAT(load_message(vocab.builder()), HasSubstr("unknown type for token 4"));
  }
}

TEST(DamagedVocab, ScoresMissingOrOfOtherLengthOrNotANumberAreRefused) {
  auto vocab = tiny_sentencepiece();
  vocab.scores.push_back(0);
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.scores has another length"));
  vocab.scores.clear();
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.scores is missing"));
  vocab = tiny_sentencepiece();
  vocab.scores[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.scores[7] is not a number"));
}

TEST(DamagedVocab, MergesMissingOrOfUnknownPartsAreRefused) {
  auto vocab = tiny_byte_level();
  vocab.merges.clear();
  EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.merges is missing"));
  for (const char *merge : {"a z", "z a", "ab", "a b c", "", " ", "a ", " a", "c a"}) {
    vocab = tiny_byte_level();
    vocab.merges[1] = merge;
    EXPECT_THAT(load_message(vocab.builder()), HasSubstr("tokenizer.ggml.merges[1]")) << merge;
  }
}

TEST(DamagedVocab, TokenIdsOutsideTheVocabularyAreRefused) {
  for (const char *name : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    auto builder = tiny_byte_level().builder();
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    builder.set(key, 13U);
    EXPECT_THAT(load_message(builder), HasSubstr(key + " is outside the vocabulary"));
  }
  auto builder = tiny_byte_level().builder();
  builder.set("tokenizer.ggml.bos_token_id", int32_t{-1});
  EXPECT_THAT(load_message(builder), HasSubstr("found -1"));
}

TEST(DamagedVocab, MisspelledByteTokenIsRefused) {
  for (const char *text : {"<0xG0>", "<0x1>", "", "0x41", "<0x4a>"}) {
    auto vocab = tiny_sentencepiece();
    vocab.tokens[5] = text;
    EXPECT_THAT(load_message(vocab.builder()),
                HasSubstr("tokenizer.ggml.tokens[5] is no byte token"));
  }
}

TEST(DamagedVocab, NormalisationWeCannotDoIsRefused) {
  auto builder = tiny_sentencepiece().builder();
  builder.set("tokenizer.ggml.remove_extra_whitespaces", true);
  EXPECT_THAT(load_message(builder), HasSubstr("remove_extra_whitespaces"));
  builder = tiny_sentencepiece().builder();
  builder.set_array("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{1, 2});
  EXPECT_THAT(load_message(builder), HasSubstr("precompiled_charsmap"));
}

TEST(DamagedVocab, ValuesOfOtherTypesAreRefused) {
  auto builder = tiny_byte_level().builder();
  builder.set("tokenizer.ggml.add_bos_token", "yes");
  EXPECT_THAT(load_message(builder), HasSubstr("add_bos_token"));
  GgufBuilder numbers;
  numbers.set("tokenizer.ggml.model", "gpt2");
  numbers.set_array("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
  EXPECT_THAT(load_message(numbers), HasSubstr("tokenizer.ggml.tokens"));
}

TEST(DamagedVocab, TokensThatAreNoUtf8OrEmptyDoNoHarm) {
  auto vocab = tiny_byte_level();
  for (const int32_t type : {1, 3, 4}) {
    vocab.add("\xE2\x96", type);
    vocab.add("\xC3", type);
    vocab.add("", type);
  }
  vocab.scores.clear();
  auto builder = vocab.builder();
  builder.set("tokenizer.ggml.pre", "llama-bpe");
  const auto tokenizer = load_built(builder);
  EXPECT_THAT(tokenizer->encode("éa"), ElementsAre(12, 2));
  std::vector<int32_t> all(static_cast<size_t>(tokenizer->n_vocab()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  EXPECT_TRUE(is_valid_utf8(tokenizer->decode(all, {.show_control = true})));
}

}  // namespace
}  // namespace patchbay
