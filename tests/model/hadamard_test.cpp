#include "model/hadamard.h"

#include <gmock/gmock.h>

#include <functional>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const std::string k_prefix = "prism.hadamard.";

/// The keys of a sound folding, each by a function that writes it, so that a test can change or
/// drop one: blocks of 4, a matrix of width 4 and one of 8, a table of width 4.
class Keys {
 public:
  Keys() {
    set("version", uint32_t{1});
    set("transform", "normalized-sylvester-walsh-hadamard");
    set("axis", "input-last-dimension");
    set("block_size", uint32_t{4});
    set("sign_mode", "explicit");
    set_array<uint32_t>("sign_widths", {4, 8});
    set_array<int8_t>("sign_values", {1, -1, -1, 1, 1, 1, -1, 1, -1, -1, 1, -1});
    set_array<std::string>("weight_names", {"narrow.weight", "wide.weight"});
    set_array<std::string>("inverse_weight_names", {"token_embd.weight"});
    set("gdn_v_grouped", false);
  }

  template <class T>
  Keys &set(const std::string &name, T value) {
    writers_[name] = [=](GgufBuilder &file) { file.set(k_prefix + name, value); };
    return *this;
  }
  template <class T>
  Keys &set_array(const std::string &name, const std::vector<T> &values) {
    writers_[name] = [=](GgufBuilder &file) { file.set_array(k_prefix + name, values); };
    return *this;
  }
  Keys &drop(const std::string &name) {
    writers_.erase(name);
    return *this;
  }

  void write(GgufBuilder &file) const {
    for (const auto &[name, writer] : writers_) writer(file);
  }

 private:
  std::map<std::string, std::function<void(GgufBuilder &)>> writers_;
};

std::optional<HadamardFolding> read(const std::function<void(GgufBuilder &)> &write_keys) {
  GgufBuilder file;
  write_keys(file);
  file.add_f32("narrow.weight", {4, 2}, std::vector<float>(8))
      .add_f32("wide.weight", {8, 2}, std::vector<float>(16))
      .add_f32("other.weight", {6, 2}, std::vector<float>(12))
      .add_f32("token_embd.weight", {4, 3}, std::vector<float>(12));
  const TempDir dir;
  return read_hadamard(GgufFile::open(dir.write("model.gguf", file.bytes())));
}

std::optional<HadamardFolding> read(const Keys &keys) {
  return read([&](GgufBuilder &file) { keys.write(file); });
}

/// The message of the refusal when one thing of a sound folding is different.
std::string refusal(const std::function<void(Keys &)> &change) {
  Keys keys;
  change(keys);
  return load_failure([&] { (void)read(keys); });
}

TEST(Hadamard, AFileWithoutAKeyIsNotFolded) {
  EXPECT_FALSE(read([](GgufBuilder &file) { file.set("general.name", "plain"); }));
}

TEST(Hadamard, ReadsWhatTheKeysSay) {
  const auto folding = read(Keys());
  ASSERT_TRUE(folding);
  EXPECT_EQ(folding->block_size, 4);
  EXPECT_THAT(folding->linears, ElementsAre("narrow.weight", "wide.weight"));
  EXPECT_THAT(folding->tables, ElementsAre("token_embd.weight"));
  EXPECT_THAT(folding->signs, ElementsAre(Pair(4, ElementsAre(1, -1, -1, 1)),
                                          Pair(8, ElementsAre(1, 1, -1, 1, -1, -1, 1, -1))));
}

TEST(Hadamard, SignsMayComeInAnyOrderOfWidthsAndAsWiderIntegers) {
  Keys keys;
  keys.set_array<int32_t>("sign_widths", {8, 4});
  keys.set_array<int32_t>("sign_values", {1, 1, 1, 1, -1, -1, -1, -1, 1, -1, 1, -1});
  EXPECT_THAT(read(keys)->signs, ElementsAre(Pair(4, ElementsAre(1, -1, 1, -1)),
                                             Pair(8, ElementsAre(1, 1, 1, 1, -1, -1, -1, -1))));
}

