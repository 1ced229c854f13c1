#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "engine/step_support.h"
#include "gguf/gguf_file.h"
#include "lora/random_adapter.h"
#include "patchbay/error.hpp"

namespace patchbay {
namespace {

// However a file is damaged, it is refused with a LoadError or it loads and computes; nothing
// aborts, crashes or leaks.

TinyModel smallest(TinyModel model) {
  model.hparams.n_layer = 1;
  return model;
}

/// A GGUF adapter over every use that takes one: what make_random_adapter makes, as a file.
std::string adapter_image(const LoadedModel &model) {
  GgufBuilder file;
  file.set("general.type", "adapter")
      .set("general.architecture", std::string(model.family->name))
      .set("adapter.type", "lora")
      .set("adapter.lora.alpha", 4.0F)
      .set_array("adapter.alora.invocation_tokens", std::vector<uint32_t>{1, 2});
  std::vector<AdaptableUse> uses = model.info.uses;
  std::erase_if(uses, [](const AdaptableUse &use) { return use.rotated_table; });
  const auto adapter = make_random_adapter(uses, 2, 0.3F, 1);
  for (const auto &pair : adapter->pairs) {
    const auto add = [&](const char *suffix, const Factor &factor) {
      file.add_tensor(
          pair.target + suffix, factor.type, {factor.ne[0], factor.ne[1], factor.ne[2]},
          std::string(reinterpret_cast<const char *>(factor.data.data()), factor.data.size()));
    };
    add(".lora_a", pair.a);
    add(".lora_b", pair.b);
  }
  return file.bytes();
}

/// Offsets of every place where one structure of the file ends and the next begins, and of every
/// type field.
struct Layout {
  std::set<size_t> boundaries;
  std::vector<size_t> types;
  size_t header_bytes = 0;
};

Layout layout_of(const GgufFile &file) {
  Layout layout;
  const std::byte *begin = file.shards().front().bytes().data();
  const auto at = [begin](std::span<const std::byte> part) {
    return static_cast<size_t>(part.data() - begin);
  };
  for (const auto &entry : file.entries()) {
    const size_t payload = at(entry.bytes);
    const bool is_array = entry.type == GgufType::array;
    layout.boundaries.insert({payload - 4, payload, payload + entry.bytes.size()});
    layout.types.push_back(payload - (is_array ? 16 : 4));
    if (is_array) layout.types.push_back(payload - 12);
  }
  layout.header_bytes = file.shards().front().bytes().size();
  for (const auto &tensor : file.tensors()) {
    layout.boundaries.insert({at(tensor.data), at(tensor.data) + tensor.data.size() - 1});
    layout.header_bytes = std::min(layout.header_bytes, at(tensor.data));
  }
  return layout;
}

class CorruptFiles : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    const GgufBuilder builder = build_tiny_model(GetParam());
    image_ = builder.bytes();
    model_ = load_model(dir_.write("sound.gguf", image_));
    adapter_image_ = adapter_image(*model_);
  }

  /// Loads an image as a model and computes with it. True: it could be used.
  bool try_model(const std::string &image) {
    std::shared_ptr<const LoadedModel> model;
    try {
      model = load_model(dir_.write("damaged.gguf", image));
    } catch (const LoadError &) {
      return false;
    }
    const auto executor = make_executor(model, 4);
    return executor->run(plan_of({{.tokens = {0, 0}}})).has_value();
  }

  /// Loads an image as an adapter of the sound model and computes with it.
  bool try_adapter(const std::string &image) {
    std::shared_ptr<const Adapter> adapter;
    try {
      adapter = load_adapter(dir_.write("damaged_adapter.gguf", image), model_->info);
    } catch (const LoadError &) {
      return false;
    }
    const auto executor = make_executor(model_, 4, {adapter});
    return executor->run(plan_of({{.tokens = {3, 4}, .set = {{0, 1.0F}}}})).has_value();
  }

  using Attempt = std::function<bool(const std::string &)>;

  void truncate_everywhere(const std::string &image, const Attempt &attempt) {
    const Layout layout = layout_of(GgufFile::open(dir_.write("layout.gguf", image)));
    for (const size_t end : layout.boundaries) {
      for (const size_t n : {end - 1, end, end + 1}) {
        if (n >= image.size()) continue;
        EXPECT_FALSE(attempt(image.substr(0, n))) << "cut at " << n;
      }
    }
    EXPECT_FALSE(attempt(image.substr(0, image.size() - 1)));
  }

  void flip_every_type(const std::string &image, const Attempt &attempt) {
    const Layout layout = layout_of(GgufFile::open(dir_.write("layout.gguf", image)));
    for (const size_t offset : layout.types) {
      for (uint32_t type = 0; type <= 13; ++type) {
        std::string damaged = image;
        std::memcpy(damaged.data() + offset, &type, sizeof type);
        (void)attempt(damaged);
      }
    }
  }

  void change_header_bytes(const std::string &image, const Attempt &attempt) {
    const Layout layout = layout_of(GgufFile::open(dir_.write("layout.gguf", image)));
    for (size_t i = 0; i < layout.header_bytes; ++i) {
      for (const char value : {'\0', '\x7f', '\xff'}) {
        std::string damaged = image;
        damaged[i] = value;
        (void)attempt(damaged);
      }
    }
  }

  TempDir dir_;
  std::string image_;
  std::string adapter_image_;
  std::shared_ptr<const LoadedModel> model_;
  Attempt model_attempt_ = [this](const std::string &image) { return try_model(image); };
  Attempt adapter_attempt_ = [this](const std::string &image) { return try_adapter(image); };
};

TEST_P(CorruptFiles, SoundOnesCanBeUsed) {
  EXPECT_TRUE(try_model(image_));
  EXPECT_TRUE(try_adapter(adapter_image_));
}

TEST_P(CorruptFiles, ATruncatedModelIsRefused) { truncate_everywhere(image_, model_attempt_); }
TEST_P(CorruptFiles, ATruncatedAdapterIsRefused) {
  truncate_everywhere(adapter_image_, adapter_attempt_);
}
TEST_P(CorruptFiles, NoMetadataTypeInAModelAborts) { flip_every_type(image_, model_attempt_); }
TEST_P(CorruptFiles, NoMetadataTypeInAnAdapterAborts) {
  flip_every_type(adapter_image_, adapter_attempt_);
}
TEST_P(CorruptFiles, NoByteOfAModelsHeaderAborts) { change_header_bytes(image_, model_attempt_); }
TEST_P(CorruptFiles, NoByteOfAnAdaptersHeaderAborts) {
  change_header_bytes(adapter_image_, adapter_attempt_);
}

TEST_P(CorruptFiles, AnAdapterIsNoModelAndAModelIsNoAdapter) {
  EXPECT_FALSE(try_model(adapter_image_));
  EXPECT_FALSE(try_adapter(image_));
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, CorruptFiles,
                         testing::Values(smallest(tiny_llama()), smallest(tiny_mixtral()),
                                         smallest(tiny_gemma3()), smallest(folded(tiny_llama()))),
                         [](const auto &param) { return param.param.name; });

}  // namespace
}  // namespace patchbay
