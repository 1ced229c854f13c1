#include "graph/lora_fused_ops.h"

#include <algorithm>
#include <array>
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
  const PackedChange *change = nullptr;
  size_t i_member = 0;
  int64_t offset = 0;
  Worn worn;

  [[nodiscard]] int64_t n_rank() const { return change->n_rank(); }
  [[nodiscard]] float scale() const { return worn.strength * change->change->scale; }
  [[nodiscard]] bool has_dora() const { return change->change->dora != nullptr; }
};

/// Calls `visit` for each part of a row's vector in its order.
template <class Visit>
void for_each_part(const LoraInput &input, const AdapterSet &set, const Visit &visit) {
  int64_t offset = 0;
  for (const auto &worn : set) {
    for (size_t i = 0; i < input.uses.size(); ++i) {
      for (const auto &change : input.mix->pool->changes(worn.i_adapter, input.uses[i])) {
        visit(LowPart{&change, i, offset, worn});
        offset += change.n_rank();
      }
    }
  }
}

/// Ranks of the parts of one weight, or of all.
constexpr size_t k_all = SIZE_MAX;
int64_t sum_of_ranks(const LoraInput &input, const AdapterSet &set, size_t i_member) {
  int64_t sum = 0;
  for_each_part(input, set, [&](const LowPart &part) {
    if (i_member == k_all || part.i_member == i_member) sum += part.n_rank();
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
  return {.type = part.change->a_type,
          .a = part.change->a_rows(i_expert, ranks.first),
          .n_in = part.change->change->a.ne[0],
          .n_rank = ranks.second - ranks.first,
          .scale = part.scale()};
}

/// Tiles [first, last) of a weight, of an expert of it, for some rows of a step.
struct Block {
  int64_t i_expert = 0;
  std::pair<int64_t, int64_t> tiles;
  int64_t n_rows = 1;
  const float *low = nullptr;  // of the first row
  int64_t low_stride = 0;
  float *y = nullptr;  // the first tile's numbers of the first row
  int64_t y_stride = 0;
};

int64_t n_columns(const PackedChange &change, const Block &block) {
  return std::min(block.tiles.second * k_lora_tile, change.n_out()) -
         block.tiles.first * k_lora_tile;
}

ExpandJob expand_job(const LowPart &part, const Block &block) {
  return {.type = part.change->b_type,
          .b = part.change->b_tiles(block.i_expert, block.tiles.first),
          .n_rank = part.n_rank(),
          .n_out = n_columns(*part.change, block),
          .low = block.low + part.offset,
          .low_stride = block.low_stride,
          .n_tokens = block.n_rows,
          .y = block.y,
          .y_stride = block.y_stride};
}

/// B is one-hot: rank `i` is the change of output tokens[i] and of no other.
void scatter(const LowPart &part, const Block &block) {
  const auto &tokens = part.change->change->tokens;
  const int64_t first = block.tiles.first * k_lora_tile;
  const int64_t last = first + n_columns(*part.change, block);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < first || tokens[i] >= last) continue;
    for (int64_t row = 0; row < block.n_rows; ++row) {
      block.y[row * block.y_stride + tokens[i] - first] +=
          block.low[row * block.low_stride + part.offset + static_cast<int64_t>(i)];
    }
  }
}

/// The gains of a part from the block's first output on.
const float *gains_of(const LoraInput &input, const LowPart &part, const Block &block) {
  return input.mix->pool->gains(part.worn, *part.change) + block.i_expert * part.change->n_out() +
         block.tiles.first * k_lora_tile;
}

/// Some rows and tiles of the block.
Block part_of(const Block &block, std::pair<int64_t, int64_t> rows,
              std::pair<int64_t, int64_t> tiles) {
  Block part = block;
  part.tiles = tiles;
  part.n_rows = rows.second - rows.first;
  part.low = block.low + rows.first * block.low_stride;
  part.y = block.y + rows.first * block.y_stride + (tiles.first - block.tiles.first) * k_lora_tile;
  return part;
}

/// Cuts the block into parts of at most k_side_size numbers.
constexpr int64_t k_side_size = 2048;
template <class Visit>
void for_each_side(const Block &block, const Visit &visit) {
  constexpr int64_t k_rows = 8;
  const int64_t n_rows = std::min(k_rows, block.n_rows);
  const int64_t n_tiles = k_side_size / k_lora_tile / n_rows;
  for (int64_t tile = block.tiles.first; tile < block.tiles.second; tile += n_tiles) {
    const std::pair tiles{tile, std::min(tile + n_tiles, block.tiles.second)};
    for (int64_t row = 0; row < block.n_rows; row += n_rows)
      visit(part_of(block, {row, std::min(row + n_rows, block.n_rows)}, tiles));
  }
}

/// y += g (B low), on the side: g differs from output to output, and B is kept without it.
void expand_with_gain(const LoraInput &input, const LowPart &part, const Block &block) {
  std::array<float, k_side_size> side{};
  for_each_side(block, [&](const Block &one) {
    ExpandJob job = expand_job(part, one);
    job.y = side.data();
    job.y_stride = k_side_size / one.n_rows;
    side.fill(0);
    lora_expand(best_isa(), job);
    const float *gains = gains_of(input, part, one);
    for (int64_t row = 0; row < one.n_rows; ++row) {
      const float *from = side.data() + row * job.y_stride;
      float *y = one.y + row * one.y_stride;
      for (int64_t o = 0; o < job.n_out; ++o) y[o] += gains[o] * from[o];
    }
  });
}

