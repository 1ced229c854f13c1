#pragma once

#include <atomic>
#include <ctime>
#include <memory>
#include <string>

#include "lora/adapter_registry.h"
#include "patchbay/engine.hpp"
#include "server/adapter_files.h"
#include "server/adapter_loader.h"
#include "server/auth.h"
#include "server/served_chat.h"

namespace patchbay {

/// What all routes share. The members take care of their own threads.
struct Service {
  std::shared_ptr<const Model> model;
  Engine &engine;
  std::string model_id;    ///< by which requests call the base
  std::string model_path;  ///< as shown
  AdapterFiles files;
  KeyRing keys;
  ServedChat chat{};
  AdapterRegistry registry{};
  AdapterLoader loader{*model, registry, files};
  uint32_t n_seqs_max = 0;
  std::time_t started_at = 0;
  std::atomic<bool> is_draining = false;  ///< no new work; what runs goes on
};

}  // namespace patchbay
