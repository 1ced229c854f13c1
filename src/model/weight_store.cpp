#include "model/weight_store.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "kernels/product.h"
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

/// A weight and the tensor of the file whose rows it multiplies.
struct Packing {
  Weight *weight = nullptr;
  const GgufTensor *source = nullptr;
  WeightFormat format = WeightFormat::q8_0;
};

/// Tensors by the memory they will live in.
struct Plan {
  std::vector<std::vector<Placement>> mapped;  // per shard
  std::vector<Placement> copied;
  std::vector<Placement> interleaved;
  std::vector<Packing> packed;
};

[[noreturn]] void refuse(const GgufFile &file, std::string item, std::string problem,
                         std::string wanted, std::string found, std::string hint = "") {
  throw LoadError({.path = file.path(),
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found),
                   .hint = std::move(hint)});
}

[[noreturn]] void refuse_memory(const GgufFile &file, size_t n_bytes) {
  throw LoadError(
      {.path = file.path(),
       .problem = fmt::format("needs {} bytes for weights, more memory than there is", n_bytes),
       .code = ErrorCode::out_of_memory});
}

void check_shape(const GgufFile &file, const TensorSpec &spec, const GgufTensor &tensor) {
  const std::array<int64_t, 4> want{spec.ne[0], spec.ne[1], spec.ne[2], 1};
  if (tensor.ne == want) return;
  const int n_dims = spec.ne[2] > 1 ? 3 : spec.ne[1] > 1 ? 2 : 1;
  refuse(file, spec.name, "has incorrect shape", format_shape(want, n_dims),
         format_shape(tensor.ne, tensor.n_dims));
}

/// ggml aborts on a product or a look-up whose type it cannot do; none may get that far.
bool type_fits(TensorRole role, ggml_type type) {
  if (role == TensorRole::vector) return type == GGML_TYPE_F32;
  if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) return true;
  return ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float != nullptr &&
         ggml_get_type_traits_cpu(type)->vec_dot != nullptr;
}

void check_type(const GgufFile &file, const TensorSpec &spec, const GgufTensor &tensor) {
  if (type_fits(spec.role, tensor.type)) return;
  refuse(file, spec.name, "has a type that cannot be used here",
         spec.role == TensorRole::vector ? "F32" : "a float or quantised type",
         ggml_type_name(tensor.type));
}

void refuse_unknown(const GgufFile &file, const TensorTable &table) {
  std::unordered_set<std::string_view> known;
  for (const auto &spec : table.specs()) known.insert(spec.name);
  std::vector<std::string_view> unknown;
  for (const auto &tensor : file.tensors()) {
    if (!known.contains(tensor.name)) unknown.push_back(tensor.name);
  }
  if (unknown.empty()) return;
  refuse(file, "",
         fmt::format("has {} tensor(s) that its architecture does not read", unknown.size()), "",
         first_five(unknown));
}

ggml_tensor *new_tensor(ggml_context *context, const GgufTensor &source) {
  ggml_tensor *tensor = ggml_new_tensor(context, source.type, 4, source.ne.data());
  ggml_set_name(tensor, source.name.c_str());
  return tensor;
}

bool is_aligned(const GgufTensor &tensor, size_t alignment) {
  return reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment == 0;
}

/// A weight and the tensor of the file that has its numbers, possibly that of the weight it is tied
/// to.
struct Found {
  const TensorSpec *spec = nullptr;
  const GgufTensor *source = nullptr;
  bool is_tied = false;
};

using FoundWeights = std::unordered_map<const Weight *, Found>;

/// Checks the tensors of the file against the table.
FoundWeights find_weights(const GgufFile &file, const TensorTable &table) {
  FoundWeights weights;
  for (const auto &spec : table.specs()) {
    *spec.weight = {.name = spec.name};
    const GgufTensor *source = file.find_tensor(spec.name);
    if (source == nullptr && spec.tied_to != nullptr) {
      weights.emplace(spec.weight, Found{&spec, weights.at(spec.tied_to).source, true});
      continue;
    }
    if (source == nullptr) {
      if (spec.required) refuse(file, spec.name, "is missing", "", "");
      continue;
    }
    check_shape(file, spec, *source);
    check_type(file, spec, *source);
    weights.emplace(spec.weight, Found{&spec, source});
  }
  return weights;
}

/// Rows of different types or lengths make no tensor.
bool can_join(const std::vector<const Weight *> &weights, const FoundWeights &found) {
  const auto first = found.find(weights.front());
  return std::ranges::all_of(weights, [&](const Weight *weight) {
    const auto one = found.find(weight);
    return one != found.end() && one->second.source->type == first->second.source->type &&
           one->second.source->ne[0] == first->second.source->ne[0];
  });
}

