#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace patchbay {
namespace {

TEST(Parallel, EveryPartIsDoneOnce) {
  for (const size_t n : {0U, 1U, 7U, 1000U}) {
    std::vector<std::atomic<int>> times(n);
    for_each_part(n, [&](size_t i) { ++times[i]; });
    for (const auto &one : times) EXPECT_EQ(one, 1);
  }
}

TEST(Parallel, WhatAPartThrowsReachesTheCaller) {
  EXPECT_THROW(for_each_part(100,
                             [](size_t i) {
                               if (i == 3) throw std::runtime_error("three");
                             }),
               std::runtime_error);
}

}  // namespace
}  // namespace patchbay
