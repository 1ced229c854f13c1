#include "lora/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string failure(const std::filesystem::path &path) {
  return load_failure([&] { (void)load_adapter(path, dense_base()); });
}

TEST(LoadAdapter, APeftFolderIsFoundByItselfAndByItsFiles) {
  const TempDir folder;
  one_pair().save(folder, "my pirate, v2: ö");
  const auto peft = folder.path() / "my pirate, v2: ö";
  for (const auto &path : {peft, peft / "", peft / "adapter_config.json",
                           peft / "adapter_model.safetensors", peft / "." / ""}) {
    const auto adapter = load_adapter(path, dense_base());
    EXPECT_EQ(adapter->name, "my pirate, v2: ö") << path;
    EXPECT_EQ(adapter->format, AdapterFormat::peft);
    EXPECT_EQ(adapter->pairs.size(), 1U);
  }
}

TEST(LoadAdapter, FoldersOfOtherThingsAreNamed) {
  const TempDir folder;
  folder.write("mlx/adapters.safetensors", "x");
  EXPECT_THAT(failure(folder.path() / "mlx"), HasSubstr("MLX"));
  folder.write("mlx/adapter_config.json", R"({"fine_tune_type": "lora", "lora_parameters": {}})");
  EXPECT_THAT(failure(folder.path() / "mlx"), HasSubstr("MLX"));
  folder.write("bare/adapter_model.safetensors", "x");
  EXPECT_THAT(failure(folder.path() / "bare"), HasSubstr("without adapter_config.json"));
  one_pair().save(folder, "run/checkpoint-10");
  one_pair().save(folder, "run/checkpoint-20");
  EXPECT_THAT(failure(folder.path() / "run"),
              AllOf(HasSubstr("checkpoint-10"), HasSubstr("checkpoint-20")));
  folder.write("model/config.json", "{}");
  EXPECT_THAT(failure(folder.path() / "model"), HasSubstr("base model"));
  std::filesystem::create_directory(folder.path() / "empty");
  EXPECT_THAT(failure(folder.path() / "empty"),
              HasSubstr("is a directory without adapter_config.json"));
}

TEST(LoadAdapter, AFolderWithoutWeightsSaysWhatIsMissing) {
  const TempDir folder;
  folder.write("a/adapter_config.json", PeftBuilder().config.dump());
  EXPECT_THAT(failure(folder.path() / "a"), HasSubstr("adapter_model.safetensors is missing"));
  folder.write("a/adapter_model.bin", "PK\x03\x04");
  EXPECT_THAT(failure(folder.path() / "a"),
              AllOf(HasSubstr("pickle"), HasSubstr("convert it to safetensors")));
}

TEST(LoadAdapter, FilesOfOtherThingsAreNamed) {
  const TempDir folder;
  const auto lone = folder.write("lone.safetensors", one_pair().tensors.bytes());
  EXPECT_THAT(failure(lone), AllOf(HasSubstr("safetensors"), HasSubstr("folder")));
  const auto lone_weights = folder.write("x/adapter_model.safetensors", one_pair().tensors.bytes());
  EXPECT_THAT(failure(lone_weights), HasSubstr("without adapter_config.json"));
  EXPECT_THAT(
      failure(folder.write("adapter_model.bin", std::string("PK\x03\x04 and so on 0123456789"))),
      AllOf(HasSubstr("never read"), HasSubstr("convert it to safetensors")));
  GgufBuilder model;
  model.set("general.type", "model").set("general.architecture", "llama");
  EXPECT_THAT(failure(folder.write("model.gguf", model.bytes())),
              AllOf(HasSubstr("expect general.type to be 'adapter'"), HasSubstr("-m")));
  EXPECT_THAT(failure(folder.write("notes.txt", "just some words, more than eight of them")),
              HasSubstr("notes.txt"));
  EXPECT_THAT(failure(folder.write("empty.gguf", "")), HasSubstr("empty.gguf"));
}

TEST(LoadAdapter, WhatDoesNotExistIsNotFound) {
  const TempDir folder;
  for (const auto *name : {"nothing", "nothing.gguf", "adapter_config.json"}) {
    try {
      (void)load_adapter(folder.path() / name, dense_base());
      ADD_FAILURE() << name;
    } catch (const LoadError &error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found) << error.what();
    }
  }
}

TEST(LoadAdapter, APipeIsRefusedWithoutWaiting) {
  const TempDir folder;
  const auto pipe = folder.path() / "pipe.gguf";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(failure(pipe), HasSubstr("regular file"));
}

TEST(LoadAdapter, ARefusalLeavesNothingBehind) {
  const TempDir folder;
  const auto base = dense_base();
  auto broken = one_pair();
  broken.pair("model.layers.1.self_attn.v_proj", 8, 5);
  broken.save(folder, "a");
  const auto first = failure(folder.path() / "a");
  EXPECT_EQ(failure(folder.path() / "a"), first);
  one_pair().save(folder, "a");
  EXPECT_EQ(load_adapter(folder.path() / "a", base)->pairs.size(), 1U);
}

TEST(LoadAdapter, TheAdapterOutlivesItsFile) {
  std::shared_ptr<const Adapter> adapter;
  {
    const TempDir folder;
    one_pair().save(folder);
    adapter = load_adapter(folder.path() / "adapter", dense_base());
  }
  EXPECT_EQ(numbers(adapter->pairs[0].a), numbered(2, 8).values);
}

}  // namespace
}  // namespace patchbay