/// Where ggml interleaves the rows of a tensor it does so by up to this many, and a view of some of
/// them must begin with a whole group.
constexpr int64_t k_rows_interleaved = 8;

bool keeps_groups_whole(const std::vector<const Weight *> &weights, const FoundWeights &found) {
  return std::ranges::all_of(weights, [&](const Weight *weight) {
    return found.at(weight).source->ne[1] % k_rows_interleaved == 0;
  });
}

WeightLayout layout_of_found(const Found &found, const LayoutOptions &options) {
  ggml_tensor tensor{};
  tensor.type = found.source->type;
  std::ranges::copy(found.source->ne, tensor.ne);
  return choose_layout(found.spec->role, tensor, options);
}

/// One tensor for all rows of `weights`, each of which becomes a view.
Placement join(const std::vector<const Weight *> &weights, const FoundWeights &found,
               ggml_context *context) {
  Placement placement;
  int64_t n_out = 0;
  for (const Weight *weight : weights) {
    placement.sources.push_back(found.at(weight).source);
    n_out += placement.sources.back()->ne[1];
  }
  const GgufTensor &first = *placement.sources.front();
  placement.tensor = ggml_new_tensor_2d(context, first.type, first.ne[0], n_out);
  ggml_set_name(placement.tensor, fmt::format("{}+{}", first.name, weights.size() - 1).c_str());
  size_t offset = 0;
  for (const Weight *weight : weights) {
    const auto &[spec, source, is_tied] = found.at(weight);
    ggml_tensor *view = ggml_view_2d(context, placement.tensor, source->ne[0], source->ne[1],
                                     placement.tensor->nb[1], offset);
    ggml_set_name(view, source->name.c_str());
    spec->weight->tensor = view;
    placement.views.push_back(view);
    offset += ggml_nbytes(view);
  }
  return placement;
}

/// Takes the weights that are joined out of `found`. Packed ones need no common tensor: one product
/// reads the tiles of several.
void plan_joins(const TensorTable &table, const WeightOptions &options, ggml_context *context,
                FoundWeights &found, Plan &plan) {
  for (const auto &weights : table.joins()) {
    if (!can_join(weights, found)) continue;
    const auto all = [&](WeightLayout layout) {
      return std::ranges::all_of(weights, [&](const Weight *weight) {
        return layout_of_found(found.at(weight), options.layout) == layout;
      });
    };
    // Better apart and interleaved than together and not.
    const bool interleaved = all(WeightLayout::interleaved) && keeps_groups_whole(weights, found);
    if (!interleaved && !all(WeightLayout::as_stored)) continue;
    Placement placement = join(weights, found, context);
    (interleaved ? plan.interleaved : plan.copied).push_back(std::move(placement));
    for (const Weight *weight : weights) found.erase(weight);
  }
}

void plan_weight(const Found &found, const WeightOptions &options, ggml_context *context,
                 Plan &plan) {
  static const size_t alignment = ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
  const auto &[spec, source, is_tied] = found;
  const WeightLayout layout = layout_of_found(found, options.layout);
  const auto format = weight_format(source->type);
  if (layout == WeightLayout::packed && format)
    plan.packed.push_back({spec->weight, source, *format});
  if (is_tied) {
    spec->weight->tensor = spec->tied_to->tensor;
    return;
  }
  spec->weight->tensor = new_tensor(context, *source);
  Placement placement{.sources = {source}, .tensor = spec->weight->tensor};
  if (layout == WeightLayout::interleaved) {
    plan.interleaved.push_back(std::move(placement));
  } else if (layout == WeightLayout::as_stored && is_aligned(*source, alignment)) {
    plan.mapped[source->i_shard].push_back(std::move(placement));
  } else if (layout == WeightLayout::as_stored) {
    plan.copied.push_back(std::move(placement));
  }
}

