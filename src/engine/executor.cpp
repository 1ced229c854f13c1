#include "engine/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>

#include "base/rounding.h"
#include "graph/lora_fused.h"
#include "graph/lora_portable.h"
#include "kv/attention_mask.h"

namespace patchbay {
namespace {

/// Attention looks at whole multiples of this many cells, so that a growing sequence keeps its
/// graph for as many steps.
constexpr uint32_t k_kv_granularity = 64;

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
  std::vector<int32_t> output_rows;  ///< first those whose logits are wanted
  size_t n_hidden = 0;               ///< of these
  std::vector<SeqExtent> extents;
  Routing routing;

  Prepared(const StepPlan &plan, const LoraPool &pool) {
    std::vector<const AdapterSet *> sets;
    std::vector<int32_t> hidden_rows;
    std::map<SeqPos, const StepRow *> by_place;
    for (const auto &row : plan.rows) {
      const auto i_row = static_cast<int32_t>(tokens.size());
      if (row.wants_logits) output_rows.push_back(i_row);
      if (row.wants_hidden) hidden_rows.push_back(i_row);
      tokens.push_back(row.token);
      places.push_back(row.place);
      positions.push_back(row.place.pos);
      sets.push_back(&plan.sets[row.i_set]);
      by_place.emplace(row.place, &row);
    }
    std::vector<Sha256Digest> digests;
    for (const auto &set : plan.sets) digests.push_back(pool.kv_digest(set));
    for (const auto &[place, row] : by_place) {
      if (extents.empty() || extents.back().seq_id != place.seq_id)
        extents.push_back({.seq_id = place.seq_id});
      ++extents.back().n_tokens;
      extents.back().content.push_back(row->token, digests[row->i_set]);
    }
    n_hidden = hidden_rows.size();
    output_rows.insert(output_rows.end(), hidden_rows.begin(), hidden_rows.end());
    // The graph needs at least one output; its logits are then not returned.
    if (output_rows.empty()) output_rows.push_back(0);
    routing = Routing::of(sets);
  }
};

Executor::Executor(std::shared_ptr<const LoadedModel> model, const Options &options)
    : model_(std::move(model)),
      n_threads_(options.n_threads),
      attention_(options.attention == AttentionForm::automatic ? AttentionForm::paged
                                                               : options.attention),
      n_ctx_(options.kv.n_ctx),
      tables_(kv_sizes(model_->hparams(), options.kv), model_->hparams().n_swa),
      kv_(model_->hparams(), kv_sizes(model_->hparams(), options.kv), options.cache_type,
          attention_ == AttentionForm::paged ? KvLayout::by_head : KvLayout::by_token),
      fused_(options.lora_form != LoraForm::portable),
      pool_(model_->info, fused_ ? LoraPool::Form::packed : LoraPool::Form::stacked),
      threads_(options.n_threads, options.waiting),
      allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {
  tables_.prefixes().use_host_tier(kv_, options.cache_memory_bytes);
}

KvGeometry Executor::kv_geometry() const {
  const HParams &hparams = model_->hparams();
  return {.n_layer = hparams.n_layer,
          .n_head_kv = hparams.n_head_kv,
          .n_embd_head = hparams.n_embd_head,
          .n_swa = hparams.n_swa,
          .block_size = kv_.block_size(),
          .type = kv_.k(0)->type,
          .layout = kv_.layout(),
          .block_bytes_full = kv_.block_bytes(BlockMemory::full),
          .block_bytes_window = kv_.block_bytes(BlockMemory::window)};
}

uint32_t Executor::load(const std::string &tenant, const ContentView &content,
                        const PrefixBlocks &blocks) {
  const uint32_t n_tokens = tables_.prefixes().load(tenant, PrefixContent(content), blocks);
  assert(check_invariants(kv_snapshot()).empty());
  return n_tokens;
}

PrefixCacheStats Executor::prefix_cache_stats() const {
  const PrefixCache &prefixes = tables_.prefixes();
  return {.n_tokens_hit = prefixes.counters().n_tokens_hit,
          .n_blocks_evicted = prefixes.counters().n_blocks_evicted,
          .n_blocks_known = static_cast<uint32_t>(prefixes.n_nodes()),
          .n_tokens_idle = tables_.full().pool().n_idle() * block_size()};
}

HostTierStats Executor::host_tier_stats() const {
  const PrefixCache::Counters &counters = tables_.prefixes().counters();
  return {.n_blocks_saved = counters.n_blocks_saved,
          .n_blocks_restored = counters.n_blocks_restored,
          .n_blocks_dropped = counters.n_blocks_dropped,
          .size_bytes = tables_.prefixes().host_bytes()};
}

Expected<void> Executor::check(const StepPlan &plan) const {
  const auto n_vocab = static_cast<int32_t>(model_->hparams().n_vocab);
  if (plan.rows.empty()) return fail(ErrorCode::invalid_argument, "a step has no tokens");
  std::map<int32_t, std::vector<int32_t>> positions_of;
  for (const auto &row : plan.rows) {
    positions_of[row.place.seq_id].push_back(row.place.pos);
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
      if (!pool_.is_resident(worn.i_adapter)) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("adapter {} is not resident", worn.i_adapter));
      }
    }
  }
  for (auto &[seq_id, positions] : positions_of) {
    if (auto checked = check_places(seq_id, positions); !checked) return checked;
  }
  return {};
}

