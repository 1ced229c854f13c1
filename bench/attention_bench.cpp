// Paged attention against ggml's over one buffer of the same cells under a mask: the same keys,
// values and queries, in turns, in one process. Prints the median ratio of each case.
//
//   attention_bench [threads] [rounds]

#include <fmt/format.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "graph/paged_attention.h"
#include "kv/attention_mask.h"
#include "kv/kv_cache.h"

namespace patchbay {
namespace {

struct Case {
  std::string name;
  std::vector<uint32_t> n_before;  // per sequence, tokens in the cache before the step
  uint32_t n_new = 1;              // tokens that the step adds to each
  uint32_t n_head = 9;
  uint32_t n_head_kv = 3;
  uint32_t n_embd_head = 64;
  uint32_t n_layer = 30;
  ggml_type type = GGML_TYPE_F16;
};

HParams hparams_of(const Case &c) {
  HParams hp;
  hp.n_layer = c.n_layer;
  hp.n_head = c.n_head;
  hp.n_head_kv = c.n_head_kv;
  hp.n_embd_head = c.n_embd_head;
  hp.attn_scale = 1 / std::sqrt(static_cast<float>(c.n_embd_head));
  return hp;
}

void fill(ggml_tensor *tensor, std::mt19937 &random) {
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<size_t>(tensor->ne[0]));
  const auto *traits = ggml_get_type_traits_cpu(tensor->type);
  for (int64_t i = 0; i < ggml_nrows(tensor); ++i) {
    for (auto &value : row) value = normal(random);
    traits->from_float(row.data(),
                       static_cast<char *>(tensor->data) + static_cast<size_t>(i) * tensor->nb[1],
                       tensor->ne[0]);
  }
}

/// One way to compute a case: a graph of one attention per layer.
struct Way {
  ggml_context_ptr context;
  ggml_cgraph *graph = nullptr;
  ggml_tensor *last = nullptr;
  ggml_backend_buffer_ptr buffer;
};

class Duel {
 public:
  Duel(const Case &c, uint32_t n_threads)
      : n_threads_(n_threads),
        hp_(hparams_of(c)),
        tables_(n_blocks_of(c), k_block_size),
        kv_(hp_, {.block_size = k_block_size, .n_blocks = n_blocks_of(c)}, c.type,
            KvLayout::by_head),
        kv_by_token_(hp_, {.block_size = k_block_size, .n_blocks = n_blocks_of(c)}, c.type),
        paged_(hp_, 0, k_block_size),
        backend_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(backend_.get(), static_cast<int>(n_threads));
    ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(n_threads));
    ggml_backend_cpu_set_threadpool(backend_.get(), ggml_threadpool_new(&params));
    interleave(c);
    std::mt19937 random(1);
    for (uint32_t il = 0; il < hp_.n_layer; ++il) {
      fill(kv_.k(il), random);
      fill(kv_.v(il), random);
      regroup(kv_.k(il), kv_by_token_.k(il));
      regroup(kv_.v(il), kv_by_token_.v(il));
    }
    paged_.set(tables_, places_, n_threads);
    ours_ = build(true);
    ggmls_ = build(false);
  }

  /// Seconds of each way, and the largest difference of what they compute.
  [[nodiscard]] double time_ours() { return time(ours_); }
  [[nodiscard]] double time_ggmls() { return time(ggmls_); }
  [[nodiscard]] float difference() const {
    const auto n = static_cast<size_t>(ggml_nelements(ours_.last));
    const auto *one = static_cast<const float *>(ours_.last->data);
    const auto *other = static_cast<const float *>(ggmls_.last->data);
    float most = 0;
    for (size_t i = 0; i < n; ++i) most = std::max(most, std::abs(one[i] - other[i]));
    return most;
  }

 private:
  static constexpr uint32_t k_block_size = 32;

  static uint32_t n_blocks_of(const Case &c) {
    uint32_t n_blocks = 0;
    for (const uint32_t n : c.n_before) n_blocks += (n + c.n_new + k_block_size - 1) / k_block_size;
    return n_blocks;
  }

  /// Sequences that grow in turns, so that their blocks lie between each other's.
  void interleave(const Case &c) {
    for (uint32_t pos = 0; pos < 1U << 16U; ++pos) {
      for (size_t seq = 0; seq < c.n_before.size(); ++seq) {
        if (pos < c.n_before[seq] + c.n_new) (void)tables_.extend(static_cast<int32_t>(seq), 1);
      }
    }
    for (size_t seq = 0; seq < c.n_before.size(); ++seq) {
      for (uint32_t i = 0; i < c.n_new; ++i)
        places_.push_back({static_cast<int32_t>(seq), static_cast<int32_t>(c.n_before[seq] + i)});
    }
  }

  Way build(bool is_ours) {
    Way way;
    way.context.reset(ggml_init({.mem_size = 1024 * ggml_tensor_overhead() + ggml_graph_overhead(),
                                 .mem_buffer = nullptr,
                                 .no_alloc = true}));
    ggml_context *context = way.context.get();
    way.graph = ggml_new_graph(context);
    const auto n_tokens = static_cast<int64_t>(places_.size());
    const int64_t n_kv = kv_by_token_.k(0)->ne[1];
    ggml_tensor *q =
        ggml_new_tensor_3d(context, GGML_TYPE_F32, hp_.n_embd_head, hp_.n_head, n_tokens);
    ggml_tensor *mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, n_kv, n_tokens);
    for (uint32_t il = 0; il < hp_.n_layer; ++il) {
      way.last =
          is_ours ? paged_.build(context, q, kv_.k(il), kv_.v(il)) : masked(context, q, mask, il);
      ggml_build_forward_expand(way.graph, way.last);
    }
    way.buffer.reset(ggml_backend_alloc_ctx_tensors(context, backend_.get()));
    std::mt19937 random(2);
    fill(q, random);
    fill_mask(tables_, static_cast<uint32_t>(n_kv), places_, 0,
              {static_cast<ggml_fp16_t *>(mask->data), static_cast<size_t>(ggml_nelements(mask))});
    return way;
  }

  /// The same cells, by token.
  void regroup(const ggml_tensor *by_head, ggml_tensor *by_token) const {
    const size_t n_bytes = by_head->nb[1];
    const auto *from = static_cast<const char *>(by_head->data);
    for (int64_t cell = 0; cell < by_token->ne[1]; ++cell) {
      for (uint32_t head = 0; head < hp_.n_head_kv; ++head) {
        const int64_t row =
            (cell / k_block_size * hp_.n_head_kv + head) * k_block_size + cell % k_block_size;
        std::memcpy(static_cast<char *>(by_token->data) +
                        static_cast<size_t>(cell) * by_token->nb[1] + head * n_bytes,
                    from + static_cast<size_t>(row) * n_bytes, n_bytes);
      }
    }
  }

  ggml_tensor *masked(ggml_context *context, ggml_tensor *q, ggml_tensor *mask, uint32_t il) {
    const auto by_head = [&](ggml_tensor *cache) {
      return ggml_view_3d(context, cache, hp_.n_embd_head, cache->ne[1], hp_.n_head_kv,
                          cache->nb[1], ggml_row_size(cache->type, hp_.n_embd_head), 0);
    };
    ggml_tensor *heads = ggml_flash_attn_ext(
        context, ggml_permute(context, q, 0, 2, 1, 3), by_head(kv_by_token_.k(il)),
        by_head(kv_by_token_.v(il)), mask, hp_.attn_scale, 0, 0);
    ggml_flash_attn_ext_set_prec(heads, GGML_PREC_F32);
    return heads;
  }

  /// With one thread its own time, which others on the machine disturb less.
  [[nodiscard]] double now() const {
    timespec time{};
    clock_gettime(n_threads_ == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  [[nodiscard]] double time(const Way &way) const {
    const double start = now();
    ggml_backend_graph_compute(backend_.get(), way.graph);
    return now() - start;
  }

  uint32_t n_threads_;
  HParams hp_;
  BlockTables tables_;
  KvCache kv_;
  KvCache kv_by_token_;
  PagedAttention paged_;
  ggml_backend_ptr backend_;
  std::vector<SeqPos> places_;
  Way ours_;
  Way ggmls_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run(const Case &c, uint32_t n_threads, int n_rounds) {
  Duel duel(c, n_threads);
  (void)duel.time_ours();
  (void)duel.time_ggmls();
  std::vector<double> ours;
  std::vector<double> ggmls;
  std::vector<double> ratios;
  for (int i = 0; i < n_rounds; ++i) {
    ours.push_back(duel.time_ours());
    ggmls.push_back(duel.time_ggmls());
    ratios.push_back(ours.back() / ggmls.back());
  }
  fmt::print("{:<38} {:>8.2f} ms {:>8.2f} ms   ratio {:.2f} (best {:.2f})   difference {:.0e}\n",
             c.name, 1e3 * median(ours), 1e3 * median(ggmls), median(ratios),
             std::ranges::min(ours) / std::ranges::min(ggmls), duel.difference());
}

std::vector<Case> all_cases() {
  const auto eight = std::vector<uint32_t>(8, 511);
  std::vector<uint32_t> uneven(8, 63);
  uneven[0] = 511;
  return {
      {.name = "decode 8 x 512, 9/3 heads of 64", .n_before = eight},
      {.name = "decode 8 x 512, the same in q8_0", .n_before = eight, .type = GGML_TYPE_Q8_0},
      {.name = "decode 512 and 7 x 64", .n_before = uneven},
      {.name = "decode 1 x 512", .n_before = {511}},
      {.name = "decode 1 x 4096", .n_before = {4095}},
      {.name = "decode 32 x 512", .n_before = std::vector<uint32_t>(32, 511), .n_layer = 10},
      {.name = "decode 8 x 512, 32/8 heads of 128",
       .n_before = eight,
       .n_head = 32,
       .n_head_kv = 8,
       .n_embd_head = 128,
       .n_layer = 10},
      {.name = "decode 8 x 512, 4/1 heads of 256",
       .n_before = eight,
       .n_head = 4,
       .n_head_kv = 1,
       .n_embd_head = 256},
      {.name = "decode 8 x 512, 8/8 heads of 64", .n_before = eight, .n_head = 8, .n_head_kv = 8},
      {.name = "prefill 128", .n_before = {0}, .n_new = 128},
      {.name = "prefill 512", .n_before = {0}, .n_new = 512, .n_layer = 10},
      {.name = "prefill 512, the same in q8_0",
       .n_before = {0},
       .n_new = 512,
       .n_layer = 10,
       .type = GGML_TYPE_Q8_0},
      {.name = "prefill 512, 32/8 heads of 128",
       .n_before = {0},
       .n_new = 512,
       .n_head = 32,
       .n_head_kv = 8,
       .n_embd_head = 128,
       .n_layer = 4},
      {.name = "prefill 512, 4/1 heads of 256",
       .n_before = {0},
       .n_new = 512,
       .n_head = 4,
       .n_head_kv = 1,
       .n_embd_head = 256,
       .n_layer = 10},
  };
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) {
  const auto n_threads = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 1);
  const int n_rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  fmt::print("{:<38} {:>11} {:>11}\n", "", "paged", "ggml");
  for (const auto &c : patchbay::all_cases()) patchbay::run(c, n_threads, n_rounds);
  return 0;
}
