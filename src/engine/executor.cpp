#include "engine/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "arch/decoder.h"
#include "kv/attention_mask.h"

namespace patchbay {
namespace {

/// Attention looks at whole multiples of this many cells, so that a growing sequence keeps its
/// graph for as many steps.
constexpr uint32_t k_kv_granularity = 64;

uint32_t round_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

template <class T>
void set(ggml_tensor *tensor, const std::vector<T> &data) {
  // A tensor that no node reads gets no memory.
  if (tensor == nullptr || tensor->buffer == nullptr) return;
  ggml_backend_tensor_set(tensor, data.data(), 0, data.size() * sizeof(T));
}

}  // namespace

/// A plan taken apart into what the graph reads.
struct Executor::Prepared {
  std::vector<int32_t> tokens;
  std::vector<SeqPos> places;
  std::vector<int32_t> positions;
  std::vector<int64_t> cells;
  std::vector<int32_t> output_rows;
  Routing routing;

  explicit Prepared(const StepPlan &plan) {
    std::vector<const AdapterSet *> sets;
    for (const auto &row : plan.rows) {
      if (row.wants_logits) output_rows.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(row.token);
      places.push_back(row.place);
      positions.push_back(row.place.pos);
      sets.push_back(&plan.sets[row.i_set]);
    }
    // The graph needs at least one output; its logits are then not returned.
    if (output_rows.empty()) output_rows.push_back(0);
    routing = Routing::of(sets);
  }
};

Executor::Executor(std::shared_ptr<const LoadedModel> model, const Options &options)
    : model_(std::move(model)),
      cells_(options.n_cells),
      kv_(model_->hparams(), options.n_cells, options.cache_type),
      pool_(std::make_unique<const LoraPool>(std::vector<std::shared_ptr<const Adapter>>{},
                                             model_->info)),
      threads_(options.n_threads, options.waiting),
      allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {}

void Executor::set_adapters(std::vector<std::shared_ptr<const Adapter>> adapters) {
  pool_ = std::make_unique<const LoraPool>(std::move(adapters), model_->info);
  graph_.reset();
}

/// Gives the cells of a step back unless the step is committed.
class Executor::Claim {
 public:
  Claim(CellTable &table, KvCache &kv, std::vector<int32_t> cells)
      : table_(table), kv_(kv), cells_(std::move(cells)) {}
  Claim(const Claim &) = delete;
  Claim &operator=(const Claim &) = delete;
  ~Claim() {
    if (committed_) return;
    table_.release(cells_);
    kv_.clear(cells_);
  }
  void commit() { committed_ = true; }

 private:
  CellTable &table_;
  KvCache &kv_;
  std::vector<int32_t> cells_;
  bool committed_ = false;
};

Expected<void> Executor::check(const StepPlan &plan) const {
  const auto n_vocab = static_cast<int32_t>(model_->hparams().n_vocab);
  const auto n_adapters = static_cast<int32_t>(adapters().size());
  if (plan.rows.empty()) return fail(ErrorCode::invalid_argument, "a step has no tokens");
  std::set<std::pair<int32_t, int32_t>> places;
  for (const auto &row : plan.rows) {
    const auto [seq_id, pos] = row.place;
    if (seq_id < 0 || pos < 0 || !places.insert({seq_id, pos}).second) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("position {} of sequence {} is no place, or one taken twice", pos, seq_id));
    }
    if (row.token < 0 || row.token >= n_vocab) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("token {} is not in the vocabulary of {} tokens", row.token, n_vocab));
    }
    if (row.i_set >= plan.sets.size())
      return fail(ErrorCode::invalid_argument, "a row names no adapter set");
  }
  for (const auto &set : plan.sets) {
    for (const auto &worn : set) {
      if (worn.i_adapter < 0 || worn.i_adapter >= n_adapters) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("adapter {} is not resident", worn.i_adapter));
      }
    }
  }
  return {};
}

