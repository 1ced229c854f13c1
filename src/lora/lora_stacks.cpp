#include "lora/lora_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"

namespace patchbay {
namespace {

/// What one adapter does to a weight.
struct Member {
  int32_t i_adapter = 0;
  const ProductChange *product = nullptr;  ///< null: nothing but a bias
  const ProductChange *bias = nullptr;
};

using Changes = std::vector<std::shared_ptr<const AdapterChanges>>;
using Members = std::map<std::string_view, std::vector<Member>>;

Members group_by_target(const Changes &changes) {
  Members members;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i] == nullptr) continue;
    const auto i_adapter = static_cast<int32_t>(i);
    for (const auto &change : changes[i]->products) {
      auto &list = members[change.target];
      if (list.empty() || list.back().i_adapter != i_adapter) list.push_back({i_adapter});
      (change.is_bias ? list.back().bias : list.back().product) = &change;
    }
  }
  return members;
}

/// The adapters that change a norm, and how.
struct NormMember {
  int32_t i_adapter = 0;
  const NormChange *change = nullptr;
};
using NormMembers = std::map<std::string_view, std::vector<NormMember>>;

NormMembers group_by_norm(const Changes &changes) {
  NormMembers members;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i] == nullptr) continue;
    for (const auto &change : changes[i]->norms)
      members[change.tensor].push_back({static_cast<int32_t>(i), &change});
  }
  return members;
}

/// The graph's inputs are 32-bit indices into the rows of `a` and the matrices of `b`.
void check_index_range(const StackedTarget &target, std::string_view use) {
  if (target.a == nullptr) return;
  const int64_t most =
      std::max(target.kind == UseKind::embed ? target.a->ne[1] : 0, target.b->ne[2]);
  if (most <= std::numeric_limits<int32_t>::max()) return;
  throw LoadError(
      {.item = std::string(use),
       .problem = fmt::format("is the target of more adapters than {} indices can tell apart",
                              std::numeric_limits<int32_t>::max())});
}

template <class OneMember>
SlotMap make_slot_map(const std::vector<OneMember> &members, size_t n_adapters) {
  SlotMap map{std::vector<int32_t>(n_adapters, 0)};
  int32_t next = 1;
  for (const auto &member : members) map.slots[static_cast<size_t>(member.i_adapter)] = next++;
  return map;
}

StackedTarget::Dora make_dora(ggml_context *context, int64_t n_out, int64_t n_rows) {
  const auto terms = [&] { return ggml_new_tensor_2d(context, GGML_TYPE_F32, n_out, n_rows); };
  return {.magnitude = terms(), .base = terms(), .cross = terms(), .delta = terms()};
}

