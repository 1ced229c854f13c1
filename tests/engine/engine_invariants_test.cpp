#include "engine/engine_invariants.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::HasSubstr;

/// Two of four seats taken, one spare, one free.
EngineSnapshot sound() {
  return {.n_seats = 4,
          .n_ctx = 16,
          .taken = {{.seq_id = 0, .n_tokens = 5, .n_computed = 4, .n_cached = 4},
                    {.seq_id = 2, .n_tokens = 16, .n_computed = 0, .n_cached = 0}},
          .spare = {1},
          .free = {3},
          .n_cached_unseated = {0, 0}};
}

TEST(EngineInvariants, HoldInASoundSnapshot) { EXPECT_EQ(check_invariants(sound()), ""); }

TEST(EngineInvariants, ASeatIsTakenOnceAndNeverLost) {
  auto lost = sound();
  lost.free.clear();
  EXPECT_THAT(check_invariants(lost), HasSubstr("seat 3"));
  auto twice = sound();
  twice.free.push_back(0);
  EXPECT_THAT(check_invariants(twice), HasSubstr("seat 0"));
  auto unknown = sound();
  unknown.free.push_back(9);
  EXPECT_THAT(check_invariants(unknown), HasSubstr("5 seats"));
}

TEST(EngineInvariants, ASequenceAndTheCacheAgree) {
  auto snapshot = sound();
  snapshot.taken[0].n_cached = 3;
  EXPECT_THAT(check_invariants(snapshot), HasSubstr("the cache holds 3"));
}

TEST(EngineInvariants, ASeatedSequenceHasSomethingToCompute) {
  auto snapshot = sound();
  snapshot.taken[0].n_computed = snapshot.taken[0].n_cached = 5;
  EXPECT_THAT(check_invariants(snapshot), HasSubstr("nothing left"));
}

TEST(EngineInvariants, NoSequenceIsLongerThanTheContext) {
  auto snapshot = sound();
  snapshot.taken[1].n_tokens = 17;
  EXPECT_THAT(check_invariants(snapshot), HasSubstr("the context holds 16"));
}

TEST(EngineInvariants, NobodyLeavesTokensBehind) {
  auto snapshot = sound();
  snapshot.n_cached_unseated[1] = 4;
  EXPECT_THAT(check_invariants(snapshot), HasSubstr("nobody sits"));
}

}  // namespace
}  // namespace patchbay