/// The rows of a sequence may stand in any order, but leave no gap behind what it holds.
Expected<void> Executor::check_places(int32_t seq_id, std::vector<int32_t> &positions) const {
  if (seq_id < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("there is no sequence {}", seq_id));
  std::ranges::sort(positions);
  auto expected = static_cast<int32_t>(n_tokens(seq_id));
  for (const int32_t pos : positions) {
    if (pos != expected++) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("position {} of sequence {} does not follow on its {} tokens", pos,
                              seq_id, n_tokens(seq_id)));
    }
  }
  return {};
}

Expected<KvTables::Reservation> Executor::reserve(const Prepared &step) {
  for (const auto &[seq_id, n_added, content] : step.extents) {
    if (n_added > n_ctx_ - n_tokens(seq_id)) {
      return fail(
          ErrorCode::context_overflow,
          fmt::format("sequence {} has {} tokens, and {} more do not fit into a context of {}",
                      seq_id, n_tokens(seq_id), n_added, n_ctx_));
    }
  }
  auto reservation = tables_.reserve(step.extents);
  if (!reservation) {
    return fail(ErrorCode::context_overflow,
                fmt::format("{} tokens need KV memory, and that of {} is free", step.tokens.size(),
                            n_free_tokens()));
  }
  return std::move(*reservation);
}

Expected<std::span<const float>> Executor::run(const StepPlan &plan) {
  if (auto checked = check(plan); !checked) return tl::unexpected(checked.error());
  const Prepared step(plan, pool_);
  auto reservation = reserve(step);
  if (!reservation) return tl::unexpected(reservation.error());
  kv_.copy(reservation->copies_full(), reservation->copies_window());
  if (auto computed = compute(step); !computed) return tl::unexpected(computed.error());
  reservation->commit();
  assert(check_invariants(kv_snapshot()).empty());
  const bool wanted = std::ranges::any_of(plan.rows, &StepRow::wants_logits);
  return wanted ? read_logits() : std::span<const float>{};
}

uint32_t Executor::adopt(int32_t seq_id, const ContentView &known) {
  const uint32_t n_whole = n_tokens(seq_id) - n_tokens(seq_id) % block_size();
  const PrefixContent content(known);
  tables_.prefixes().adopt(seq_id, content.slice(n_whole, content.n_tokens() - n_whole));
  assert(check_invariants(kv_snapshot()).empty());
  return n_tokens(seq_id);
}

GraphSizes Executor::sizes_of(const Prepared &step) const {
  // Paged attention looks into the tables: one graph serves growing sequences.
  const auto n_kv = [this](const BlockTables *tables) -> int64_t {
    if (tables == nullptr || attention_ == AttentionForm::paged) return 0;
    const uint32_t block_size = tables->block_size();
    return std::min(round_up(tables->pool().end() * block_size, k_kv_granularity),
                    tables->pool().n_blocks() * block_size);
  };
  return {.n_tokens = static_cast<int64_t>(step.tokens.size()),
          .n_outputs = static_cast<int64_t>(step.output_rows.size()),
          .n_kv = n_kv(&tables_.full()),
          .n_kv_swa = n_kv(tables_.window()),
          .n_hidden = static_cast<int64_t>(step.n_hidden)};
}

