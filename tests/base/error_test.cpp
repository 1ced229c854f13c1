#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace patchbay {
namespace {

LoadError::Parts full_parts() {
  LoadError::Parts parts;
  parts.path = "adapter.gguf";
  parts.item = "blk.3.attn_q.weight.lora_a";
  parts.problem = "has incorrect shape";
  parts.wanted = "[2048, r]";
  parts.found = "[4096, 16]";
  parts.hint = "another base model?";
  return parts;
}

TEST(LoadErrorMessage, NamesAllPartsInOrder) {
  EXPECT_STREQ(LoadError(full_parts()).what(),
               "adapter.gguf: blk.3.attn_q.weight.lora_a has incorrect shape: want [2048, r], "
               "found [4096, 16] (another base model?)");
}

TEST(LoadErrorMessage, LeavesOutEmptyParts) {
  LoadError::Parts parts;
  parts.problem = "is empty";
  EXPECT_STREQ(LoadError(parts).what(), "is empty");
  parts.path = "a.gguf";
  EXPECT_STREQ(LoadError(parts).what(), "a.gguf: is empty");
  parts.hint = "download it again";
  EXPECT_STREQ(LoadError(parts).what(), "a.gguf: is empty (download it again)");
}

TEST(LoadErrorMessage, WantedAndFoundStandAlone) {
  auto parts = full_parts();
  parts.wanted.clear();
  parts.hint.clear();
  EXPECT_STREQ(LoadError(parts).what(),
               "adapter.gguf: blk.3.attn_q.weight.lora_a has incorrect shape: found [4096, 16]");
  parts.wanted = "[2048, r]";
  parts.found.clear();
  EXPECT_STREQ(LoadError(parts).what(),
               "adapter.gguf: blk.3.attn_q.weight.lora_a has incorrect shape: want [2048, r]");
}

TEST(LoadErrorMessage, PartsAndCodeStayReadable) {
  auto parts = full_parts();
  EXPECT_EQ(LoadError(parts).code(), ErrorCode::invalid_argument);
  parts.code = ErrorCode::not_found;
  const LoadError error(parts);
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.parts().item, "blk.3.attn_q.weight.lora_a");
  EXPECT_EQ(error.parts().found, "[4096, 16]");
}

TEST(ErrorCodes, HaveTheirCanonicalSpelling) {
  EXPECT_EQ(to_string(ErrorCode::invalid_argument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::not_found), "not_found");
  EXPECT_EQ(to_string(ErrorCode::context_overflow), "context_overflow");
  EXPECT_EQ(to_string(ErrorCode::out_of_memory), "out_of_memory");
  EXPECT_EQ(to_string(ErrorCode::unavailable), "unavailable");
  EXPECT_EQ(to_string(ErrorCode::cancelled), "cancelled");
  EXPECT_EQ(to_string(ErrorCode::internal), "internal");
}

TEST(ExpectedValue, CarriesTheReasonOfAFailure) {
  const Expected<int> value = fail(ErrorCode::unavailable, "no room");
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().code, ErrorCode::unavailable);
  EXPECT_EQ(value.error().message, "no room");
}

}  // namespace
}  // namespace patchbay
