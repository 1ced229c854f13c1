#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "patchbay/model.hpp"
#include "patchbay/request.hpp"

namespace patchbay {

enum class CacheType {
  f16,
  f32,
  q8_0,  ///< about half of f16's memory; heads of a multiple of 32 only
};

/// How low-rank steps are computed. Both forms give the same answers up to rounding.
enum class LoraForm {
  automatic,  ///< the fastest that the backend can do: fused on a CPU
  portable,   ///< out of standard ggml operations; the reference
  fused,      ///< by own kernels, CPU only
};

struct EngineOptions {
  uint32_t n_ctx = 0;          ///< tokens that the KV cache holds for all sequences; 0: the model's
                               ///< context, at most 4096
  size_t kv_memory_bytes = 0;  ///< in place of n_ctx: the most memory that the KV cache may take
  uint32_t n_ubatch = 256;     ///< tokens per step at most
  /// Part of n_ubatch that prompts may take in a step in which other sequences decode, in (0, 1]:
  /// bounds how long a long prompt keeps others waiting for their next token.
  float prefill_share = 0.5F;
  uint32_t n_seqs_max = 64;  ///< answers in the making at once
  /// Requests that wait. More are refused; but one of a tenant that has less than its even part of
  /// them takes the place of the last one of the tenant that has most, which ends with queue_full.
  uint32_t n_queue_max = 256;
  /// Adapters that no request wears stay in memory up to this size, the last used ones; those that
  /// are worn stay whatever their size.
  size_t adapter_memory_bytes = size_t{1} << 30U;
  uint32_t n_threads = 0;  ///< of computation; 0: one per core
  CacheType cache_type = CacheType::f16;
  /// Computed tokens stay in the KV cache until their memory is needed, and serve later requests of
  /// the same tenant that begin with the same tokens wearing the same.
  bool prefix_cache = true;
  /// Memory beside the KV cache, in bytes, for computed tokens that have to leave it: when a
  /// request begins with them they come back, bit for bit, instead of being computed again. 0: they
  /// are forgotten.
  size_t cache_memory_bytes = 0;
  LoraForm lora_form = LoraForm::automatic;
  /// Shares of tenants by name, from 0.001 to 1000: while several have requests waiting, they are
  /// served in these proportions. Who is not named has 1.
  std::map<std::string, double> tenant_weights{};
  /// After every so many milliseconds of waiting a request counts as one priority higher, up to the
  /// highest that waits, so that lower ones are served in the end; 0: never.
  uint32_t aging_ms = 10'000;
};

/// What was done for one tenant, or for the requests that wear one adapter. Sums are over those
/// that have been admitted, or have ended, so far.
struct ServiceStats {
  uint32_t n_queued = 0;   ///< requests, and answers that gave their memory up
  uint32_t n_running = 0;  ///< answers in the making
  uint64_t n_requests_done = 0;
  uint64_t n_requests_failed = 0;   ///< cancelled ones not included
  uint64_t n_requests_expired = 0;  ///< of the failed ones, those past their deadline
  uint64_t n_requests_cancelled = 0;
  uint64_t n_preemptions = 0;
  uint64_t n_tokens_prompt = 0;    ///< of admitted requests
  uint64_t n_tokens_cached = 0;    ///< of these, not computed
  uint64_t n_tokens_computed = 0;  ///< of prompts and answers; after a preemption once more
  uint64_t n_tokens_out = 0;
  double cost = 0;            ///< charged: a token of a prompt that wears nothing costs 1
  double queue_ms = 0;        ///< waited until admission, summed over admitted requests
  double queue_worst_ms = 0;  ///< the longest of these
};

struct TenantStats : ServiceStats {
  double weight = 1;
  /// What admission compares: the least of those that wait is next. Counts from where the others
  /// were when the tenant last came.
  double virtual_counter = 0;
};

struct AdapterStats : ServiceStats {
  std::string name{};  ///< of one adapter of this content
};

/// Where the time of all steps went, summed.
struct StepTimes {
  /// Steps are counted by length: class 0 up to 0.125 ms, each other class up to twice as much as
  /// the one before, the last whatever is longer.
  static constexpr size_t k_n_classes = 18;
  static constexpr double k_first_class_ms = 0.125;

