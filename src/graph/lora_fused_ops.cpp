#include "graph/lora_fused_ops.h"

#include <algorithm>
#include <span>

#include "base/rounding.h"
#include "graph/packed_ops.h"
#include "graph/work_share.h"
#include "kernels/lora_step.h"

namespace patchbay {
namespace {

static_assert(k_strip_rows == k_lora_tile, "what our products finish are tiles of B");

/// Segments with this many rows per thread are cut between rows, where kernels work on several at
/// a time; shorter ones between rows of A or tiles of B.
constexpr int64_t k_rows_per_thread = 8;

/// What one adapter does to one weight of an input, and where its numbers stand in a row's vector.
struct LowPart {
  const PackedPair *pair = nullptr;
  size_t i_member = 0;
  int64_t offset = 0;
  float scale = 1;  // strength included
};

/// Calls `visit` for each part of a row's vector in its order.
template <class Visit>
void for_each_part(const LoraInput &input, const AdapterSet &set, const Visit &visit) {
  int64_t offset = 0;
  for (const auto &worn : set) {
    for (size_t i = 0; i < input.uses.size(); ++i) {
      const PackedPair *pair = input.mix->pool->pair(worn.i_adapter, input.uses[i]);
      if (pair == nullptr) continue;
      visit(LowPart{pair, i, offset, worn.strength * pair->pair->scale});
      offset += pair->n_rank();
    }
  }
}

/// Ranks of the parts of one weight, or of all.
constexpr size_t k_all = SIZE_MAX;
int64_t sum_of_ranks(const LoraInput &input, const AdapterSet &set, size_t i_member) {
  int64_t sum = 0;
  for_each_part(input, set, [&](const LowPart &part) {
    if (i_member == k_all || part.i_member == i_member) sum += part.pair->n_rank();
  });
  return sum;
}

const LoraInput &input_of(void *data) { return *static_cast<const LoraInput *>(data); }
const LoraOutput &output_of(void *data) { return *static_cast<const LoraOutput *>(data); }

/// Row `i1` of matrix `i2` as numbers.
float *floats(const ggml_tensor *tensor, int64_t i1, int64_t i2 = 0) {
  return reinterpret_cast<float *>(static_cast<char *>(tensor->data) +
                                   static_cast<size_t>(i1) * tensor->nb[1] +
                                   static_cast<size_t>(i2) * tensor->nb[2]);
}

int64_t stride(size_t n_bytes) { return static_cast<int64_t>(n_bytes / sizeof(float)); }

int32_t expert_at(const ggml_tensor *experts, int64_t i_used, int64_t row) {
  return *reinterpret_cast<const int32_t *>(static_cast<const char *>(experts->data) +
                                            static_cast<size_t>(i_used) * experts->nb[0] +
                                            static_cast<size_t>(row) * experts->nb[1]);
}

bool cut_by_rows(const Segment &segment, int n_threads) {
  return segment.n_rows >= k_rows_per_thread * n_threads;
}

ShrinkJob shrink_job(const LowPart &part, int64_t i_expert, std::pair<int64_t, int64_t> ranks) {
  return {.type = part.pair->a_type,
          .a = part.pair->a_rows(i_expert, ranks.first),
          .n_in = part.pair->pair->a.ne[0],
          .n_rank = ranks.second - ranks.first,
          .scale = part.scale};
}

ExpandJob expand_job(const PackedPair &pair, int64_t i_expert, std::pair<int64_t, int64_t> tiles) {
  return {.type = pair.b_type,
          .b = pair.b_tiles(i_expert, tiles.first),
          .n_rank = pair.n_rank(),
          .n_out = std::min(tiles.second * k_lora_tile, pair.n_out()) - tiles.first * k_lora_tile};
}

/// The expansion of one weight of a segment: tiles [first, last) for rows [first, last) of it.
void expand_part(const ggml_tensor *dst, const LoraOutput &output, const LoraOutput::Part &to,
                 const Segment &segment, std::pair<int64_t, int64_t> rows,
                 std::pair<int64_t, int64_t> tiles) {
  if (rows.first == rows.second || tiles.first == tiles.second) return;
  const ggml_tensor *low = dst->src[1];
  const int64_t first_row = segment.first_row + rows.first;
  for_each_part(*output.input, segment.set, [&](const LowPart &part) {
    if (part.i_member != to.i_member) return;
    ExpandJob job = expand_job(*part.pair, 0, tiles);
    job.low = floats(low, 0, first_row) + part.offset;
    job.low_stride = stride(low->nb[2]);
    job.n_tokens = rows.second - rows.first;
    job.y = floats(dst, first_row) + to.first_out + tiles.first * k_lora_tile;
    job.y_stride = stride(dst->nb[1]);
    lora_expand(best_isa(), job);
  });
}

/// Tiles of the weight's outputs; 0 when nothing of the set targets it.
int64_t tiles_of(const LoraInput &input, const AdapterSet &set, size_t i_member) {
  int64_t n_tiles = 0;
  for_each_part(input, set, [&](const LowPart &part) {
    if (part.i_member == i_member) n_tiles = part.pair->n_tiles;
  });
  return n_tiles;
}

}  // namespace

void shrink_linear(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraInput &input = input_of(data);
  const ggml_tensor *x = dst->src[0];
  int64_t total = 0;
  for (const auto &segment : input.mix->segments)
    total += segment.n_rows * sum_of_ranks(input, segment.set, k_all);
  WorkShare share(total, i_thread, n_threads);
  for (const auto &segment : input.mix->segments) {
    for_each_part(input, segment.set, [&](const LowPart &part) {
      std::pair<int64_t, int64_t> rows{0, segment.n_rows};
      std::pair<int64_t, int64_t> ranks{0, part.pair->n_rank()};
      if (cut_by_rows(segment, n_threads)) {
        rows = share.take(rows.second, ranks.second);
      } else {
        ranks = share.take(ranks.second, rows.second);
      }
      if (rows.first == rows.second || ranks.first == ranks.second) return;
      ShrinkJob job = shrink_job(part, 0, ranks);
      job.x = floats(x, segment.first_row + rows.first);
      job.x_stride = stride(x->nb[1]);
      job.n_tokens = rows.second - rows.first;
      job.low = floats(dst, 0, segment.first_row + rows.first) + part.offset + ranks.first;
      job.low_stride = stride(dst->nb[2]);
      lora_shrink(best_isa(), job);
    });
  }
}

void look_up_low(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraInput &input = input_of(data);
  const auto *tokens = static_cast<const int32_t *>(dst->src[0]->data);
  for (const auto &segment : input.mix->segments) {
    for (int64_t row = segment.first_row; row < segment.first_row + segment.n_rows; ++row) {
      if (row % n_threads != i_thread) continue;
      for_each_part(input, segment.set, [&](const LowPart &part) {
        const std::span<float> low(floats(dst, 0, row) + part.offset,
                                   static_cast<size_t>(part.pair->n_rank()));
        to_f32(part.pair->pair->a, tokens[row] * part.pair->n_rank(), low);
        for (float &value : low) value *= part.scale;
      });
    }
  }
}

void shrink_experts(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraInput &input = input_of(data);
  const ggml_tensor *x = dst->src[0];
  const ggml_tensor *experts = dst->src[1];
  const int64_t n_used = experts->ne[0];
  int64_t total = 0;
  for (const auto &segment : input.mix->segments)
    total += segment.n_rows * n_used * sum_of_ranks(input, segment.set, k_all);
  WorkShare share(total, i_thread, n_threads);
  for (const auto &segment : input.mix->segments) {
    for (int64_t i = 0; i < segment.n_rows * n_used; ++i) {
      const int64_t row = segment.first_row + i / n_used;
      const int64_t i_used = i % n_used;
      for_each_part(input, segment.set, [&](const LowPart &part) {
        const auto ranks = share.take(part.pair->n_rank(), 1);
        if (ranks.first == ranks.second) return;
        ShrinkJob job = shrink_job(part, expert_at(experts, i_used, row), ranks);
        job.x = floats(x, x->ne[1] == 1 ? 0 : i_used, row);
        job.n_tokens = 1;
        job.low = floats(dst, i_used, row) + part.offset + ranks.first;
        lora_shrink(best_isa(), job);
      });
    }
  }
}

void expand_linear(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraOutput &output = output_of(data);
  const LoraInput &input = *output.input;
  const auto cost = [&](const Segment &segment, const LoraOutput::Part &part) {
    return std::pair{tiles_of(input, segment.set, part.i_member),
                     sum_of_ranks(input, segment.set, part.i_member)};
  };
  int64_t total = 0;
  for (const auto &segment : input.mix->segments) {
    for (const auto &part : output.parts) {
      const auto [n_tiles, n_ranks] = cost(segment, part);
      total += segment.n_rows * n_tiles * n_ranks;
    }
  }
  WorkShare share(total, i_thread, n_threads);
  for (const auto &segment : input.mix->segments) {
    for (const auto &part : output.parts) {
      const auto [n_tiles, n_ranks] = cost(segment, part);
      if (n_tiles == 0) continue;
      const std::pair<int64_t, int64_t> all_rows{0, segment.n_rows};
      const std::pair<int64_t, int64_t> all_tiles{0, n_tiles};
      if (cut_by_rows(segment, n_threads)) {
        expand_part(dst, output, part, segment, share.take(segment.n_rows, n_tiles * n_ranks),
                    all_tiles);
      } else {
        expand_part(dst, output, part, segment, all_rows,
                    share.take(n_tiles, segment.n_rows * n_ranks));
      }
    }
  }
}

void expand_columns(ggml_tensor *dst, int64_t first, int64_t last, const void *output) {
  const auto &to = *static_cast<const LoraOutput *>(output);
  const auto part =
      std::prev(std::ranges::upper_bound(to.parts, first, {}, &LoraOutput::Part::first_out));
  for (const auto &segment : to.input->mix->segments) {
    const int64_t n_tiles = tiles_of(*to.input, segment.set, part->i_member);
    if (n_tiles == 0) continue;
    const int64_t end = ceil_div(last - part->first_out, k_lora_tile);
    expand_part(dst, to, *part, segment, {0, segment.n_rows},
                {(first - part->first_out) / k_lora_tile, std::min(end, n_tiles)});
  }
}

void expand_experts(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraInput &input = *output_of(data).input;
  const ggml_tensor *low = dst->src[1];
  const ggml_tensor *experts = dst->src[2];
  const int64_t n_used = experts->ne[0];
  const auto tile_cost = [&](const Segment &segment) {
    return std::pair{tiles_of(input, segment.set, 0), sum_of_ranks(input, segment.set, 0)};
  };
  int64_t total = 0;
  for (const auto &segment : input.mix->segments) {
    const auto [n_tiles, n_ranks] = tile_cost(segment);
    total += segment.n_rows * n_used * n_tiles * n_ranks;
  }
  WorkShare share(total, i_thread, n_threads);
  for (const auto &segment : input.mix->segments) {
    const auto [n_tiles, n_ranks] = tile_cost(segment);
    if (n_tiles == 0) continue;
    for (int64_t i = 0; i < segment.n_rows * n_used; ++i) {
      const auto tiles = share.take(n_tiles, n_ranks);
      if (tiles.first == tiles.second) continue;
      const int64_t row = segment.first_row + i / n_used;
      const int64_t i_used = i % n_used;
      for_each_part(input, segment.set, [&](const LowPart &part) {
        ExpandJob job = expand_job(*part.pair, expert_at(experts, i_used, row), tiles);
        job.low = floats(low, i_used, row) + part.offset;
        job.n_tokens = 1;
        job.y = floats(dst, i_used, row) + tiles.first * k_lora_tile;
        lora_expand(best_isa(), job);
      });
    }
  }
}

}  // namespace patchbay