Expected<std::span<const float>> Executor::run(const StepPlan &plan) {
  if (auto checked = check(plan); !checked) return tl::unexpected(checked.error());
  Prepared step(plan);
  const auto claimed = cells_.claim(step.places);
  if (!claimed) {
    return fail(ErrorCode::context_overflow,
                fmt::format("{} tokens need KV cells and {} of {} are free", step.places.size(),
                            cells_.n_free(), cells_.n_cells()));
  }
  step.cells.assign(claimed->begin(), claimed->end());
  Claim claim(cells_, kv_, *claimed);
  auto logits = compute(step);
  if (!logits) return logits;
  claim.commit();
  const bool wanted = std::ranges::any_of(plan.rows, &StepRow::wants_logits);
  return wanted ? *logits : std::span<const float>{};
}

Expected<std::span<const float>> Executor::compute(const Prepared &step) {
  const GraphKey key{
      .sizes = {.n_tokens = static_cast<int64_t>(step.tokens.size()),
                .n_outputs = static_cast<int64_t>(step.output_rows.size()),
                .n_kv = std::min(round_up(cells_.end(), k_kv_granularity), cells_.n_cells())},
      .lora = LoraInputs::shape_of(*pool_, step.routing)};
  if ((graph_ == nullptr || !(key == key_)) && !build(key)) {
    return fail(ErrorCode::internal, "not enough memory for the step's intermediate results");
  }
  upload(step);
  const ggml_status status = threads_.compute(graph_->cgraph());
  if (status != GGML_STATUS_SUCCESS) {
    return fail(ErrorCode::internal,
                fmt::format("a step failed: {}", ggml_status_to_string(status)));
  }
  out_.resize(static_cast<size_t>(ggml_nelements(logits_)));
  ggml_backend_tensor_get(logits_, out_.data(), 0, out_.size() * sizeof(float));
  if (!std::ranges::all_of(out_, [](float logit) { return std::isfinite(logit); })) {
    return fail(ErrorCode::internal,
                "a step gave logits that are not finite: the weights, or an adapter at its "
                "strength, are too large");
  }
  return std::span<const float>(out_);
}

bool Executor::build(const GraphKey &key) {
  std::unique_ptr<LoraInputs> lora;
  const bool any_worn = std::ranges::any_of(key.lora.worn, [](bool worn) { return worn; });
  if (any_worn) {
    lora = std::make_unique<LoraInputs>(*pool_, key.lora,
                                        std::array{key.sizes.n_tokens, key.sizes.n_outputs});
  }
  auto graph = std::make_unique<Graph>(model_->hparams(), kv_, key.sizes, std::move(lora));
  logits_ = build_decoder(*graph, *model_->family, model_->weights);
  // Without reserving anew the allocator would keep the last plan for any graph whose nodes have
  // the same sizes, however they are connected.
  const bool fits = ggml_gallocr_reserve(allocator_.get(), graph->cgraph()) &&
                    ggml_gallocr_alloc_graph(allocator_.get(), graph->cgraph());
  // After a failure it holds a plan without memory.
  if (!fits) allocator_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  key_ = key;
  graph_ = fits ? std::move(graph) : nullptr;
  return fits;
}

void Executor::upload(const Prepared &step) {
  const GraphInputs &inputs = graph_->inputs();
  const auto n_kv = static_cast<uint32_t>(key_.sizes.n_kv);
  set(inputs.tokens, step.tokens);
  set(inputs.positions, step.positions);
  set(inputs.cells, step.cells);
  set(inputs.output_rows, step.output_rows);
  std::vector<ggml_fp16_t> mask(step.tokens.size() * n_kv);
  fill_mask(cells_.cells(), n_kv, step.places, 0, mask);
  set(inputs.mask, mask);
  if (inputs.mask_swa != nullptr) {
    fill_mask(cells_.cells(), n_kv, step.places, model_->hparams().n_swa, mask);
    set(inputs.mask_swa, mask);
  }
  if (graph_->lora() != nullptr)
    graph_->lora()->upload(step.routing, step.output_rows, step.tokens);
}

}  // namespace patchbay