TEST(Hadamard, WhatIsOptionalMayBeLeftOut) {
  Keys keys;
  keys.set("sign_mode", "identity").drop("sign_widths").drop("sign_values");
  keys.drop("inverse_weight_names").drop("gdn_v_grouped");
  const auto folding = read(keys);
  EXPECT_THAT(folding->signs, IsEmpty());
  EXPECT_THAT(folding->tables, IsEmpty());
}

TEST(Hadamard, IdentityTakesSignsThatSayTheSame) {
  Keys keys;
  keys.set("sign_mode", "identity");
  EXPECT_THAT(load_failure([&] { (void)read(keys); }),
              AllOf(HasSubstr("sign_values holds a number that is no sign"), HasSubstr("identity"),
                    HasSubstr("found -1")));
  keys.set_array<int8_t>("sign_values", std::vector<int8_t>(12, 1));
  EXPECT_THAT(read(keys)->signs, IsEmpty());
  keys.drop("sign_widths");
  EXPECT_THAT(load_failure([&] { (void)read(keys); }), HasSubstr("sign_widths is missing"));
}

TEST(Hadamard, EveryRequiredKeyIsRequired) {
  for (const char *name : {"version", "transform", "axis", "block_size", "sign_mode", "sign_widths",
                           "sign_values", "weight_names"}) {
    EXPECT_THAT(refusal([&](Keys &keys) { keys.drop(name); }),
                HasSubstr(k_prefix + name + " is missing"));
  }
  EXPECT_THAT(load_failure([] {
                (void)read([](GgufBuilder &file) { file.set(k_prefix + "version", 1U); });
              }),
              HasSubstr("is missing"));
}

TEST(Hadamard, OtherFormsAreRefusedByName) {
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("version", 2U); }),
              HasSubstr("version of Hadamard folding that is not known: want 1, found 2"));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("transform", "paley"); }),
              AllOf(HasSubstr("prism.hadamard.transform"), HasSubstr("found 'paley'")));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("axis", "output"); }),
              AllOf(HasSubstr("prism.hadamard.axis"), HasSubstr("found 'output'")));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("sign_mode", "random"); }),
              HasSubstr("want 'identity' or 'explicit', found 'random'"));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("gdn_v_grouped", true); }),
              HasSubstr("prism.hadamard.gdn_v_grouped is for gated delta nets"));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("output_signs", true); }),
              HasSubstr("prism.hadamard.output_signs is a setting of Hadamard folding that is not "
                        "known"));
}

TEST(Hadamard, TheBlockMustBeAPowerOfTwoThatDividesEveryFoldedWidth) {
  for (const uint32_t block_size : {0U, 3U, 12U}) {
    EXPECT_THAT(refusal([&](Keys &keys) { keys.set("block_size", block_size); }),
                AllOf(HasSubstr("block_size"), HasSubstr("want a power of two")));
  }
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("block_size", 8U); }),
              AllOf(HasSubstr("narrow.weight"), HasSubstr("want a multiple of 8, found 4")));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("block_size", 0x80000000U); }),
              HasSubstr("want a multiple of 2147483648"));
  EXPECT_THAT(refusal([](Keys &keys) { keys.set("block_size", -4); }), HasSubstr("block_size"));
}

TEST(Hadamard, NamesMustBeTensorsOfTheFileEachOnce) {
  const auto refusal_of = [](const char *key, const std::vector<std::string> &names) {
    return refusal([&](Keys &keys) { keys.set_array(key, names); });
  };
  EXPECT_THAT(refusal_of("weight_names", {"narrow.weight", "wide.weight", "lost.weight"}),
              HasSubstr("weight_names names a tensor that the file does not have: found "
                        "'lost.weight'"));
  EXPECT_THAT(refusal_of("inverse_weight_names", {""}),
              HasSubstr("inverse_weight_names names a tensor that the file does not have"));
  EXPECT_THAT(refusal_of("weight_names", {"narrow.weight", "wide.weight", "narrow.weight"}),
              HasSubstr("names a tensor twice: found 'narrow.weight'"));
  EXPECT_THAT(refusal_of("inverse_weight_names", {"narrow.weight"}),
              HasSubstr("names a tensor that weight_names has as well"));
  EXPECT_THAT(refusal([](Keys &keys) {
                keys.set_array<std::string>("weight_names", {}).drop("inverse_weight_names");
              }),
              HasSubstr("names no tensor"));
}

