#include "server/slot_memory.h"

#include <gmock/gmock.h>

#include "lora/adapter.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

TEST(SlotMemory, RecallsWhatWasComputedAndWorn) {
  const auto adapter = std::make_shared<const Adapter>();
  SlotMemory memory(2);
  EXPECT_FALSE(memory.recall(1));
  Request request{.prompt = {1, 2}, .spans = {{.first = 0, .adapters = {{adapter, 0.5F}}}}};
  request.tenant = "team";
  auto computed = SlotMemory::of(request);
  computed.tokens.push_back(3);
  memory.remember(1, std::move(computed));
  EXPECT_FALSE(memory.recall(0));
  const auto session = memory.recall(1);
  ASSERT_TRUE(session);
  EXPECT_THAT(session->tokens, ElementsAre(1, 2, 3));
  EXPECT_EQ(session->tenant, "team");
  ASSERT_EQ(session->spans.size(), 1U);
  EXPECT_EQ(session->spans[0].adapters[0].adapter, adapter);
  EXPECT_EQ(session->spans[0].adapters[0].strength, 0.5F);
}

TEST(SlotMemory, KeepsNoAdapterAlive) {
  auto adapter = std::make_shared<const Adapter>();
  SlotMemory memory(1);
  memory.remember(0, SlotMemory::of({.prompt = {1}, .spans = {{.adapters = {{adapter, 1}}}}}));
  EXPECT_EQ(adapter.use_count(), 1);
  EXPECT_TRUE(memory.recall(0));
  adapter.reset();
  EXPECT_FALSE(memory.recall(0));
}

TEST(SlotMemory, ForgetsOnceAndSaysHowMuch) {
  SlotMemory memory(1);
  memory.remember(0, SlotMemory::of({.prompt = {1, 2, 3}}));
  EXPECT_EQ(memory.forget(0), 3U);
  EXPECT_EQ(memory.forget(0), 0U);
  EXPECT_FALSE(memory.recall(0));
}

}  // namespace
}  // namespace patchbay