Expected<void> Executor::compute(const Prepared &step) try {
  const GraphKey key{.sizes = sizes_of(step), .lora = lora_shape(step.routing)};
  if ((graph_ == nullptr || !(key == key_)) && !build(key)) {
    return fail(ErrorCode::internal, "not enough memory for the step's intermediate results");
  }
  upload(step);
  const ggml_status status = threads_.compute(graph_->cgraph());
  if (status != GGML_STATUS_SUCCESS) {
    return fail(ErrorCode::internal,
                fmt::format("a step failed: {}", ggml_status_to_string(status)));
  }
  return {};
} catch (const LoadError &error) {  // of the adapters' stacks, which are made when first needed
  return fail(error.code(), error.what());
} catch (const std::bad_alloc &) {
  return fail(ErrorCode::out_of_memory, "not enough memory for a step");
}

/// Where they lie, since the allocator's memory is the CPU's: a vocabulary per sequence is worth no
/// copy.
std::span<const float> Executor::read_logits() const {
  return {static_cast<const float *>(outputs_.logits->data),
          static_cast<size_t>(ggml_nelements(outputs_.logits))};
}

std::span<const float> Executor::hidden() const {
  if (graph_ == nullptr || key_.sizes.n_hidden == 0) return {};
  const auto n_embd = static_cast<size_t>(outputs_.hidden->ne[0]);
  const auto *rows = static_cast<const float *>(outputs_.hidden->data);
  return {rows + n_embd * static_cast<size_t>(key_.sizes.n_logits()),
          n_embd * static_cast<size_t>(key_.sizes.n_hidden)};
}

LoraShape Executor::lora_shape(const Routing &routing) {
  if (routing.empty()) return {};
  if (fused_) return FusedLora::shape_of(pool_, routing);
  LoraShape shape = PortableLora::shape_of(pool_.stacks(), routing);
  shape.version = pool_.version();
  return shape;
}

std::unique_ptr<LoraStep> Executor::make_lora_step(const GraphKey &key) {
  if (!key.lora.any()) return nullptr;
  if (fused_) return std::make_unique<FusedLora>(pool_, key.lora);
  return std::make_unique<PortableLora>(
      pool_.stacks(), key.lora,
      std::array{key.sizes.n_tokens, key.sizes.n_outputs, key.sizes.n_logits()});
}

bool Executor::build(const GraphKey &key) {
  graph_.reset();
  auto graph = std::make_unique<Graph>(model_->hparams(), kv_, key.sizes, make_lora_step(key));
  outputs_ = build_decoder(*graph, *model_->family, model_->weights);
  // Without reserving anew the allocator would keep the last plan for any graph whose nodes have
  // the same sizes, however they are connected.
  const bool fits = ggml_gallocr_reserve(allocator_.get(), graph->cgraph()) &&
                    ggml_gallocr_alloc_graph(allocator_.get(), graph->cgraph());
  // After a failure it holds a plan without memory.
  if (!fits) allocator_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  key_ = key;
  ++n_graphs_built_;
  graph_ = fits ? std::move(graph) : nullptr;
  return fits;
}

void Executor::upload(const Prepared &step) {
  const GraphInputs &inputs = graph_->inputs();
  set(inputs.tokens, step.tokens);
  set(inputs.positions, step.positions);
  set(inputs.output_rows, step.output_rows);
  upload(step, tables_.full(), 0, inputs.full);
  if (tables_.window() != nullptr) upload(step, *tables_.window(), tables_.n_swa(), inputs.window);
  if (graph_->lora() == nullptr) return;
  const std::span<const int32_t> outputs = step.output_rows;
  graph_->lora()->upload(step.routing, {outputs, outputs.first(outputs.size() - step.n_hidden)},
                         step.tokens);
}

void Executor::upload(const Prepared &step, const BlockTables &tables, uint32_t n_swa,
                      const CellInputs &inputs) {
  set(inputs.cells, rows_written(kv_.layout(), model_->hparams().n_head_kv, tables, step.places));
  if (inputs.paged != nullptr) {
    inputs.paged->set(tables, step.places, n_threads_);
    return;
  }
  std::vector<ggml_fp16_t> mask(static_cast<size_t>(ggml_nelements(inputs.mask)));
  fill_mask(tables, static_cast<uint32_t>(inputs.mask->ne[0]), step.places, n_swa, mask);
  set(inputs.mask, mask);
}

}  // namespace patchbay
