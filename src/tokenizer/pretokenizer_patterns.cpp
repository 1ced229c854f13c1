#include "tokenizer/pretokenizer_patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace patchbay {

namespace {

// What the patterns share. PCRE2's \s also matches U+180E, which Unicode and HF do not count as
// white space.
#define PATCHBAY_WS R"(\p{White_Space})"
#define PATCHBAY_NOT_WS R"(\P{White_Space})"
#define PATCHBAY_BLANKS PATCHBAY_WS "+(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "+"
#define PATCHBAY_NEWLINES PATCHBAY_WS R"(*[\r\n]+)"
#define PATCHBAY_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define PATCHBAY_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define PATCHBAY_OTHER " ?[^" PATCHBAY_WS R"(\p{L}\p{N}]+)"

constexpr std::string_view k_gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|)" PATCHBAY_OTHER "|" PATCHBAY_BLANKS;

constexpr std::string_view k_digit = R"(\p{N})";

constexpr std::string_view k_llama3 =
    PATCHBAY_CONTRACTION "|" PATCHBAY_WORD R"(|\p{N}{1,3}|)" PATCHBAY_OTHER
                         R"([\r\n]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_qwen2 =
    PATCHBAY_CONTRACTION "|" PATCHBAY_WORD R"(|\p{N}|)" PATCHBAY_OTHER
                         R"([\r\n]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

// Marks belong to words here.
constexpr std::string_view k_qwen35 =
    PATCHBAY_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^)" PATCHBAY_WS
                         R"(\p{L}\p{M}\p{N}]+[\r\n]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_seed_coder =
    PATCHBAY_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^)" PATCHBAY_WS
                         R"(\p{L}\p{N}\r\n]+|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_bailingmoe =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^)" PATCHBAY_WS
    R"(\p{L}\p{N}]++[\r\n]*|)" PATCHBAY_WS R"(*[\r\n]|)" PATCHBAY_BLANKS;