/// y += sum over the parts of (g - 1) y, while y is what the base gives.
void rescale(const LoraInput &input, const AdapterSet &set, size_t i_member, const Block &block) {
  std::array<float, k_side_size> sums{};
  for_each_side(block, [&](const Block &one) {
    int64_t n = 0;
    for_each_part(input, set, [&](const LowPart &part) {
      if (part.i_member != i_member || !part.has_dora()) return;
      if (n == 0) sums.fill(0);
      n = n_columns(*part.change, one);
      const float *gains = gains_of(input, part, one);
      for (int64_t o = 0; o < n; ++o) sums[static_cast<size_t>(o)] += gains[o] - 1;
    });
    for (int64_t row = 0; row < one.n_rows; ++row) {
      float *y = one.y + row * one.y_stride;
      for (int64_t o = 0; o < n; ++o) y[o] += sums[static_cast<size_t>(o)] * y[o];
    }
  });
}

/// All that the set does to a block of one weight.
void expand_block(const LoraInput &input, const AdapterSet &set, size_t i_member,
                  const Block &block) {
  if (input.mix->has_dora) rescale(input, set, i_member, block);
  for_each_part(input, set, [&](const LowPart &part) {
    if (part.i_member != i_member) return;
    if (part.change->b == nullptr) return scatter(part, block);
    if (part.has_dora()) return expand_with_gain(input, part, block);
    lora_expand(best_isa(), expand_job(part, block));
  });
}

/// The expansion of one weight of a segment: tiles [first, last) for rows [first, last) of it.
void expand_part(const ggml_tensor *dst, const LoraOutput &output, const LoraOutput::Part &to,
                 const Segment &segment, std::pair<int64_t, int64_t> rows,
                 std::pair<int64_t, int64_t> tiles) {
  if (rows.first == rows.second || tiles.first == tiles.second) return;
  const ggml_tensor *low = dst->src[1];
  const int64_t first_row = segment.first_row + rows.first;
  expand_block(*output.input, segment.set, to.i_member,
               {.tiles = tiles,
                .n_rows = rows.second - rows.first,
                .low = floats(low, 0, first_row),
                .low_stride = stride(low->nb[2]),
                .y = floats(dst, first_row) + to.first_out + tiles.first * k_lora_tile,
                .y_stride = stride(dst->nb[1])});
}

/// Tiles of the weight's outputs; 0 when nothing of the set targets it.
int64_t tiles_of(const LoraInput &input, const AdapterSet &set, size_t i_member) {
  int64_t n_tiles = 0;
  for_each_part(input, set, [&](const LowPart &part) {
    if (part.i_member == i_member) n_tiles = part.change->n_tiles;
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
      std::pair<int64_t, int64_t> ranks{0, part.n_rank()};
      if (cut_by_rows(segment, n_threads)) {
        rows = share.take(rows.second, ranks.second);
      } else {
        ranks = share.take(ranks.second, rows.second);
      }
      if (rows.first == rows.second || ranks.first == ranks.second) return;
      if (part.change->change->is_bias) {
        for (int64_t row = rows.first; row < rows.second; ++row)
          floats(dst, 0, segment.first_row + row)[part.offset] = part.scale();
        return;
      }
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

namespace {

/// A's row of a token, with the scale in it.
void look_up(const LowPart &part, int32_t token, std::span<float> low) {
  const auto &tokens = part.change->change->tokens;
  if (tokens.empty()) {
    to_f32(part.change->change->a, token * part.n_rank(), low);
    for (float &value : low) value *= part.scale();
    return;
  }
  std::ranges::fill(low, 0.0F);
  const auto found = std::ranges::lower_bound(tokens, token);
  if (found != tokens.end() && *found == token)
    low[static_cast<size_t>(found - tokens.begin())] = part.scale();
}

}  // namespace

void look_up_low(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const LoraInput &input = input_of(data);
  const auto *tokens = static_cast<const int32_t *>(dst->src[0]->data);
  for (const auto &segment : input.mix->segments) {
    for (int64_t row = segment.first_row; row < segment.first_row + segment.n_rows; ++row) {
      if (row % n_threads != i_thread) continue;
      for_each_part(input, segment.set, [&](const LowPart &part) {
        look_up(part, tokens[row],
                {floats(dst, 0, row) + part.offset, static_cast<size_t>(part.n_rank())});
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
        const auto ranks = share.take(part.n_rank(), 1);
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
      expand_block(input, segment.set, 0,
                   {.i_expert = expert_at(experts, i_used, row),
                    .tiles = tiles,
                    .low = floats(low, i_used, row),
                    .y = floats(dst, i_used, row) + tiles.first * k_lora_tile});
    }
  }
}

void change_norm(ggml_tensor *dst, int i_thread, int n_threads, void *data) {
  const auto &[mix, i_norm, row_size] = *static_cast<const LoraNorm *>(data);
  const auto *unit = static_cast<const float *>(dst->src[1]->data);
  auto *y = static_cast<float *>(dst->data);
  for (const auto &segment : mix->segments) {
    for (int64_t row = segment.first_row; row < segment.first_row + segment.n_rows; ++row) {
      if (row % n_threads != i_thread) continue;
      for (const auto &[i_adapter, strength] : segment.set) {
        const NormChange *change = mix->pool->norm_change(i_adapter, i_norm);
        if (change == nullptr) continue;
        const auto n = static_cast<int64_t>(change->delta.size());
        for (int64_t first = row * row_size; first < (row + 1) * row_size; first += n) {
          for (int64_t i = 0; i < n; ++i)
            y[first + i] += strength * change->delta[static_cast<size_t>(i)] * unit[first + i];
        }
      }
    }
  }
}

}  // namespace patchbay