  double admit_ms = 0;    ///< ending what is to end, admitting
  double plan_ms = 0;     ///< which tokens of which sequences
  double compute_ms = 0;  ///< from the plan to logits
  double sample_ms = 0;   ///< drawing tokens and telling them
  std::array<uint64_t, k_n_classes> n_steps_by_length{};
};

/// How many adapter sets steps served at once, each set worn by some of the step's tokens.
struct StepSets {
  /// Upper bounds of the classes that steps are counted in; one more class: the rest.
  static constexpr std::array<uint32_t, 9> k_bounds{0, 1, 2, 3, 4, 8, 16, 32, 64};

  std::array<uint64_t, k_bounds.size() + 1> n_steps{};  ///< by class
  uint64_t n_sets = 0;                                  ///< summed over all steps
};

/// What the prefix cache holds and has done, see EngineOptions::prefix_cache.
struct PrefixCacheStats {
  uint64_t n_tokens_hit = 0;      ///< of sequences, that were not computed; see also tenants
  uint64_t n_blocks_evicted = 0;  ///< whose memory others needed
  uint32_t n_blocks_known = 0;    ///< whose contents are known, in use or not
  uint32_t n_tokens_idle = 0;     ///< in whole blocks that no sequence holds
};

/// What moved between the KV cache and the memory beside it, see EngineOptions::cache_memory_bytes.
/// Layers that see everything and sliding-window layers have blocks of their own.
struct HostTierStats {
  uint64_t n_blocks_saved = 0;
  uint64_t n_blocks_restored = 0;  ///< of these
  uint64_t n_blocks_dropped = 0;   ///< of these, without having been restored
  size_t size_bytes = 0;           ///< of those that are there
};

/// Which adapters are in the memory that steps read, and what it took to bring them there.
struct ResidencyStats {
  std::set<std::string> resident{};  ///< keys as in EngineStats::adapters
  uint64_t n_loaded = 0;             ///< times that one was brought there
  uint64_t n_evicted = 0;            ///< of these, and gave its memory up
  double load_ms = 0;                ///< packing included
};

/// Numbers of one moment, for metrics and tests.
struct EngineStats {
  uint32_t n_queued = 0;          ///< requests, and answers that gave their memory up
  uint32_t n_running = 0;         ///< answers in the making
  uint32_t n_kv_tokens = 0;       ///< capacity of the KV cache
  uint32_t n_block_tokens = 0;    ///< per block of it
  uint32_t n_kv_tokens_used = 0;  ///< in whole blocks
  uint32_t n_adapters = 0;        ///< resident
  size_t adapter_bytes = 0;
  ResidencyStats residency{};
  PrefixCacheStats prefix_cache{};
  HostTierStats host_tier{};
  uint64_t n_steps = 0;
  uint64_t n_answers_in_steps = 0;  ///< answers in the making, summed over steps
  uint64_t n_graphs_built = 0;      ///< steps that could not run the graph of an earlier one
  uint64_t n_tokens_computed = 0;
  uint64_t n_tokens_out = 0;
  uint64_t n_preemptions = 0;
  uint64_t n_requests_done = 0;
  uint64_t n_requests_failed = 0;  ///< cancelled ones not included
  uint64_t n_requests_cancelled = 0;
  double step_ms = 0;  ///< of the last step, without admission
  StepTimes step_times{};
  StepSets step_sets{};
  /// By name; and by the first 16 hexadecimal digits of the adapter's digest, "base" for requests
  /// that wear none. A request that wears several counts for each. Of those without open requests
  /// the last active 1024 are kept: a name that comes back after that counts from 0.
  std::map<std::string, TenantStats> tenants{};
  std::map<std::string, AdapterStats> adapters{};
};

/// Tokens, what they wear, and on whose behalf: what the prefix cache knows computed blocks by.
struct SessionTokens {
  std::vector<int32_t> tokens{};
  std::vector<RequestSpan> spans{};  ///< as in a Request
  std::string tenant{};
};

struct SavedSession {
  uint32_t n_tokens = 0;  ///< from the beginning on, that the prefix cache held
  size_t size_bytes = 0;  ///< of the file
};

struct RestoreOptions {
  std::string tenant{};  ///< whose requests may begin with the session; a file names none
  /// Those that the caller serves, of any number. One of the same name as an adapter that tokens of
  /// the file wear must have the same content. None: the file's digests decide alone what a request
  /// has to wear to go on from it.
  std::vector<std::shared_ptr<const Adapter>> adapters{};
};

struct RestoredSession {
  uint32_t n_tokens = 0;      ///< from the beginning on, that the prefix cache holds now
  uint32_t n_tokens_all = 0;  ///< in the file
  size_t size_bytes = 0;      ///< of the file
};

class EventQueue;
class Inbox;

/// The caller's end of a request. When it goes, the request is cancelled. One thread at a time;
/// only cancel() may be called beside another thread's next(). One that was moved from has no
/// events.
class RequestHandle {
 public:
  RequestHandle(std::shared_ptr<EventQueue> events, std::shared_ptr<Inbox> inbox);
  RequestHandle(RequestHandle &&) noexcept;
  RequestHandle &operator=(RequestHandle &&) noexcept;
  ~RequestHandle();

