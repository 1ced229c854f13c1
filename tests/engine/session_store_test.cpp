#include "engine/session_store.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "base/file_limit.h"
#include "engine/loaded_model.h"
#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint32_t k_block_size = 32;

/// An engine saves, another one of the same model restores.
class SessionStoreOf : public testing::TestWithParam<TinyModel> {
 protected:
  SessionStoreOf()
      : model_(Model::load(dir_.write("model.gguf", build_tiny_model(GetParam()).bytes()))),
        saving_(engine()) {
    for (int32_t i = 0; i < 70; ++i) prompt_.push_back((i * 7 + 3) % 48);
  }

  [[nodiscard]] std::unique_ptr<Engine> engine(EngineOptions options = {}) const {
    options.n_ctx = options.n_ctx == 0 ? 16 * k_block_size : options.n_ctx;
    options.n_threads = 1;
    return std::make_unique<Engine>(model_, options);
  }

  /// GCC 12 warns of the temporaries of designated initialisers.
  static Request request(std::vector<int32_t> prompt, std::vector<RequestSpan> spans = {},
                         std::string tenant = "") {
    Request made;
    made.prompt = std::move(prompt);
    made.spans = std::move(spans);
    made.tenant = std::move(tenant);
    return made;
  }

  struct Answer {
    std::vector<int32_t> tokens;
    Usage usage;
  };
  static Answer answer(Engine &engine, Request request, int32_t n_predict = 4) {
    request.sampling.temperature = 0;
    request.n_predict = n_predict;
    request.ignore_eos = true;
    auto handle = std::get<RequestHandle>(engine.submit(std::move(request)));
    Answer answer;
    while (const auto event = handle.next()) {
      if (const auto *token = std::get_if<TokenEvent>(&*event))
        answer.tokens.push_back(token->token);
      if (const auto *end = std::get_if<RequestEnd>(&*event)) {
        EXPECT_FALSE(end->error) << end->error->message;
        answer.usage = end->usage;
      }
    }
    return answer;
  }

  [[nodiscard]] fs::path file() const { return dir_.path() / "a.session"; }

