// Every kernel of src/kernels alone on one thread (attention beside ggml's: attention_bench), and
// ggml's product of the same weight beside ours. Weights and adapters come from memory, not from a
// cache, as they do in a model.
//
//   kernel_bench [--isa=NAME] [Google Benchmark's flags, e.g. --benchmark_filter=product/.*/q4_1]
//
// bench/kernel_table.py prints the ratios of the products.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_memory.h"
#include "kernels/lora_step.h"
#include "kernels/product.h"
#include "kernels/product_pack.h"
#include "kernels/product_panels.h"

namespace patchbay {
namespace {

constexpr size_t k_beyond_caches = size_t{80} << 20U;

Isa isa_of_run = best_isa();

struct NamedFormat {
  WeightFormat format;
  ggml_type type;
  const char *name;
};

constexpr NamedFormat k_formats[] = {
    {WeightFormat::q4_0, GGML_TYPE_Q4_0, "q4_0"}, {WeightFormat::q4_1, GGML_TYPE_Q4_1, "q4_1"},
    {WeightFormat::q5_0, GGML_TYPE_Q5_0, "q5_0"}, {WeightFormat::q5_1, GGML_TYPE_Q5_1, "q5_1"},
    {WeightFormat::q8_0, GGML_TYPE_Q8_0, "q8_0"}, {WeightFormat::q4_k, GGML_TYPE_Q4_K, "q4_k"},
    {WeightFormat::q5_k, GGML_TYPE_Q5_K, "q5_k"}, {WeightFormat::q6_k, GGML_TYPE_Q6_K, "q6_k"},
    {WeightFormat::f16, GGML_TYPE_F16, "f16"},    {WeightFormat::bf16, GGML_TYPE_BF16, "bf16"}};

std::vector<float> normal_numbers(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(n);
  for (auto &number : numbers) number = normal(random);
  return numbers;
}

/// One weight as a file has it, as often as caches cannot hold it, in ggml's memory and in ours.
struct Weights {
  NamedFormat named;
  int64_t n_in;
  int64_t n_out;
  size_t row_bytes = ggml_row_size(named.type, n_in);
  size_t tiles_bytes = static_cast<size_t>(n_product_tiles(n_out) * tile_bytes(named.format, n_in));
  size_t n_copies = k_beyond_caches / (row_bytes * static_cast<size_t>(n_out)) + 1;
  std::vector<std::byte> rows = std::vector<std::byte>(row_bytes * static_cast<size_t>(n_out));
  HugeMemory tiles{tiles_bytes * n_copies};
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  std::vector<ggml_tensor *> tensors;