  /// Waits for the next event; none after the RequestEnd.
  [[nodiscard]] std::optional<Event> next();
  /// The next event if it is there already.
  [[nodiscard]] std::optional<Event> try_next();
  /// Ends the request: its memory is free within one step. Events end with a RequestEnd of code
  /// cancelled, unless it was done already.
  void cancel();

 private:
  std::shared_ptr<EventQueue> events_;
  std::shared_ptr<Inbox> inbox_;
};

/// Generates for many requests at once over one model, each token wearing its own adapters. One
/// thread of the engine's own computes; every function may be called from any thread.
class Engine {
 public:
  /// Throws LoadError (memory cannot be had) and std::invalid_argument (options out of range).
  explicit Engine(const std::shared_ptr<const Model> &model, const EngineOptions &options = {});
  /// Ends all requests with code cancelled.
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  /// Checks a request and queues it. Refused at once: invalid_argument (what is wrong with it),
  /// context_overflow (the prompt is longer than the context), queue_full, unavailable (the engine
  /// is shutting down). Adapters of another model end it later with invalid_argument.
  [[nodiscard]] std::variant<RequestHandle, Error> submit(Request request);

  /// Writes what the prefix cache holds of these tokens to a file (docs/sessions.md), which only
  /// its owner may read; one that is there is replaced when the new one is whole. Refused:
  /// invalid_argument (tokens or spans, or the file cannot be written), not_found (nothing of them
  /// is there, or the folder is not), out_of_memory (for a copy of the blocks), unavailable (the
  /// engine is shutting down). Waits for the step that is being computed.
  [[nodiscard]] std::variant<SavedSession, Error> save_session(const std::filesystem::path &path,
                                                               const SessionTokens &tokens);

  /// Puts a saved session into the prefix cache: all of it, or as much of its beginning as fits
  /// into memory that no answer in the making uses. A request of the tenant that begins with its
  /// tokens, wearing the same, goes on from there. Refused, and nothing changes: not_found (no such
  /// file), invalid_argument (damaged; of another model, cache type or shape of the cache; worn by
  /// an adapter of other content; the prefix cache is off), out_of_memory, unavailable. Waits for
  /// the step that is being computed.
  [[nodiscard]] std::variant<RestoredSession, Error> restore_session(
      const std::filesystem::path &path, const RestoreOptions &options = {});

  [[nodiscard]] EngineStats stats() const;
  /// Tokens that one sequence may have at most, prompt included.
  [[nodiscard]] uint32_t n_ctx() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace patchbay