  SavedSession save(const std::vector<int32_t> &tokens, std::vector<RequestSpan> spans = {},
                    std::string tenant = "") {
    auto saved = saving_->save_session(
        file(), {.tokens = tokens, .spans = std::move(spans), .tenant = std::move(tenant)});
    if (const auto *error = std::get_if<Error>(&saved)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    EXPECT_EQ(std::get<SavedSession>(saved).size_bytes, fs::file_size(file()));
    return std::get<SavedSession>(saved);
  }

  RestoredSession restore(Engine &engine, const RestoreOptions &options = {}) const {
    auto restored = engine.restore_session(file(), options);
    if (const auto *error = std::get_if<Error>(&restored)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    return std::get<RestoredSession>(restored);
  }

  /// Also that nothing came of it.
  std::string refusal(Engine &engine, const RestoreOptions &options = {},
                      ErrorCode code = ErrorCode::invalid_argument) {
    const auto restored = engine.restore_session(file(), options);
    const auto *error = std::get_if<Error>(&restored);
    if (error == nullptr) {
      ADD_FAILURE() << "was restored";
      return {};
    }
    EXPECT_EQ(error->code, code) << error->message;
    const auto saved = engine.save_session(dir_.path() / "b.session", {.tokens = prompt_});
    EXPECT_TRUE(std::holds_alternative<Error>(saved)) << "something was restored";
    return error->message;
  }

  [[nodiscard]] std::shared_ptr<const Adapter> adapter(uint64_t seed) const {
    auto made =
        std::make_shared<Adapter>(*make_random_adapter(model_->loaded()->info.uses, 2, 0.4F, seed));
    made->name = "pirate";
    return made;
  }

  TempDir dir_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Engine> saving_;
  std::vector<int32_t> prompt_;
};

TEST_P(SessionStoreOf, ARestoredSessionIsGoneOnFrom) {
  const Answer first = answer(*saving_, request(prompt_));
  std::vector<int32_t> all = prompt_;
  all.insert(all.end(), first.tokens.begin(), first.tokens.end());
  EXPECT_EQ(save(all).n_tokens, all.size() - 1) << "the last token was drawn and not computed";
  const auto other = engine();
  const RestoredSession restored = restore(*other);
  EXPECT_EQ(restored.n_tokens, all.size() - 1);
  EXPECT_EQ(restored.n_tokens_all, all.size() - 1);
  const Answer again = answer(*other, request(prompt_));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.usage.n_tokens_cached, prompt_.size() - 1);
  all.push_back(7);
  EXPECT_EQ(answer(*other, request(all)).usage.n_tokens_cached, all.size() - 2);
  EXPECT_EQ(answer(*engine(), request(all)).tokens, answer(*other, request(all)).tokens);
}

TEST_P(SessionStoreOf, TokensGoOnOnlyWearingTheSame) {
  const auto pirate = adapter(1);
  const std::vector<RequestSpan> spans{{0, {}}, {40, {{pirate, 0.5F}}}};
  const Answer first = answer(*saving_, request(prompt_, spans));
  EXPECT_EQ(save(prompt_, spans).n_tokens, prompt_.size());
  const auto other = engine();
  EXPECT_EQ(restore(*other).n_tokens, prompt_.size()) << "without the adapter at hand";
  EXPECT_EQ(answer(*other, request(prompt_), 0).usage.n_tokens_cached, 40U);
  const auto with = [&](const std::shared_ptr<const Adapter> &worn, float strength) {
    return answer(*other, request(prompt_, {{0, {}}, {40, {{worn, strength}}}}));
  };
  EXPECT_EQ(with(adapter(2), 0.5F).usage.n_tokens_cached, 40U) << "other weights";
  EXPECT_EQ(with(pirate, 0.25F).usage.n_tokens_cached, 40U) << "another strength";
  const Answer again = with(adapter(1), 0.5F);  // the same, loaded anew
  EXPECT_EQ(again.usage.n_tokens_cached, prompt_.size() - 1);
  EXPECT_EQ(again.tokens, first.tokens);
}

TEST_P(SessionStoreOf, AnAdapterOfTheSameNameMustBeTheSame) {
  const std::vector<RequestSpan> spans{{0, {{adapter(1), 1}}}};
  answer(*saving_, request(prompt_, spans), 0);
  save(prompt_, spans);
  const auto other = engine();
  EXPECT_THAT(refusal(*other, {.adapters = {adapter(2)}}),
              HasSubstr("a.session: adapter 'pirate' has other content than when the session was "
                        "saved: want"));
  auto renamed = std::make_shared<Adapter>(*adapter(2));
  renamed->name = "sailor";
  EXPECT_EQ(restore(*other, {.adapters = {adapter(1), renamed, nullptr}}).n_tokens, prompt_.size());
}

TEST_P(SessionStoreOf, OneOfSeveralOfANameIsEnough) {
  const std::vector<RequestSpan> spans{{0, {{adapter(1), 1}, {adapter(2), 0.5F}}}};
  answer(*saving_, request(prompt_, spans), 0);
  save(prompt_, spans);
  const auto other = engine();
  EXPECT_EQ(restore(*other, {.adapters = {adapter(2), adapter(1)}}).n_tokens, prompt_.size());
  EXPECT_THAT(refusal(*engine(), {.adapters = {adapter(1), adapter(3)}}), HasSubstr("'pirate'"));
}

TEST_P(SessionStoreOf, TenantsKeepTheirOwn) {
  answer(*saving_, request(prompt_, {}, "one"), 0);
  const auto nothing = saving_->save_session(file(), {.tokens = prompt_, .tenant = "two"});
  EXPECT_EQ(std::get<Error>(nothing).code, ErrorCode::not_found);
  EXPECT_FALSE(fs::exists(file()));
  save(prompt_, {}, "one");
  const auto other = engine();
  restore(*other, {.tenant = "two"});
  const auto n_cached = [&](std::string tenant) {
    return answer(*other, request(prompt_, {}, std::move(tenant)), 0).usage.n_tokens_cached;
  };
  EXPECT_EQ(n_cached("one"), 0U);
  EXPECT_EQ(n_cached("two"), prompt_.size() - 1);
}

TEST_P(SessionStoreOf, WhatDoesNotFitIsLeftOut) {
  answer(*saving_, request(prompt_), 0);
  save(prompt_);
  const auto small = engine({.n_ctx = 2 * k_block_size});
  const RestoredSession restored = restore(*small);
  EXPECT_EQ(restored.n_tokens, 64U);
  EXPECT_EQ(restored.n_tokens_all, 70U);
  const std::vector<int32_t> beginning(prompt_.begin(), prompt_.begin() + 60);
  const Answer cached = answer(*small, request(beginning));
  EXPECT_EQ(cached.usage.n_tokens_cached, 59U);
  EXPECT_EQ(cached.tokens, answer(*engine(), request(beginning)).tokens);
}

TEST_P(SessionStoreOf, OtherModelsAndCachesAreRefused) {
  answer(*saving_, request(prompt_), 0);
  save(prompt_);
  TinyModel other = GetParam();
  other.seed = 2;
  const auto other_model = Model::load(dir_.write("b.gguf", build_tiny_model(other).bytes()));
  Engine of_other(other_model, {.n_ctx = 16 * k_block_size, .n_threads = 1});
  EXPECT_THAT(refusal(of_other), HasSubstr("a.session: digest of the model differs: want"));
  EXPECT_THAT(refusal(*engine({.cache_type = CacheType::f32})),
              HasSubstr("a.session: cache type differs: want f32, found f16"));
  const auto restored = engine({.prefix_cache = false})->restore_session(file());
  EXPECT_THAT(std::get<Error>(restored).message, HasSubstr("prefix cache is off"));
}

TEST_P(SessionStoreOf, WhatIsNoSessionIsRefused) {
  const auto other = engine();
  EXPECT_THAT(refusal(*other, {}, ErrorCode::not_found), HasSubstr("cannot be opened"));
  fs::create_directory(file());
  EXPECT_THAT(refusal(*other), HasSubstr("is a directory"));
  fs::remove(file());
  for (const std::string_view content : {"", "PBSE", "PBSESSN\n", "GGUF and other things"}) {
    dir_.write("a.session", content);
    EXPECT_NE(refusal(*other), "") << content;
  }
}

TEST_P(SessionStoreOf, ADamagedFileIsRefused) {
  answer(*saving_, request(prompt_), 0);
  save(prompt_);
  std::ifstream in(file(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto other = engine();
  for (size_t i = 0; i < whole.size(); i += whole.size() / 13) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    dir_.write("a.session", damaged);
    EXPECT_NE(refusal(*other), "") << i;
    dir_.write("a.session", std::string_view(whole).substr(0, i));
    EXPECT_NE(refusal(*other), "") << i;
  }
  dir_.write("a.session", whole);
  EXPECT_EQ(restore(*other).n_tokens, prompt_.size());
}

TEST_P(SessionStoreOf, AFullDiskLeavesTheOldFile) {
  answer(*saving_, request(prompt_), 0);
  dir_.write("a.session", "old");
  {
    const FileLimit limit(3000);
    const auto saved = saving_->save_session(file(), {.tokens = prompt_});
    EXPECT_THAT(std::get<Error>(saved).message, HasSubstr("a.session: cannot be written"));
  }
  EXPECT_EQ(fs::file_size(file()), 3U);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()), 2);
}