Plan make_plan(const GgufFile &file, const TensorTable &table, const WeightOptions &options,
               ggml_context *context) {
  Plan plan;
  plan.mapped.resize(file.shards().size());
  FoundWeights found = find_weights(file, table);
  if (options.join) plan_joins(table, options, context, found, plan);
  for (const auto &spec : table.specs()) {
    if (const auto one = found.find(spec.weight); one != found.end())
      plan_weight(one->second, options, context, plan);
  }
  return plan;
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

size_t packed_bytes(const Packing &packing) {
  const auto &ne = packing.source->ne;
  const int64_t n_tiles = n_product_tiles(ne[1]) * ne[2];
  return static_cast<size_t>(n_tiles * tile_bytes(packing.format, ne[0]));
}

HugeMemory allocate_tiles(const GgufFile &file, const std::vector<Packing> &packings) {
  size_t n_bytes = 0;
  for (const auto &packing : packings) n_bytes += packed_bytes(packing);
  try {
    return HugeMemory(n_bytes);
  } catch (const std::bad_alloc &) {
    refuse_memory(file, n_bytes);
  }
}

/// Gives every weight of `packings` its tiles, one after the other from the start of `tiles` on.
void pack(const GgufFile &file, const std::vector<Packing> &packings, uint8_t *tiles,
          std::deque<PackedWeight> &packed, const std::function<void(size_t)> &done) {
  std::vector<PackTask> tasks;
  for (const auto &packing : packings) {
    const GgufTensor &source = *packing.source;
    const auto &ne = source.ne;
    packing.weight->packed = &packed.emplace_back(
        PackedWeight{.format = packing.format, .n_in = ne[0], .n_out = ne[1], .tiles = tiles});
    tasks.push_back({.job = {.format = packing.format,
                             .rows = source.data.data(),
                             .row_bytes = ggml_row_size(source.type, ne[0]),
                             .n_in = ne[0],
                             .n_out = ne[1]},
                     .n_expert = ne[2],
                     .tiles = tiles});
    tiles += packed_bytes(packing);
  }
  pack_weights(
      tasks, {.release =
                  [&](std::span<const std::byte> rows) {
                    for (const auto &shard : file.shards()) {
                      const auto bytes = shard.bytes();
                      if (rows.data() >= bytes.data() && rows.data() < bytes.data() + bytes.size())
                        shard.release_pages(rows);
                    }
                  },
              .done = done});
}

}  // namespace

std::vector<PlannedWeight> plan_weights(const GgufFile &file, const TensorTable &table,
                                        const WeightOptions &options) {
  refuse_unknown(file, table);
  const FoundWeights found = find_weights(file, table);
  std::vector<PlannedWeight> weights;
  for (const auto &spec : table.specs()) {
    const auto one = found.find(spec.weight);
    if (one == found.end()) continue;
    const GgufTensor &source = *one->second.source;
    const WeightLayout layout = layout_of_found(one->second, options.layout);
    const bool is_packed = layout == WeightLayout::packed;
    const auto format = weight_format(source.type);
    if (one->second.is_tied && !is_packed) continue;
    PlannedWeight &weight = weights.emplace_back(PlannedWeight{
        .name = spec.name, .stored_as = source.name, .type = source.type, .layout = layout});
    if (is_packed && format) weight.isa = product_isa(options.layout.isa, *format);
  }
  return weights;
}

WeightStore::WeightStore(std::shared_ptr<const GgufFile> file, const TensorTable &table,
                         const WeightOptions &options, const LoadProgress &progress)
    : file_(std::move(file)) {
  refuse_unknown(*file_, table);
  context_.reset(ggml_init(
      {.mem_size = ggml_tensor_overhead() * (table.specs().size() + table.joins().size() + 1),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  const Plan plan = make_plan(*file_, table, options, context_.get());

  for (size_t i = 0; i < plan.mapped.size(); ++i) {
    if (plan.mapped[i].empty()) continue;
    buffers_.push_back(map_shard(file_->shards()[i], plan.mapped[i]));
    mapped_bytes_ += count_bytes(plan.mapped[i]);
  }
  size_t all_bytes = count_bytes(plan.copied) + count_bytes(plan.interleaved);
  for (const auto &packing : plan.packed) all_bytes += packing.source->data.size();
  const auto done = [&](size_t n_bytes) {
    copied_bytes_ += n_bytes;
    if (progress) progress(copied_bytes_, all_bytes);
  };
  if (!plan.copied.empty()) {
    buffers_.push_back(copy_tensors(*file_, ggml_backend_cpu_buffer_type(), plan.copied, done));
  }
  if (!plan.interleaved.empty()) {
    buffers_.push_back(copy_tensors(*file_, repack_buffer_type(), plan.interleaved, done));
  }
  for (const auto &placement : plan.interleaved) n_interleaved_ += placement.sources.size();
  if (!plan.packed.empty()) {
    tiles_ = allocate_tiles(*file_, plan.packed);
    pack(*file_, plan.packed, tiles_.data(), packed_, done);
  }
}

}  // namespace patchbay