StackedTarget make_target(ggml_context *context, const std::vector<Member> &members) {
  const Member &any = members.front();
  const ProductChange &first = any.product == nullptr ? *any.bias : *any.product;
  StackedTarget target{.kind = first.kind};
  bool has_bias = false;
  bool has_dora = false;
  for (const auto &[i_adapter, product, bias] : members) {
    has_bias = has_bias || bias != nullptr;
    if (product == nullptr) continue;
    target.n_rank = std::max(target.n_rank, product->n_rank);
    has_dora = has_dora || product->dora != nullptr;
  }
  const auto n_slots = static_cast<int64_t>(members.size()) + 1;
  const int64_t n_matrices = first.n_expert() * n_slots;
  if (has_bias) target.bias = ggml_new_tensor_2d(context, GGML_TYPE_F32, first.n_out(), n_slots);
  if (has_dora) target.dora = make_dora(context, first.n_out(), n_matrices);
  if (target.n_rank == 0) return target;
  target.a =
      first.kind == UseKind::embed
          ? ggml_new_tensor_2d(context, GGML_TYPE_F32, target.n_rank,
                               first.ne[1] * (n_slots - 1) + 1)
          : ggml_new_tensor_3d(context, GGML_TYPE_F32, first.ne[0], target.n_rank, n_matrices);
  target.b = ggml_new_tensor_3d(context, GGML_TYPE_F32, target.n_rank, first.n_out(), n_matrices);
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
void fill_a(const ProductChange &change, const StackedTarget &target, int64_t slot) {
  const int64_t n_expert = change.n_expert();
  for (int64_t i_expert = 0; i_expert < n_expert; ++i_expert) {
    copy_rows(change.a, i_expert * change.n_rank, change.n_rank, target.a,
              (slot * n_expert + i_expert) * target.n_rank, 1);
  }
}

void fill_table(const ProductChange &change, const StackedTarget &target, int64_t slot) {
  const int64_t first = (slot - 1) * change.ne[1];
  if (change.tokens.empty()) return copy_rows(change.a, 0, change.ne[1], target.a, first, 1);
  for (size_t rank = 0; rank < change.tokens.size(); ++rank)
    row_of(target.a, first + change.tokens[rank])[rank] = 1;
}

void fill_b(const ProductChange &change, const StackedTarget &target, int64_t slot) {
  const int64_t n_rows = change.n_out() * change.n_expert();
  if (!change.b.data.empty())
    return copy_rows(change.b, 0, n_rows, target.b, slot * n_rows, change.scale);
  for (size_t rank = 0; rank < change.tokens.size(); ++rank)
    row_of(target.b, slot * n_rows + change.tokens[rank])[rank] = change.scale;
}

/// A gain of 1 for every adapter that has no terms of its own, and for none.
void fill_no_dora(const StackedTarget::Dora &dora) {
  for (ggml_tensor *ones : {dora.magnitude, dora.base})
    std::fill_n(row_of(ones, 0), ggml_nelements(ones), 1.0F);
}

void fill_dora(const DoraTerms &terms, const StackedTarget::Dora &dora, int64_t first_row) {
  const auto fill = [&](ggml_tensor *tensor, const std::vector<float> &values) {
    std::ranges::copy(values, row_of(tensor, first_row));
  };
  fill(dora.magnitude, terms.magnitude);
  fill(dora.base, terms.base);
  fill(dora.cross, terms.cross);
  fill(dora.delta, terms.delta);
}

void fill(const std::vector<Member> &members, const StackedTarget &target) {
  if (target.dora.magnitude != nullptr) fill_no_dora(target.dora);
  int64_t slot = 1;
  for (const auto &[i_adapter, product, bias] : members) {
    if (bias != nullptr) {
      to_f32(bias->b, 0, {row_of(target.bias, slot), static_cast<size_t>(bias->n_out())});
    }
    if (product != nullptr) {
      if (product->kind == UseKind::embed) {
        fill_table(*product, target, slot);
      } else {
        fill_a(*product, target, slot);
      }
      fill_b(*product, target, slot);
      if (product->dora != nullptr)
        fill_dora(*product->dora, target.dora, slot * product->n_expert());
    }
    ++slot;
  }
}

void fill(const std::vector<NormMember> &members, const StackedNorm &norm) {
  int64_t slot = 1;
  for (const auto &member : members)
    std::ranges::copy(member.change->delta, row_of(norm.delta, slot++));
}

Changes changes_of_all(const std::vector<std::shared_ptr<const Adapter>> &adapters) {
  Changes changes;
  for (const auto &adapter : adapters)
    changes.push_back(adapter == nullptr ? nullptr : changes_of(*adapter));
  return changes;
}

}  // namespace

LoraStacks::LoraStacks(const std::vector<std::shared_ptr<const Adapter>> &adapters,
                       const std::string &base_path)
    : changes_(changes_of_all(adapters)) {
  const Members members = group_by_target(changes_);
  const NormMembers norm_members = group_by_norm(changes_);
  if (members.empty() && norm_members.empty()) return;
  constexpr size_t k_most_tensors = 7;  // of a target
  context_.reset(ggml_init(
      {.mem_size = ggml_tensor_overhead() * (k_most_tensors * members.size() + norm_members.size()),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  for (const auto &[use, list] : members) {
    StackedTarget target = make_target(context_.get(), list);
    check_index_range(target, use);
    target.i_slots = intern(make_slot_map(list, changes_.size()));
    targets_.emplace(use, target);
  }
  for (const auto &[name, list] : norm_members) {
    const auto n = static_cast<int64_t>(list.front().change->delta.size());
    const auto n_slots = static_cast<int64_t>(list.size()) + 1;
    norms_.emplace(
        name, StackedNorm{.delta = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, n, n_slots),
                          .i_slots = intern(make_slot_map(list, changes_.size()))});
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
  for (const auto &[name, list] : norm_members) fill(list, norms_.at(name));
}

const StackedTarget *LoraStacks::find(std::string_view use) const {
  const auto found = targets_.find(use);
  return found == targets_.end() ? nullptr : &found->second;
}

const StackedNorm *LoraStacks::find_norm(std::string_view norm) const {
  const auto found = norms_.find(norm);
  return found == norms_.end() ? nullptr : &found->second;
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