TEST_P(SessionStoreOf, TokensThatCannotBeAreRefused) {
  for (const SessionTokens &tokens :
       {SessionTokens{}, SessionTokens{.tokens = {48}}, SessionTokens{.tokens = {-1}},
        SessionTokens{.tokens = {1}, .spans = {{3, {}}}},
        SessionTokens{.tokens = {1}, .spans = {{0, {{nullptr, 1}}}}}}) {
    const auto saved = saving_->save_session(file(), tokens);
    EXPECT_EQ(std::get<Error>(saved).code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(fs::exists(file()));
}

TEST_P(SessionStoreOf, SavingAndRestoringGoOnBesideRequests) {
  const auto busy = engine();
  Request asked = request(prompt_);
  asked.n_predict = 50;
  asked.ignore_eos = true;
  auto running = std::get<RequestHandle>(busy->submit(std::move(asked)));
  static_cast<void>(running.next());  // the prompt is computed
  const auto saved = std::get<SavedSession>(busy->save_session(file(), {.tokens = prompt_}));
  EXPECT_GE(saved.n_tokens, 2 * k_block_size) << "whole blocks, while the last one is written to";
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] { EXPECT_EQ(restore(*busy).n_tokens, saved.n_tokens); });
  for (auto &thread : threads) thread.join();
  uint32_t n_tokens = 1;
  while (const auto event = running.next())
    n_tokens += std::holds_alternative<TokenEvent>(*event) ? 1 : 0;
  EXPECT_EQ(n_tokens, 50U);
}

std::string name_of(const testing::TestParamInfo<TinyModel> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Models, SessionStoreOf, testing::Values(tiny_llama(), tiny_gemma3()),
                         name_of);

TEST(ModelDigest, TellsFilesApartAndCountsEveryByte) {
  const TempDir dir;
  const auto digest = [&](const std::string &bytes) {
    return digest_of(GgufFile::open(dir.write("model.gguf", bytes)));
  };
  std::string bytes = build_tiny_model(tiny_llama()).bytes();
  const Xxh128Digest before = digest(bytes);
  EXPECT_EQ(digest(bytes), before);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_NE(digest(bytes), before);
}

}  // namespace
}  // namespace patchbay