// Runs of blanks only in powers of two up to 512.
constexpr std::string_view k_jais2 = PATCHBAY_CONTRACTION
    "|" PATCHBAY_WORD R"(|\p{N}{1,3}|)" PATCHBAY_OTHER R"([\r\n]*|)" PATCHBAY_NEWLINES
    "|" PATCHBAY_WS "{512}(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "{256}(?!" PATCHBAY_NOT_WS
    ")"
    "|" PATCHBAY_WS "{128}(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "{64}(?!" PATCHBAY_NOT_WS
    ")"
    "|" PATCHBAY_WS "{32}(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "{16}(?!" PATCHBAY_NOT_WS
    ")"
    "|" PATCHBAY_WS "{8}(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "{4}(?!" PATCHBAY_NOT_WS
    ")"
    "|" PATCHBAY_WS "{1,2}(?!" PATCHBAY_NOT_WS ")|" PATCHBAY_WS "{1}";

// Words are cut where lower case turns to upper case.
#define PATCHBAY_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define PATCHBAY_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define PATCHBAY_CASED_LOW R"([^\r\n\p{L}\p{N}]?)" PATCHBAY_UPPER "*" PATCHBAY_LOWER "+"
#define PATCHBAY_CASED_HIGH R"([^\r\n\p{L}\p{N}]?)" PATCHBAY_UPPER "+" PATCHBAY_LOWER "*"

constexpr std::string_view k_gpt4o = PATCHBAY_CASED_LOW PATCHBAY_CONTRACTION
    "?|" PATCHBAY_CASED_HIGH PATCHBAY_CONTRACTION R"(?|\p{N}{1,3}|)" PATCHBAY_OTHER
    R"([\r\n/]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_tekken =
    PATCHBAY_CASED_LOW "|" PATCHBAY_CASED_HIGH R"(|\p{N}|)" PATCHBAY_OTHER
                       R"([\r\n/]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_deepseek_cjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

constexpr std::string_view k_deepseek3_cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

constexpr std::string_view k_deepseek3_text =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|)" PATCHBAY_NEWLINES "|" PATCHBAY_BLANKS;

constexpr std::string_view k_bloom =
    " ?[^(" PATCHBAY_WS R"(|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

#undef PATCHBAY_WS
#undef PATCHBAY_NOT_WS
#undef PATCHBAY_BLANKS
#undef PATCHBAY_NEWLINES
#undef PATCHBAY_CONTRACTION
#undef PATCHBAY_WORD
#undef PATCHBAY_OTHER
#undef PATCHBAY_UPPER
#undef PATCHBAY_LOWER
#undef PATCHBAY_CASED_LOW
#undef PATCHBAY_CASED_HIGH

constexpr std::array<PretokenizerStep, 1> k_gpt2_steps{{{k_gpt2}}};
constexpr std::array<PretokenizerStep, 2> k_digits_gpt2_steps{{{k_digit}, {k_gpt2}}};
constexpr std::array<PretokenizerStep, 1> k_llama3_steps{{{k_llama3}}};
constexpr std::array<PretokenizerStep, 1> k_qwen2_steps{{{k_qwen2}}};
constexpr std::array<PretokenizerStep, 1> k_qwen35_steps{{{k_qwen35}}};
constexpr std::array<PretokenizerStep, 1> k_seed_coder_steps{{{k_seed_coder}}};
constexpr std::array<PretokenizerStep, 1> k_bailingmoe_steps{{{k_bailingmoe}}};
constexpr std::array<PretokenizerStep, 1> k_jais2_steps{{{k_jais2}}};
constexpr std::array<PretokenizerStep, 1> k_gpt4o_steps{{{k_gpt4o}}};
constexpr std::array<PretokenizerStep, 1> k_tekken_steps{{{k_tekken}}};
constexpr std::array<PretokenizerStep, 5> k_deepseek_coder_steps{{{R"([\r\n])"},
                                                                  {R"(\p{White_Space}?\p{L}+)"},
                                                                  {R"(\p{White_Space}?\p{P}+)"},
                                                                  {k_deepseek_cjk},
                                                                  {k_digit}}};
constexpr std::array<PretokenizerStep, 3> k_deepseek3_steps{
    {{R"(\p{N}{1,3})"}, {k_deepseek3_cjk}, {k_deepseek3_text}}};
constexpr std::array<PretokenizerStep, 1> k_bloom_steps{{{k_bloom}}};
constexpr std::array<PretokenizerStep, 2> k_viking_steps{{{k_bloom}, {k_digit}}};
// HF splits digits after ByteLevel, which spells the bytes B2, B3, B9 and BC to BE as superscripts
// and fractions: numbers.
constexpr std::array<PretokenizerStep, 4> k_falcon_steps{{{R"([\p{P}$+<=>^`|~]+)"},
                                                          {k_gpt2},
                                                          {R"([0-9\xB2\xB3\xB9\xBC-\xBE]+)", true},
                                                          {"[0-9]{3}", true}}};

constexpr PretokenizerSpec k_plain_gpt2{.steps = k_gpt2_steps};
constexpr PretokenizerSpec k_digits_gpt2{.steps = k_digits_gpt2_steps};
constexpr PretokenizerSpec k_llama3_family{
    .steps = k_llama3_steps, .ignore_merges = true, .add_bos = true};
constexpr PretokenizerSpec k_llama3_merged{.steps = k_llama3_steps};
constexpr PretokenizerSpec k_qwen2_family{.steps = k_qwen2_steps};
constexpr PretokenizerSpec k_gpt4o_family{.steps = k_gpt4o_steps};
constexpr PretokenizerSpec k_bailing_family{.steps = k_bailingmoe_steps};
constexpr PretokenizerSpec k_deepseek3_family{.steps = k_deepseek3_steps};
constexpr PretokenizerSpec k_bloom_family{.steps = k_bloom_steps};

struct NamedSpec {
  std::string_view name;
  PretokenizerSpec spec;
};

constexpr std::array k_specs = {
    NamedSpec{"default", k_plain_gpt2},
    NamedSpec{"gpt-2", k_plain_gpt2},
    NamedSpec{"phi-2", k_plain_gpt2},
    NamedSpec{"gigachat", k_plain_gpt2},
    NamedSpec{"a.x-4.0", k_plain_gpt2},
    NamedSpec{"olmo", k_plain_gpt2},
    NamedSpec{"mpt", k_plain_gpt2},
    NamedSpec{"jais", k_plain_gpt2},
    NamedSpec{"trillion", k_plain_gpt2},
    NamedSpec{"granite-docling", k_plain_gpt2},
    NamedSpec{"exaone4", k_plain_gpt2},
    NamedSpec{"smollm", k_digits_gpt2},
    NamedSpec{"starcoder", k_digits_gpt2},
    NamedSpec{"refact", k_digits_gpt2},
    NamedSpec{"command-r", k_digits_gpt2},
    NamedSpec{"codeshell", k_digits_gpt2},
    NamedSpec{"exaone", k_digits_gpt2},
    NamedSpec{"minerva-7b", k_digits_gpt2},
    NamedSpec{"llama-bpe", k_llama3_family},
    NamedSpec{"llama3", k_llama3_family},
    NamedSpec{"llama-v3", k_llama3_family},
    NamedSpec{"falcon3", k_llama3_family},
    NamedSpec{"falcon-h1", k_llama3_family},
    NamedSpec{"pixtral", k_llama3_family},
    NamedSpec{"midm-2.0", k_llama3_family},
    NamedSpec{"lfm2", k_llama3_family},
    NamedSpec{"dbrx", k_llama3_merged},
    NamedSpec{"smaug-bpe", k_llama3_merged},
    NamedSpec{"glm4", k_llama3_merged},
    NamedSpec{"chatglm-bpe", k_llama3_merged},
    NamedSpec{"qwen2", k_qwen2_family},
    NamedSpec{"deepseek-r1-qwen", k_qwen2_family},
    NamedSpec{"stablelm2", k_qwen2_family},
    NamedSpec{"megrez", k_qwen2_family},
    NamedSpec{"hunyuan", k_qwen2_family},
    NamedSpec{"grok-2", k_qwen2_family},
    NamedSpec{"solar-open", k_qwen2_family},
    NamedSpec{"kormo", k_qwen2_family},
    NamedSpec{"qwen35", PretokenizerSpec{.steps = k_qwen35_steps}},
    NamedSpec{"gpt-4o", k_gpt4o_family},
    NamedSpec{"llama4", k_gpt4o_family},
    NamedSpec{"kanana2", k_gpt4o_family},
    NamedSpec{"minimax-m2", k_gpt4o_family},
    NamedSpec{"tekken",
              PretokenizerSpec{.steps = k_tekken_steps, .ignore_merges = true, .add_bos = true}},
    NamedSpec{"deepseek-coder", PretokenizerSpec{.steps = k_deepseek_coder_steps}},
    NamedSpec{"deepseek-v3", k_deepseek3_family},
    NamedSpec{"hunyuan-dense", k_deepseek3_family},
    NamedSpec{"joyai-llm", k_deepseek3_family},
    NamedSpec{"falcon", PretokenizerSpec{.steps = k_falcon_steps}},
    NamedSpec{"bloom", k_bloom_family},
    NamedSpec{"gpt3-finnish", k_bloom_family},
    NamedSpec{"poro-chat", k_bloom_family},
    NamedSpec{"viking", PretokenizerSpec{.steps = k_viking_steps}},
    NamedSpec{"bailingmoe", k_bailing_family},
    NamedSpec{"bailingmoe2", k_bailing_family},
    NamedSpec{"llada-moe", k_bailing_family},
    NamedSpec{"seed-coder", PretokenizerSpec{.steps = k_seed_coder_steps}},
    NamedSpec{"jais-2", PretokenizerSpec{.steps = k_jais2_steps}},
};

}  // namespace

std::optional<PretokenizerSpec> find_pretokenizer(std::string_view name) {
  const auto found = std::find_if(k_specs.begin(), k_specs.end(),
                                  [&](const NamedSpec &known) { return known.name == name; });
  if (found == k_specs.end()) return std::nullopt;
  return found->spec;
}

std::string known_pretokenizers() {
  std::vector<std::string_view> names;
  for (const NamedSpec &known : k_specs) names.push_back(known.name);
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace patchbay
