#include "graph/lora_inputs.h"

#include <ggml-backend.h>

#include <cassert>

namespace patchbay {
namespace {

ggml_tensor *new_input(ggml_context *context, ggml_type type, int64_t ne0, int64_t ne1 = 1,
                       int64_t ne2 = 1) {
  ggml_tensor *tensor = ggml_new_tensor_3d(context, type, ne0, ne1, ne2);
  ggml_set_input(tensor);
  return tensor;
}

/// The tensor gets memory only when a node of the graph reads it.
template <class T>
void set(ggml_tensor *tensor, const std::vector<T> &data) {
  if (tensor == nullptr || tensor->buffer == nullptr) return;
  assert(ggml_nbytes(tensor) == data.size() * sizeof(T));
  ggml_backend_tensor_set(tensor, data.data(), 0, data.size() * sizeof(T));
}

}  // namespace

LoraShape LoraInputs::shape_of(const LoraStacks &stacks, const Routing &routing) {
  LoraShape shape{routing.n_lanes(), std::vector<bool>(stacks.slot_maps().size(), false)};
  for (size_t i = 0; i < shape.worn.size(); ++i) {
    for (size_t row = 0; row < routing.n_rows() && !shape.worn[i]; ++row) {
      for (size_t lane = 0; lane < routing.n_lanes(); ++lane) {
        if (stacks.slot_maps()[i].slot(routing.at(row, lane).i_adapter) != 0) shape.worn[i] = true;
      }
    }
  }
  return shape;
}

LoraInputs::LoraInputs(const LoraStacks &stacks, LoraShape shape,
                       std::array<int64_t, k_n_row_sets> n_rows)
    : stacks_(stacks), shape_(std::move(shape)), n_rows_(n_rows) {}

const StackedTarget *LoraInputs::find(std::string_view use) const {
  const StackedTarget *target = stacks_.find(use);
  return target != nullptr && shape_.worn[target->i_slots] ? target : nullptr;
}

const StackedNorm *LoraInputs::find_norm(std::string_view norm) const {
  const StackedNorm *found = stacks_.find_norm(norm);
  return found != nullptr && shape_.worn[found->i_slots] ? found : nullptr;
}

ggml_tensor *LoraInputs::slots(ggml_context *context, size_t i_slots, RowSet rows) {
  ggml_tensor *&tensor = inputs_[{i_slots, rows}].slots;
  if (tensor == nullptr) {
    tensor = new_input(context, GGML_TYPE_I32, n_lanes(), n_rows_[static_cast<size_t>(rows)]);
  }
  return tensor;
}

ggml_tensor *LoraInputs::strengths(ggml_context *context, size_t i_slots, RowSet rows) {
  ggml_tensor *&tensor = inputs_[{i_slots, rows}].strengths;
  if (tensor == nullptr) {
    tensor = new_input(context, GGML_TYPE_F32, 1, n_lanes(), n_rows_[static_cast<size_t>(rows)]);
  }
  return tensor;
}

ggml_tensor *LoraInputs::expert_slots(ggml_context *context, size_t i_slots, RowSet rows,
                                      int64_t n_expert) {
  ggml_tensor *&tensor = inputs_[{i_slots, rows}].expert_slots;
  if (tensor == nullptr) {
    tensor =
        new_input(context, GGML_TYPE_I32, n_lanes(), n_expert, n_rows_[static_cast<size_t>(rows)]);
  }
  return tensor;
}

ggml_tensor *LoraInputs::embed_rows(ggml_context *context, const StackedTarget &target) {
  ggml_tensor *&tensor = embed_rows_[&target];
  if (tensor == nullptr) {
    tensor =
        new_input(context, GGML_TYPE_I32, n_lanes() * n_rows_[static_cast<size_t>(RowSet::all)]);
  }
  return tensor;
}

void LoraInputs::upload(const Routing &routing, const OutputRows &rows,
                        std::span<const int32_t> tokens) const {
  const Routing of_outputs = routing.select(rows.outputs);
  const Routing of_logits = routing.select(rows.logits);
  const std::array<const Routing *, k_n_row_sets> by_set{&routing, &of_outputs, &of_logits};
  for (const auto &[key, inputs] : inputs_) {
    const auto &[i_slots, set] = key;
    upload_rows(inputs, stacks_.slot_maps()[i_slots], *by_set[static_cast<size_t>(set)]);
  }
  for (const auto &[target, lookup] : embed_rows_)
    upload_embed_rows(*target, lookup, routing, tokens);
}

void LoraInputs::upload_rows(const Inputs &inputs, const SlotMap &map,
                             const Routing &routing) const {
  const int64_t n_expert = inputs.expert_slots == nullptr ? 0 : inputs.expert_slots->ne[1];
  std::vector<int32_t> slots;
  std::vector<float> strengths;
  std::vector<int32_t> expert_slots;
  for (size_t row = 0; row < routing.n_rows(); ++row) {
    for (size_t lane = 0; lane < routing.n_lanes(); ++lane) {
      const Worn &worn = routing.at(row, lane);
      slots.push_back(map.slot(worn.i_adapter));
      strengths.push_back(worn.strength);
    }
    for (int32_t i_expert = 0; i_expert < n_expert; ++i_expert) {
      for (size_t lane = 0; lane < routing.n_lanes(); ++lane) {
        const int32_t slot = map.slot(routing.at(row, lane).i_adapter);
        expert_slots.push_back(slot * static_cast<int32_t>(n_expert) + i_expert);
      }
    }
  }
  set(inputs.slots, slots);
  set(inputs.strengths, strengths);
  set(inputs.expert_slots, expert_slots);
}

void LoraInputs::upload_embed_rows(const StackedTarget &target, ggml_tensor *rows,
                                   const Routing &routing, std::span<const int32_t> tokens) const {
  const SlotMap &map = stacks_.slot_maps()[target.i_slots];
  const auto zero_row = static_cast<int32_t>(target.a->ne[1] - 1);
  const auto n_slots_used = static_cast<int32_t>(target.b->ne[2] - 1);
  const int32_t n_vocab = zero_row / n_slots_used;
  std::vector<int32_t> data;
  for (size_t row = 0; row < routing.n_rows(); ++row) {
    for (size_t lane = 0; lane < routing.n_lanes(); ++lane) {
      const int32_t slot = map.slot(routing.at(row, lane).i_adapter);
      data.push_back(slot == 0 ? zero_row : (slot - 1) * n_vocab + tokens[row]);
    }
  }
  set(rows, data);
}

}  // namespace patchbay
