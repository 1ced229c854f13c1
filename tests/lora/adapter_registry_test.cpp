#include "lora/adapter_registry.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

RegisteredAdapter named(const std::string &name) {
  RegisteredAdapter entry;
  entry.name = name;
  entry.adapter = std::make_shared<Adapter>();
  return entry;
}

std::vector<int64_t> ids_of(const AdapterRegistry &registry) {
  std::vector<int64_t> ids;
  for (const auto &entry : registry.list()) ids.push_back(entry.id);
  return ids;
}

TEST(AdapterRegistry, IdsCountUpAndAreNeverUsedAgain) {
  AdapterRegistry registry;
  EXPECT_TRUE(registry.add(named("a")));
  EXPECT_TRUE(registry.add(named("b")));
  EXPECT_TRUE(registry.remove("b"));
  EXPECT_TRUE(registry.add(named("b")));
  EXPECT_THAT(ids_of(registry), testing::ElementsAre(0, 2));
  EXPECT_EQ(registry.find(int64_t{1}), std::nullopt);
}

TEST(AdapterRegistry, ATakenNameIsRefusedAndNothingChanges) {
  AdapterRegistry registry;
  const auto first = registry.add(named("a"));
  const auto second = registry.add(named("a"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "the adapter 'a' has already been loaded");
  EXPECT_EQ(registry.find("a")->adapter, first->adapter);
}

TEST(AdapterRegistry, WhoHoldsAnAdapterKeepsItWhenItsNameMeansAnother) {
  AdapterRegistry registry;
  EXPECT_TRUE(registry.add(named("a")));
  const auto held = registry.find("a");
  const auto replaced = registry.replace(named("a"));
  EXPECT_EQ(replaced->id, held->id);
  EXPECT_NE(registry.find("a")->adapter, held->adapter);
  EXPECT_EQ(held->adapter.use_count(), 1);
}

TEST(AdapterRegistry, DefaultsAreSetAsAWhole) {
  AdapterRegistry registry;
  EXPECT_TRUE(registry.add(named("a")));
  EXPECT_TRUE(registry.add(named("b")));
  EXPECT_TRUE(registry.set_defaults({{0, 0.5F}, {1, 0}}));
  EXPECT_FALSE(registry.set_defaults({{0, 2}, {7, 1}}));
  EXPECT_EQ(registry.default_strength(0), 0.5F);
  EXPECT_EQ(registry.defaults().size(), 1U);
  EXPECT_TRUE(registry.remove("a"));
  EXPECT_TRUE(registry.defaults().empty());
}

TEST(AdapterName, IsCheckedForWhatItCanLeadTo) {
  for (const char *good : {"a", "org/name:v2", "a..b", "ä ö", "a/..b/c"})
    EXPECT_TRUE(check_adapter_name(good)) << good;
  const std::string long_name(257, 'x');
  for (const std::string &bad : {std::string(), long_name, std::string("a,b"), std::string("a\nb"),
                                 std::string("a\0b", 3), std::string("/etc"), std::string(".."),
                                 std::string("a/../b"), std::string("a/.."), std::string("\x7F")})
    EXPECT_FALSE(check_adapter_name(bad)) << bad;
}

}  // namespace
}  // namespace patchbay
