#pragma once

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lora/adapter_registry.h"
#include "patchbay/engine.hpp"
#include "server/active_requests.h"
#include "server/adapter_files.h"
#include "server/adapter_loader.h"
#include "server/auth.h"
#include "server/change_clock.h"
#include "server/http_counts.h"
#include "server/sampling_fields.h"
#include "server/served_chat.h"
#include "server/slot_files.h"
#include "server/slot_memory.h"
#include "server/traffic.h"

namespace patchbay {

/// What all routes share. The members take care of their own threads.
struct Service {
  std::shared_ptr<const Model> model;
  Engine &engine;
  std::string model_id;    ///< by which requests call the base
  std::string model_path;  ///< as shown
  std::vector<std::string> tags{};
  std::set<std::string> hidden{};  ///< adapters that the model list leaves out
  AdapterFiles files;
  KeyRing keys;
  ServedChat chat{};
  AdapterRegistry registry{};
  Histogram load_seconds{k_waiting_bounds};  ///< of adapters, from files
  AdapterLoader loader{*model, registry, files, load_seconds};
  uint32_t n_seqs_max = 0;
  size_t adapter_memory_bytes = 0;
  size_t longest_piece = 4;  ///< bytes of text per token at most
  std::time_t started_at = 0;
  SamplingDefaults defaults{};
  Pooling pooling = Pooling::mean;  ///< of embeddings
  int embd_normalize = 2;           ///< see normalise()
  bool has_metrics = true;
  bool has_slots = true;
  std::chrono::milliseconds stream_ping{15000};  ///< how long a stream may be silent
  bool log_prompts = false;
  TrafficCounters traffic{};
  ActiveRequests active{n_seqs_max};
  std::filesystem::path slot_save_path{};  ///< folder; empty: slots are not saved
  SlotFiles slot_files{engine, slot_save_path};
  SlotMemory slot_memory{n_seqs_max};
  HttpCounts http_counts{};
  ChangeClock lora_changes{};             ///< of lora_lists()
  std::atomic<bool> is_draining = false;  ///< no new work; what runs goes on
};

}  // namespace patchbay
