#include "kv/prefix_tree.h"

#include <gmock/gmock.h>

#include "kv/prefix_support.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t k_block_size = 4;

TEST(PrefixTree, ANodeIsFoundByItsContentBelowItsParentOnly) {
  PrefixTree tree(k_block_size);
  const auto root = tree.root("");
  const auto a = tree.add(root, text(4));
  const auto b = tree.add(root, text(4, 7));
  ASSERT_TRUE(a && b);
  const auto below_a = tree.add(*a, text(4, 50));
  const auto below_b = tree.add(*b, text(4, 50));
  ASSERT_TRUE(below_a && below_b);
  EXPECT_EQ(tree.find(root, text(4)), a);
  EXPECT_EQ(tree.find(*a, text(4, 50)), below_a);
  EXPECT_EQ(tree.find(*b, text(4, 50)), below_b);
  EXPECT_EQ(tree.find(root, text(4, 50)), std::nullopt);
  EXPECT_EQ(tree.find(*below_a, text(4, 50)), std::nullopt);
  EXPECT_EQ(tree.find(root, text(3)), std::nullopt);
  EXPECT_EQ(tree.find(root, text(4, 100, 1)), std::nullopt) << "the same tokens wear another set";
  EXPECT_EQ(tree.content(*below_b), text(4, 50));
  EXPECT_EQ(tree.n_nodes(), 4U);
}

TEST(PrefixTree, AmongManyNodesEachIsFoundAndNothingElse) {
  PrefixTree tree(k_block_size);
  const auto root = tree.root("");
  std::vector<std::optional<PrefixTree::NodeId>> nodes;
  for (int32_t i = 0; i < 2000; ++i)
    nodes.push_back(tree.add(root, text(4, i, static_cast<unsigned char>(i % 3))));
  for (int32_t i = 0; i < 2000; ++i) {
    const auto worn = static_cast<unsigned char>(i % 3);
    EXPECT_EQ(tree.find(root, text(4, i, worn)), nodes[static_cast<size_t>(i)]);
    EXPECT_EQ(tree.find(root, text(4, i, static_cast<unsigned char>(worn + 1))), std::nullopt);
    EXPECT_EQ(tree.find(*nodes[static_cast<size_t>(i)], text(4, i, worn)), std::nullopt);
  }
}

TEST(PrefixTree, TheChildThatBeginsWithMostOfAContentIsFound) {
  PrefixTree tree(k_block_size);
  const auto root = tree.root("");
  const auto two = tree.add(root, joined(text(2), text(2, 7)));
  const auto three = tree.add(root, joined(text(3), text(1, 7)));
  const auto short_one = tree.add(root, text(2, 40));
  ASSERT_TRUE(two && three && short_one);
  const auto expect = [&](const PrefixContent &content, PrefixTree::NodeId node, uint32_t n) {
    const auto [found, n_tokens] = tree.find_beginning(root, content);
    EXPECT_EQ(found, node);
    EXPECT_EQ(n_tokens, n);
  };
  expect(text(4), *three, 3);
  expect(joined(text(2), text(1, 7)), *two, 3);
  expect(text(4, 40), *short_one, 2);
  expect(text(1, 40), *short_one, 1);
  expect(joined(text(1), text(3, 101, 5)), *two, 1);
  expect(text(4, 100, 5), PrefixTree::k_no_node, 0);
  expect({}, PrefixTree::k_no_node, 0);
}

TEST(PrefixTree, TenantsHaveRootsOfTheirOwn) {
  PrefixTree tree(k_block_size);
  EXPECT_EQ(tree.find_root("a"), std::nullopt);
  const auto a = tree.root("a");
  const auto b = tree.root("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(tree.root("a"), a);
  EXPECT_EQ(tree.find_root("b"), b);
  (void)tree.add(a, text(4));
  EXPECT_EQ(tree.find(b, text(4)), std::nullopt);
  EXPECT_EQ(tree.find_beginning(b, text(4)).n_tokens, 0U);
  EXPECT_EQ(tree.n_nodes(), 1U) << "roots do not count";
}

TEST(PrefixTree, WithANodeAllThatFollowsOnItGoes) {
  PrefixTree tree(k_block_size);
  const auto root = tree.root("");
  const auto a = *tree.add(root, text(4));
  const auto b = *tree.add(root, text(4, 7));
  const auto below = *tree.add(a, text(4, 50));
  const auto leaf = *tree.add(below, text(2, 60));
  const auto other_leaf = *tree.add(below, text(2, 70));
  EXPECT_TRUE(tree.is_full(below));
  EXPECT_FALSE(tree.is_full(leaf));
  EXPECT_THAT(tree.remove(a), ElementsAre(a, below, leaf, other_leaf));
  EXPECT_THAT(tree.remove(a), IsEmpty());
  EXPECT_EQ(tree.n_nodes(), 1U);
  EXPECT_THAT(tree.children(root), ElementsAre(b));
  EXPECT_FALSE(tree.contains(leaf));
  EXPECT_EQ(tree.find(root, text(4)), std::nullopt);
  EXPECT_EQ(tree.find(a, text(4, 50)), std::nullopt);
  EXPECT_EQ(tree.find_beginning(a, text(4, 50)).n_tokens, 0U);
  EXPECT_EQ(tree.add(a, text(4, 50)), std::nullopt) << "its parent is gone";
  // The name of a node that is gone is not given to another.
  const auto again = tree.add(root, text(4));
  ASSERT_TRUE(again);
  EXPECT_GT(*again, other_leaf);
}

TEST(PrefixTree, TenantsWithoutPrefixesAreForgottenWhenThereAreMany) {
  PrefixTree tree(k_block_size);
  (void)tree.root("comes and goes");
  const auto kept = tree.root("stays");
  (void)tree.add(kept, text(4));
  for (int i = 0; i < 5000; ++i) (void)tree.root(std::to_string(i));
  EXPECT_EQ(tree.find_root("comes and goes"), std::nullopt);
  EXPECT_EQ(tree.find_root("stays"), kept);
  EXPECT_TRUE(tree.find(kept, text(4)));
}

}  // namespace
}  // namespace patchbay