TEST(Hadamard, SignsMustCoverTheFoldedWidthsAndNothingElse) {
  const auto with = [](const std::vector<int32_t> &widths, const std::vector<int8_t> &values) {
    return refusal([&](Keys &keys) {
      keys.set_array("sign_widths", widths).set_array("sign_values", values);
    });
  };
  const auto plus = [](size_t n) { return std::vector<int8_t>(n, 1); };
  EXPECT_THAT(with({4}, plus(4)), HasSubstr("has no signs for an input width of a folded weight: "
                                            "want 8"));
  EXPECT_THAT(with({4, 8}, plus(13)),
              AllOf(HasSubstr("sign_values holds more signs"), HasSubstr("found 1 more")));
  EXPECT_THAT(with({4, 8}, plus(11)), HasSubstr("want 8 more, found 7"));
  EXPECT_THAT(with({4, 8, 4}, plus(16)), HasSubstr("each input width of a folded weight once: want "
                                                   "4, 8, found 4"));
  EXPECT_THAT(with({4, 8, 6}, plus(18)), HasSubstr("found 6"));
  EXPECT_THAT(with({4, -8}, plus(12)), HasSubstr("found -8"));
  EXPECT_THAT(with({4, 0, 8}, plus(12)), HasSubstr("found 0"));
  for (const int value : {0, 2, -2, 127}) {
    auto values = plus(12);
    values[5] = static_cast<int8_t>(value);
    EXPECT_THAT(with({4, 8}, values),
                AllOf(HasSubstr("want 1 or -1"), HasSubstr("found " + std::to_string(value))));
  }
}

TEST(Hadamard, ValuesOfAnotherKindAreRefused) {
  for (const char *name :
       {"version", "transform", "axis", "block_size", "sign_mode", "sign_widths", "sign_values",
        "weight_names", "inverse_weight_names", "gdn_v_grouped"}) {
    EXPECT_THAT(refusal([&](Keys &keys) { keys.set(name, 1.5F); }), HasSubstr(k_prefix + name));
  }
}

BaseInfo base_with(bool tied_head) {
  BaseInfo base{.tied_head = tied_head};
  base.uses = {{.name = "token_embd.weight", .kind = UseKind::embed},
               {.name = "wide.weight"},
               {.name = "experts.weight", .kind = UseKind::experts},
               {.name = "output.weight"}};
  return base;
}

TEST(SettledFolding, MarksEveryUseOfAFoldedTable) {
  for (const bool tied_head : {false, true}) {
    BaseInfo base = base_with(tied_head);
    settle_folding({.linears = {"wide.weight", "experts.weight"}, .tables = {"token_embd.weight"}},
                   base);
    EXPECT_TRUE(base.find_use("token_embd.weight")->rotated_table);
    EXPECT_EQ(base.find_use("output.weight")->rotated_table, tied_head);
    EXPECT_FALSE(base.find_use("wide.weight")->rotated_table);
    EXPECT_FALSE(base.find_use("experts.weight")->rotated_table);
  }
}

TEST(SettledFolding, RefusesWhatTheGraphWouldNotTransform) {
  const auto refused = [](const HadamardFolding &folding) {
    BaseInfo base = base_with(true);
    return load_failure([&] { settle_folding(folding, base); });
  };
  EXPECT_THAT(refused({.linears = {"norm.weight"}}),
              HasSubstr("weight_names names a tensor that the graph would not transform"));
  EXPECT_THAT(refused({.linears = {"token_embd.weight"}}), HasSubstr("would not transform"));
  EXPECT_THAT(refused({.tables = {"wide.weight"}}),
              HasSubstr("inverse_weight_names names a tensor that the graph would not transform"));
}

}  // namespace
}  // namespace patchbay