  Weights(const NamedFormat &named_, int64_t n_in_, int64_t n_out_)
      : named(named_), n_in(n_in_), n_out(n_out_) {
    const auto numbers = normal_numbers(static_cast<size_t>(n_in * n_out));
    ggml_quantize_chunk(named.type, numbers.data(), rows.data(), 0, n_out, n_in, nullptr);
    pack_tiles(pack_job(), 0, n_product_tiles(n_out), tiles.data());
    for (size_t i = 1; i < n_copies; ++i)
      std::memcpy(tiles.data() + i * tiles_bytes, tiles.data(), tiles_bytes);
    context.reset(ggml_init({.mem_size = ggml_tensor_overhead() * (n_copies + 1),
                             .mem_buffer = nullptr,
                             .no_alloc = true}));
    for (size_t i = 0; i < n_copies; ++i)
      tensors.push_back(ggml_new_tensor_2d(context.get(), named.type, n_in, n_out));
    buffer.reset(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
    for (ggml_tensor *tensor : tensors) std::memcpy(tensor->data, rows.data(), rows.size());
  }

  [[nodiscard]] PackJob pack_job() const {
    return {named.format, rows.data(), row_bytes, n_in, n_out};
  }
};

/// Built once for neighbouring benchmarks of the same weight.
const Weights &weights_of(const NamedFormat &named, int64_t n_in, int64_t n_out) {
  static std::unique_ptr<Weights> last;
  if (!last || last->named.format != named.format || last->n_in != n_in || last->n_out != n_out) {
    last.reset();
    last = std::make_unique<Weights>(named, n_in, n_out);
  }
  return *last;
}

void count_product(benchmark::State &state, const Weights &weights, int64_t n_tokens) {
  const auto n = static_cast<double>(state.iterations());
  const auto flop = static_cast<double>(2 * weights.n_in * weights.n_out * n_tokens);
  state.counters["GFLOP/s"] = benchmark::Counter(n * flop * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(n * static_cast<double>(weights.rows.size()) * 1e-9,
                                              benchmark::Counter::kIsRate);
}

void round_tokens(InputForm form, const std::vector<float> &x, int64_t n_in,
                  std::vector<uint8_t> &panels) {
  const int64_t n_tokens = static_cast<int64_t>(x.size()) / n_in;
  for (int64_t t = 0; t < n_tokens; ++t) {
    const int64_t first = t / k_product_panel * k_product_panel;
    fill_panel(form, {.x = x.data() + t * n_in,
                      .n_in = n_in,
                      .panel = panels.data() + first * panel_token_bytes(form, n_in),
                      .n_tokens = std::min(k_product_panel, n_tokens - first),
                      .i_token = t - first});
  }
}

/// Ours, with the rounding of its input.
void product(benchmark::State &state, const NamedFormat &named, int64_t n_in, int64_t n_out,
             int64_t n_tokens) {
  const Weights &weights = weights_of(named, n_in, n_out);
  const InputForm form = layout_of(named.format).input;
  const auto x = normal_numbers(static_cast<size_t>(n_in * n_tokens));
  std::vector<uint8_t> panels(static_cast<size_t>(panel_token_bytes(form, n_in) * n_tokens));
  std::vector<float> y(static_cast<size_t>(n_out * n_tokens));
  size_t i = 0;
  for (auto _ : state) {
    round_tokens(form, x, n_in, panels);
    run_product(isa_of_run,
                {.format = named.format,
                 .tiles = weights.tiles.data() + i++ % weights.n_copies * weights.tiles_bytes,
                 .n_in = n_in,
                 .n_out = n_out,
                 .panels = panels.data(),
                 .n_tokens = n_tokens,
                 .y = y.data(),
                 .y_stride = n_out});
  }
  count_product(state, weights, n_tokens);
}

/// ggml's of the weight as stored.
void product_of_ggml(benchmark::State &state, const NamedFormat &named, int64_t n_in, int64_t n_out,
                     int64_t n_tokens) {
  const Weights &weights = weights_of(named, n_in, n_out);
  const size_t n_graphs = weights.n_copies;
  const ggml_context_ptr context(ggml_init(
      {.mem_size = n_graphs * (ggml_graph_overhead_custom(8, false) + 2 * ggml_tensor_overhead()) +
                   ggml_tensor_overhead(),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  ggml_tensor *x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, n_in, n_tokens);
  std::vector<ggml_cgraph *> graphs;
  for (ggml_tensor *tensor : weights.tensors) {
    graphs.push_back(ggml_new_graph_custom(context.get(), 8, false));
    ggml_build_forward_expand(graphs.back(), ggml_mul_mat(context.get(), tensor, x));
  }
  const ggml_backend_buffer_ptr buffer(
      ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
  const auto numbers = normal_numbers(static_cast<size_t>(n_in * n_tokens));
  std::memcpy(x->data, numbers.data(), numbers.size() * sizeof(float));
  std::vector<uint8_t> work;
  size_t i = 0;
  for (auto _ : state) {
    ggml_cgraph *graph = graphs[i++ % n_graphs];
    ggml_cplan plan = ggml_graph_plan(graph, 1, nullptr);
    if (work.size() < plan.work_size) work.resize(plan.work_size);
    plan.work_data = work.data();
    ggml_graph_compute(graph, &plan);
  }
  count_product(state, weights, n_tokens);
}

void quantise_input(benchmark::State &state, const NamedFormat &named, int64_t n_in) {
  const InputForm form = layout_of(named.format).input;
  constexpr int64_t n_tokens = k_product_panel;
  const auto x = normal_numbers(static_cast<size_t>(n_in * n_tokens));
  std::vector<uint8_t> panels(static_cast<size_t>(panel_token_bytes(form, n_in) * n_tokens));
  for (auto _ : state) {
    round_tokens(form, x, n_in, panels);
    benchmark::DoNotOptimize(panels.data());
  }
  state.counters["numbers/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * n_in * n_tokens), benchmark::Counter::kIsRate);
}

void pack(benchmark::State &state, const NamedFormat &named, int64_t n_in, int64_t n_out) {
  const Weights &weights = weights_of(named, n_in, n_out);
  std::vector<uint8_t> tiles(weights.tiles_bytes);
  for (auto _ : state) pack_tiles(weights.pack_job(), 0, n_product_tiles(n_out), tiles.data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(weights.rows.size()));
}

/// Both halves of a low-rank step read other factors each time, as the layers of a model do.
struct Factors {
  size_t n_bytes;
  size_t n_copies = k_beyond_caches / n_bytes + 1;
  HugeMemory memory{n_copies * n_bytes};

  [[nodiscard]] const void *copy(size_t i) const { return memory.data() + i % n_copies * n_bytes; }
};

void shrink(benchmark::State &state, int64_t n_in, int64_t n_rank, int64_t n_tokens) {
  const Factors a{static_cast<size_t>(n_in * n_rank * 2)};
  const auto x = normal_numbers(static_cast<size_t>(n_in * n_tokens));
  std::vector<float> low(static_cast<size_t>(n_rank * n_tokens));
  size_t i = 0;
  for (auto _ : state) {
    lora_shrink(isa_of_run, {.type = FactorType::f16,
                             .a = a.copy(i++),
                             .n_in = n_in,
                             .n_rank = n_rank,
                             .x = x.data(),
                             .x_stride = n_in,
                             .n_tokens = n_tokens,
                             .low = low.data(),
                             .low_stride = n_rank});
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(a.n_bytes));
}

void expand(benchmark::State &state, int64_t n_out, int64_t n_rank, int64_t n_tokens) {
  const Factors b{static_cast<size_t>(n_out * n_rank * 2)};
  const auto low = normal_numbers(static_cast<size_t>(n_rank * n_tokens));
  std::vector<float> y(static_cast<size_t>(n_out * n_tokens));
  size_t i = 0;
  for (auto _ : state) {
    lora_expand(isa_of_run, {.type = FactorType::f16,
                             .b = b.copy(i++),
                             .n_rank = n_rank,
                             .n_out = n_out,
                             .low = low.data(),
                             .low_stride = n_rank,
                             .n_tokens = n_tokens,
                             .y = y.data(),
                             .y_stride = n_out});
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(b.n_bytes));
}

void register_all() {
  constexpr std::pair<int64_t, int64_t> k_shapes[] = {
      {576, 576}, {576, 1536}, {1536, 576}, {2048, 2048}};
  for (const auto &named : k_formats) {
    if (!has_product(isa_of_run, named.format)) continue;
    for (const auto &[n_in, n_out] : k_shapes) {
      if (n_in % ggml_blck_size(named.type) != 0) continue;
      for (const int64_t n_tokens : {1, 8, 128}) {
        const auto name = [&, n_in = n_in, n_out = n_out](const char *whose) {
          return fmt::format("product/{}/{}/{}x{}/{}", whose, named.name, n_in, n_out, n_tokens);
        };
        benchmark::RegisterBenchmark(name("ggml").c_str(), product_of_ggml, named, n_in, n_out,
                                     n_tokens);
        benchmark::RegisterBenchmark(name("ours").c_str(), product, named, n_in, n_out, n_tokens);
      }
    }
    benchmark::RegisterBenchmark(fmt::format("pack/{}", named.name).c_str(), pack, named, 2048,
                                 2048);
    benchmark::RegisterBenchmark(fmt::format("round/{}", named.name).c_str(), quantise_input, named,
                                 2048);
  }
  for (const int64_t n_rank : {8, 16, 64}) {
    for (const int64_t n_tokens : {1, 8, 128}) {
      benchmark::RegisterBenchmark(fmt::format("shrink/576/{}/{}", n_rank, n_tokens).c_str(),
                                   shrink, 576, n_rank, n_tokens);
      benchmark::RegisterBenchmark(fmt::format("expand/1536/{}/{}", n_rank, n_tokens).c_str(),
                                   expand, 1536, n_rank, n_tokens);
    }
  }
}

/// Takes --isa=NAME out of the arguments. Returns whether it names what this processor has.
bool take_isa(int &argc, char **argv) {
  constexpr std::string_view k_flag = "--isa=";
  const auto is_flag = [&](const char *text) { return std::string_view(text).starts_with(k_flag); };
  char **const end = argv + argc;
  char **const found = std::find_if(argv, end, is_flag);
  if (found == end) return true;
  const std::string wanted(std::string_view(*found).substr(k_flag.size()));
  std::copy(found + 1, end, found);
  --argc;
  const auto isas = available_isas();
  const auto isa = std::ranges::find_if(isas, [&](Isa one) { return to_string(one) == wanted; });
  if (isa == isas.end()) return false;
  isa_of_run = *isa;
  return true;
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) {
  ggml_cpu_init();
  if (!patchbay::take_isa(argc, argv)) {
    fmt::print(stderr, "this processor has no such instruction set; it has");
    for (const auto isa : patchbay::available_isas()) fmt::print(stderr, " {}", to_string(isa));
    fmt::print(stderr, "\n");
    return 2;
  }
  benchmark::AddCustomContext("isa", std::string(to_string(patchbay::isa_of_run)));
  patchbay::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
