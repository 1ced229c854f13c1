#include "lora/lora_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"

namespace patchbay {
namespace {

/// A pair and where it comes from.
struct Member {
  int32_t i_adapter = 0;
  const FactorPair *pair = nullptr;
};

using Members = std::map<std::string_view, std::vector<Member>>;

Members group_by_target(const std::vector<std::shared_ptr<const Adapter>> &adapters) {
  Members members;
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (adapters[i] == nullptr) continue;
    for (const auto &pair : adapters[i]->pairs)
      members[pair.target].push_back({static_cast<int32_t>(i), &pair});
  }
  return members;
}

/// The graph's inputs are 32-bit indices into the rows of `a` and the matrices of `b`.
void check_index_range(const StackedTarget &target, std::string_view use) {
  const int64_t most =
      std::max(target.kind == UseKind::embed ? target.a->ne[1] : 0, target.b->ne[2]);
  if (most <= std::numeric_limits<int32_t>::max()) return;
  throw LoadError(
      {.item = std::string(use),
       .problem = fmt::format("is the target of more adapters than {} indices can tell apart",
                              std::numeric_limits<int32_t>::max())});
}

SlotMap make_slot_map(const std::vector<Member> &members, size_t n_adapters) {
  SlotMap map{std::vector<int32_t>(n_adapters, 0)};
  int32_t next = 1;
  for (const auto &member : members) map.slots[static_cast<size_t>(member.i_adapter)] = next++;
  return map;
}

StackedTarget make_target(ggml_context *context, const std::vector<Member> &members) {
  const FactorPair &first = *members.front().pair;
  StackedTarget target{.kind = first.kind};
  for (const auto &member : members) target.n_rank = std::max(target.n_rank, member.pair->n_rank);
  const auto n_slots = static_cast<int64_t>(members.size()) + 1;
  const int64_t n_expert = first.kind == UseKind::experts ? first.b.ne[2] : 1;
  target.a = first.kind == UseKind::embed
                 ? ggml_new_tensor_2d(context, GGML_TYPE_F32, target.n_rank,
                                      first.a.ne[1] * (n_slots - 1) + 1)
                 : ggml_new_tensor_3d(context, GGML_TYPE_F32, first.a.ne[0], target.n_rank,
                                      n_expert * n_slots);
  target.b =
      ggml_new_tensor_3d(context, GGML_TYPE_F32, target.n_rank, first.b.ne[1], n_expert * n_slots);
  return target;
}

float *row_of(ggml_tensor *tensor, int64_t row) {
  return static_cast<float *>(tensor->data) + row * tensor->ne[0];
}

/// Copies `n_rows` rows of a factor from row `first` on to rows `to...` of `tensor`; longer rows
/// there end in zeros.
void copy_rows(const Factor &factor, int64_t first, int64_t n_rows, ggml_tensor *tensor, int64_t to,
               float scale) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const std::span<float> out(row_of(tensor, to + row), static_cast<size_t>(factor.ne[0]));
    to_f32(factor, (first + row) * factor.ne[0], out);
    if (scale == 1) continue;
    for (float &value : out) value *= scale;
  }
}

/// A of a linear weight or an expert: n_rank rows of n_in numbers each.
void fill_a(const FactorPair &pair, const StackedTarget &target, int64_t slot) {
  const int64_t n_expert = pair.a.ne[2];
  for (int64_t i_expert = 0; i_expert < n_expert; ++i_expert) {
    copy_rows(pair.a, i_expert * pair.n_rank, pair.n_rank, target.a,
              (slot * n_expert + i_expert) * target.n_rank, 1);
  }
}

void fill_b(const FactorPair &pair, const StackedTarget &target, int64_t slot) {
  const int64_t n_rows = pair.b.ne[1] * pair.b.ne[2];
  copy_rows(pair.b, 0, n_rows, target.b, slot * n_rows, pair.scale);
}

void fill(const std::vector<Member> &members, const StackedTarget &target) {
  int64_t slot = 1;
  for (const auto &[i_adapter, pair] : members) {
    if (pair->kind == UseKind::embed) {
      copy_rows(pair->a, 0, pair->a.ne[1], target.a, (slot - 1) * pair->a.ne[1], 1);
    } else {
      fill_a(*pair, target, slot);
    }
    fill_b(*pair, target, slot);
    ++slot;
  }
}

}  // namespace

LoraStacks::LoraStacks(std::vector<std::shared_ptr<const Adapter>> adapters,
                       const std::string &base_path)
    : adapters_(std::move(adapters)) {
  const Members members = group_by_target(adapters_);
  if (members.empty()) return;
  context_.reset(ggml_init({.mem_size = ggml_tensor_overhead() * 2 * members.size(),
                            .mem_buffer = nullptr,
                            .no_alloc = true}));
  for (const auto &[use, list] : members) {
    StackedTarget target = make_target(context_.get(), list);
    check_index_range(target, use);
    target.i_slots = intern(make_slot_map(list, adapters_.size()));
    targets_.emplace(use, target);
  }
  buffer_.reset(
      ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
  if (!buffer_) {
    throw LoadError({.path = base_path,
                     .problem = "not enough memory to stack the resident adapters",
                     .code = ErrorCode::out_of_memory});
  }
  ggml_backend_buffer_clear(buffer_.get(), 0);
  for (const auto &[use, list] : members) fill(list, targets_.at(use));
}

const StackedTarget *LoraStacks::find(std::string_view use) const {
  const auto found = targets_.find(use);
  return found == targets_.end() ? nullptr : &found->second;
}

size_t LoraStacks::size_bytes() const {
  return buffer_ ? ggml_backend_buffer_get_size(buffer_.get()) : 0;
}

size_t LoraStacks::intern(SlotMap map) {
  const auto found = std::ranges::find(slot_maps_, map);
  const auto i = static_cast<size_t>(found - slot_maps_.begin());
  if (found == slot_maps_.end()) slot_maps_.push_back(std::move(map));
  return i;
}

}  // namespace patchbay
