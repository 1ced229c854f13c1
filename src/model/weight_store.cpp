#include "model/weight_store.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>

#include "base/error.h"
#include "model/packing.h"
#include "model/repack.h"

namespace patchbay {
namespace {

/// A tensor and the tensors of the file whose rows it holds one after the other.
struct Placement {
  std::vector<const GgufTensor *> sources;
  ggml_tensor *tensor = nullptr;
  std::vector<ggml_tensor *> views;  // one per source, when there are several
};

/// Tensors by the memory they will live in.
struct Placements {
  std::vector<std::vector<Placement>> mapped;  // per shard
  std::vector<Placement> copied;
  std::vector<Placement> interleaved;
};

[[noreturn]] void refuse_memory(const GgufFile &file, size_t n_bytes) {
  throw LoadError(
      {.path = file.path(),
       .problem = fmt::format("needs {} bytes for weights, more memory than there is", n_bytes),
       .hint = "without copies of weights, --no-repack, the mapped file serves",
       .code = ErrorCode::out_of_memory});
}

bool is_aligned(const GgufTensor &tensor) {
  static const size_t alignment = ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
  return reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment == 0;
}

/// What a weight of a plan is made from and the weight itself.
struct Bound {
  const GgufTensor *source = nullptr;
  Weight *weight = nullptr;
};

Bound bind(const GgufFile &file, const TensorTable &table, const PlannedWeight &weight) {
  return {file.find_tensor(weight.stored_as), table.specs()[weight.i_spec].weight};
}

/// The tensor of one weight.
Placement place_one(const Bound &bound, ggml_context *context) {
  const auto &[source, weight] = bound;
  weight->tensor = ggml_new_tensor(context, source->type, 4, source->ne.data());
  ggml_set_name(weight->tensor, source->name.c_str());
  return {.sources = {source}, .tensor = weight->tensor};
}

/// One tensor for all rows of several weights, each of which becomes a view.
Placement place_joined(const std::vector<Bound> &joined, ggml_context *context) {
  Placement placement;
  int64_t n_out = 0;
  for (const auto &[source, weight] : joined) {
    placement.sources.push_back(source);
    n_out += source->ne[1];
  }
  const GgufTensor &first = *placement.sources.front();
  placement.tensor = ggml_new_tensor_2d(context, first.type, first.ne[0], n_out);
  ggml_set_name(placement.tensor, fmt::format("{}+{}", first.name, joined.size() - 1).c_str());
  size_t offset = 0;
  for (const auto &[source, weight] : joined) {
    weight->tensor = ggml_view_2d(context, placement.tensor, source->ne[0], source->ne[1],
                                  placement.tensor->nb[1], offset);
    ggml_set_name(weight->tensor, source->name.c_str());
    placement.views.push_back(weight->tensor);
    offset += ggml_nbytes(weight->tensor);
  }
  return placement;
}

/// Makes the planned tensors, without data so far, and gives them to their weights. Those of packed
/// weights are not among the result: they get no data.
Placements make_tensors(const GgufFile &file, const TensorTable &table, const WeightPlan &plan,
                        ggml_context *context) {
  Placements placements;
  placements.mapped.resize(file.shards().size());
  for (const auto &tensor : plan.tensors) {
    std::vector<Bound> bound;
    for (const size_t i : tensor) bound.push_back(bind(file, table, plan.weights[i]));
    const bool is_joined = bound.size() > 1;
    Placement placement =
        is_joined ? place_joined(bound, context) : place_one(bound.front(), context);
    const WeightLayout layout = plan.weights[tensor.front()].layout;
    const GgufTensor &source = *bound.front().source;
    if (layout == WeightLayout::interleaved) {
      placements.interleaved.push_back(std::move(placement));
    } else if (layout == WeightLayout::as_stored && !is_joined && is_aligned(source)) {
      placements.mapped[source.i_shard].push_back(std::move(placement));
    } else if (layout == WeightLayout::as_stored) {
      placements.copied.push_back(std::move(placement));
    }
  }
  return placements;
}

/// Gives the table's weights their names and nothing else.
void reset_weights(const TensorTable &table) {
  for (const auto &spec : table.specs()) *spec.weight = {.name = spec.name};
}

void tie_weights(const TensorTable &table) {
  for (const auto &spec : table.specs()) {
    if (spec.tied_to != nullptr && !*spec.weight) spec.weight->tensor = spec.tied_to->tensor;
  }
}

size_t count_bytes(const std::vector<Placement> &placements) {
  size_t n_bytes = 0;
  for (const auto &placement : placements) {
    for (const GgufTensor *source : placement.sources) n_bytes += source->data.size();
  }
  return n_bytes;
}

/// One buffer over the mapping of a shard; its tensors lie where the file has them.
ggml_backend_buffer_ptr map_shard(const MappedFile &shard,
                                  const std::vector<Placement> &placements) {
  // ggml takes a non-const pointer, but weights are only ever read.
  auto *base = const_cast<std::byte *>(shard.bytes().data());
  ggml_backend_buffer_ptr buffer(ggml_backend_cpu_buffer_from_ptr(base, shard.bytes().size()));
  ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  for (const auto &[sources, tensor, views] : placements) {
    ggml_backend_tensor_alloc(buffer.get(), tensor,
                              const_cast<std::byte *>(sources.front()->data.data()));
  }
  return buffer;
}

/// Fills a tensor in the one write that a repacking buffer takes. Only joined rows of such a buffer
/// need to be brought together before.
void fill(const Placement &placement) {
  const auto &[sources, tensor, views] = placement;
  if (ggml_backend_buffer_is_host(tensor->buffer) || sources.size() == 1) {
    size_t offset = 0;
    for (const GgufTensor *source : sources) {
      ggml_backend_tensor_set(tensor, source->data.data(), offset, source->data.size());
      offset += source->data.size();
    }
    return;
  }
  std::vector<std::byte> rows;
  rows.reserve(ggml_nbytes(tensor));
  for (const GgufTensor *source : sources)
    rows.insert(rows.end(), source->data.begin(), source->data.end());
  ggml_backend_tensor_set(tensor, rows.data(), 0, rows.size());
}

/// One new buffer of the given type that holds copies of all `placements`; the file's pages are
/// given back on the way.
ggml_backend_buffer_ptr copy_tensors(const GgufFile &file, ggml_backend_buffer_type_t type,
                                     const std::vector<Placement> &placements,
                                     const std::function<void(size_t)> &done) {
  const size_t alignment = ggml_backend_buft_get_alignment(type);
  size_t n_bytes = alignment;
  for (const auto &[sources, tensor, views] : placements) {
    n_bytes += GGML_PAD(ggml_backend_buft_get_alloc_size(type, tensor), alignment);
  }
  ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(type, n_bytes));
  if (!buffer) refuse_memory(file, n_bytes);
  ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  ggml_tallocr allocator = ggml_tallocr_new(buffer.get());
  for (const auto &placement : placements) {
    ggml_tallocr_alloc(&allocator, placement.tensor);
    fill(placement);
    for (ggml_tensor *view : placement.views) ggml_backend_view_init(view);
    for (const GgufTensor *source : placement.sources) {
      file.shards()[source->i_shard].release_pages(source->data);
      done(source->data.size());
    }
  }
  return buffer;
}

HugeMemory allocate_tiles(const GgufFile &file, const std::deque<PackedWeight> &packed) {
  size_t n_bytes = 0;
  for (const auto &weight : packed) n_bytes += weight.size_bytes();
  try {
    return HugeMemory(n_bytes);
  } catch (const std::bad_alloc &) {
    refuse_memory(file, n_bytes);
  }
}

/// Of a tensor with a format of ours; where its tiles go is still open.
PackTask pack_task(const GgufTensor &source, WeightFormat format) {
  const auto &ne = source.ne;
  return {.job = {.format = format,
                  .rows = source.data.data(),
                  .row_bytes = ggml_row_size(source.type, ne[0]),
                  .n_in = ne[0],
                  .n_out = ne[1]},
          .n_expert = ne[2],
          .i_shard = source.i_shard};
}

size_t packed_source_bytes(const GgufFile &file, const WeightPlan &plan) {
  size_t n_bytes = 0;
  for (const auto &weight : plan.weights) {
    if (weight.layout == WeightLayout::packed)
      n_bytes += file.find_tensor(weight.stored_as)->data.size();
  }
  return n_bytes;
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<const GgufFile> file, const TensorTable &table,
                         const WeightOptions &options, const LoadProgress &progress)
    : file_(std::move(file)), plan_(plan_weights(*file_, table, options)) {
  context_.reset(
      ggml_init({.mem_size = ggml_tensor_overhead() * (plan_.weights.size() + plan_.tensors.size()),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  reset_weights(table);
  const auto [mapped, copied, interleaved] = make_tensors(*file_, table, plan_, context_.get());
  tie_weights(table);

  for (size_t i = 0; i < mapped.size(); ++i) {
    if (mapped[i].empty()) continue;
    buffers_.push_back(map_shard(file_->shards()[i], mapped[i]));
    mapped_bytes_ += count_bytes(mapped[i]);
  }
  const size_t all_bytes =
      count_bytes(copied) + count_bytes(interleaved) + packed_source_bytes(*file_, plan_);
  const Done done = [&](size_t n_bytes) {
    copied_bytes_ += n_bytes;
    if (progress) progress(copied_bytes_, all_bytes);
  };
  if (!copied.empty()) {
    buffers_.push_back(copy_tensors(*file_, ggml_backend_cpu_buffer_type(), copied, done));
  }
  if (!interleaved.empty()) {
    buffers_.push_back(copy_tensors(*file_, repack_buffer_type(), interleaved, done));
  }
  if (plan_.count(WeightLayout::packed) > 0) pack(table, done);
}

/// Packed weights lie one after the other from the start of the tiles on.
void WeightStore::pack(const TensorTable &table, const Done &done) {
  std::vector<PackTask> tasks;
  for (const auto &planned : plan_.weights) {
    const auto format = weight_format(planned.type);
    if (planned.layout != WeightLayout::packed || !format) continue;
    const auto [source, weight] = bind(*file_, table, planned);
    tasks.push_back(pack_task(*source, *format));
    const auto &ne = source->ne;
    weight->packed = &packed_.emplace_back(
        PackedWeight{.format = *format, .n_in = ne[0], .n_out = ne[1], .n_expert = ne[2]});
  }
  tiles_ = allocate_tiles(*file_, packed_);
  uint8_t *tiles = tiles_.data();
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].tiles = tiles;
    packed_[i].tiles = tiles;
    tiles += packed_[i].size_bytes();
  }
  pack_weights(tasks, {.release =
                           [this](size_t i_shard, std::span<const std::byte> rows) {
                             file_->shards()[i_shard].release_pages(rows);
                           },
                       .done = done});
}

}  // namespace patchbay
