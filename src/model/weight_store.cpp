#include "model/weight_store.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "model/repack.h"

namespace patchbay {
namespace {

struct Placement {
  const GgufTensor *source = nullptr;
  ggml_tensor *tensor = nullptr;
};

/// Tensors by the memory they will live in.
struct Plan {
  std::vector<std::vector<Placement>> mapped;  // per shard
  std::vector<Placement> copied;
  std::vector<Placement> repacked;
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

Plan make_plan(const GgufFile &file, const TensorTable &table, const WeightOptions &options,
               ggml_context *context) {
  Plan plan;
  plan.mapped.resize(file.shards().size());
  const size_t alignment = ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
  for (const auto &spec : table.specs()) {
    spec.weight->name = spec.name;
    spec.weight->tensor = nullptr;
    const GgufTensor *source = file.find_tensor(spec.name);
    if (source == nullptr) {
      if (spec.required) refuse(file, spec.name, "is missing", "", "");
      continue;
    }
    check_shape(file, spec, *source);
    check_type(file, spec, *source);
    spec.weight->tensor = new_tensor(context, *source);
    const Placement placement{source, spec.weight->tensor};
    if (options.repack && repack_pays(spec.role, *spec.weight->tensor)) {
      plan.repacked.push_back(placement);
    } else if (is_aligned(*source, alignment)) {
      plan.mapped[source->i_shard].push_back(placement);
    } else {
      plan.copied.push_back(placement);
    }
  }
  return plan;
}

size_t count_bytes(const std::vector<Placement> &placements) {
  size_t n_bytes = 0;
  for (const auto &placement : placements) n_bytes += placement.source->data.size();
  return n_bytes;
}

/// One buffer over the mapping of a shard; its tensors lie where the file has them.
ggml_backend_buffer_ptr map_shard(const MappedFile &shard,
                                  const std::vector<Placement> &placements) {
  // ggml takes a non-const pointer, but weights are only ever read.
  auto *base = const_cast<std::byte *>(shard.bytes().data());
  ggml_backend_buffer_ptr buffer(ggml_backend_cpu_buffer_from_ptr(base, shard.bytes().size()));
  ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  for (const auto &[source, tensor] : placements) {
    ggml_backend_tensor_alloc(buffer.get(), tensor, const_cast<std::byte *>(source->data.data()));
  }
  return buffer;
}

/// One new buffer of the given type that holds copies of all `placements`; the file's pages are
/// given back on the way.
ggml_backend_buffer_ptr copy_tensors(const GgufFile &file, ggml_backend_buffer_type_t type,
                                     const std::vector<Placement> &placements,
                                     const std::function<void(size_t)> &done) {
  const size_t alignment = ggml_backend_buft_get_alignment(type);
  size_t n_bytes = alignment;
  for (const auto &[source, tensor] : placements) {
    n_bytes += GGML_PAD(ggml_backend_buft_get_alloc_size(type, tensor), alignment);
  }
  ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(type, n_bytes));
  if (!buffer) {
    throw LoadError(
        {.path = file.path(),
         .problem = fmt::format("needs {} bytes for weights, more memory than there is", n_bytes),
         .code = ErrorCode::out_of_memory});
  }
  ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  ggml_tallocr allocator = ggml_tallocr_new(buffer.get());
  for (const auto &[source, tensor] : placements) {
    ggml_tallocr_alloc(&allocator, tensor);
    ggml_backend_tensor_set(tensor, source->data.data(), 0, source->data.size());
    file.shards()[source->i_shard].release_pages(source->data);
    done(source->data.size());
  }
  return buffer;
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<const GgufFile> file, const TensorTable &table,
                         const WeightOptions &options, const LoadProgress &progress)
    : file_(std::move(file)) {
  refuse_unknown(*file_, table);
  context_.reset(ggml_init({.mem_size = ggml_tensor_overhead() * (table.specs().size() + 1),
                            .mem_buffer = nullptr,
                            .no_alloc = true}));
  const Plan plan = make_plan(*file_, table, options, context_.get());

  for (size_t i = 0; i < plan.mapped.size(); ++i) {
    if (plan.mapped[i].empty()) continue;
    buffers_.push_back(map_shard(file_->shards()[i], plan.mapped[i]));
    mapped_bytes_ += count_bytes(plan.mapped[i]);
  }
  const size_t all_bytes = count_bytes(plan.copied) + count_bytes(plan.repacked);
  const auto done = [&](size_t n_bytes) {
    copied_bytes_ += n_bytes;
    if (progress) progress(copied_bytes_, all_bytes);
  };
  if (!plan.copied.empty()) {
    buffers_.push_back(copy_tensors(*file_, ggml_backend_cpu_buffer_type(), plan.copied, done));
  }
  if (!plan.repacked.empty()) {
    buffers_.push_back(copy_tensors(*file_, repack_buffer_type(), plan.repacked, done));
  }
  n_repacked_ = plan.repacked.size();
}

}  // namespace patchbay
