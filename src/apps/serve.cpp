#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "apps/chat_model.h"
#include "apps/commands.h"
#include "apps/model_files.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/loaded_model.h"
#include "lora/adapter.h"
#include "server/embedding_run.h"
#include "server/exchange_log.h"
#include "server/http_server.h"
#include "server/prompt_fields.h"
#include "server/routes.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

/// SIGTERM, SIGINT and SIGHUP as something to wait for. Made before any other thread, which then
/// leaves them alone.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);  // the terminal is gone: as good a reason to end well
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
    if (fd_ < 0) throw LoadError({.problem = "signals cannot be waited for"});
    signal(SIGPIPE, SIG_IGN);
  }
  ~EndSignals() { close(fd_); }
  EndSignals(const EndSignals &) = delete;
  EndSignals &operator=(const EndSignals &) = delete;

  /// Whether one came within the time; a negative time has no end.
  [[nodiscard]] bool wait(int limit_ms) const {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, limit_ms) <= 0) return false;
    signalfd_siginfo info{};
    return read(fd_, &info, sizeof info) == sizeof info;
  }

 private:
  int fd_ = -1;
};

std::string model_id_of(const ServeArguments &arguments, const std::string &path) {
  return arguments.alias.empty() ? std::filesystem::path(path).stem().string() : arguments.alias;
}

KeyRing read_keys(const ServeArguments &arguments) {
  KeyRing keys;
  for (const auto &key : arguments.api_keys) keys.add_admin(key);
  for (const auto &path : arguments.api_key_files) keys.add_file(path);
  return keys;
}

EngineOptions engine_options_of(const ServeArguments &arguments, const Model &model) {
  EngineOptions options = arguments.model.engine;
  if (arguments.n_ctx)
    options.n_ctx = *arguments.n_ctx == 0 ? model.n_ctx_train() : *arguments.n_ctx;
  if (arguments.n_batch > 0) options.n_ubatch = std::min(options.n_ubatch, arguments.n_batch);
  // A step has a row for each of them.
  options.n_seqs_max = std::min(options.n_seqs_max, options.n_ubatch);
  return options;
}

void set_up_log(const ServeArguments &arguments) {
  set_log_format(arguments.log_format);
  if (log().level() > spdlog::level::info && !arguments.log_disable)
    log().set_level(spdlog::level::info);
  for (const auto &warning : arguments.warnings) log().warn("{}", warning);
}

/// The adapters of the command line are the default set, unless they are only to be known.
void register_adapters(const ServeArguments &arguments, const std::vector<LoraItem> &loras,
                       Service &service) {
  std::vector<DefaultAdapter> defaults;
  for (const auto &item : loras) {
    const auto added = service.loader.load_now({.name = item.name, .path = item.path});
    if (!added) {
      if (!arguments.skip_bad_adapters)
        throw LoadError({.problem = added.error().message, .code = added.error().code});
      log().warn("the adapter '{}' is left out: {}", item.name, added.error().message);
      continue;
    }
    if (arguments.apply_adapters) defaults.push_back({added->id, item.strength});
  }
  (void)service.registry.set_defaults(defaults);
}

/// Until nobody is being answered any more, the time is over or another signal comes.
void drain(const ServeArguments &arguments, Service &service, HttpServer &server,
           const EndSignals &signals) {
  service.is_draining = true;
  server.stop_keeping_alive();
  fmt::print(stderr, "patchbay: finishing {} request(s), another signal ends at once\n",
             server.n_exchanges());
  const auto deadline = Clock::now() + std::chrono::seconds(arguments.drain_s);
  constexpr int k_look_ms = 20;
  while (server.n_exchanges() > 0 && Clock::now() < deadline) {
    if (signals.wait(k_look_ms)) return;
  }
}

}  // namespace

int serve(const ServeArguments &arguments) {
  const EndSignals signals;
  set_up_log(arguments);
  const std::string &wanted = arguments.model.model;
  const std::string path = wanted.empty() ? default_model() : wanted;
  const std::string model_id = model_id_of(arguments, path);
  std::vector<LoraItem> loras = arguments.model.loras;
  name_loras(loras, model_id);
  const auto model = open_model(arguments.model);
  const EngineOptions options = engine_options_of(arguments, *model);
  SamplingDefaults defaults = arguments.defaults;
  defaults.n_choices_max = options.n_seqs_max;
  Engine engine(model, options);
  Service service{.model = model,
                  .engine = engine,
                  .model_id = model_id,
                  .model_path = path,
                  .tags = arguments.tags,
                  .hidden = {arguments.hidden_adapters.begin(), arguments.hidden_adapters.end()},
                  .files = AdapterFiles({arguments.lora_dirs.begin(), arguments.lora_dirs.end()}),
                  .keys = read_keys(arguments),
                  .chat = open_chat(arguments.chat, *model->loaded()),
                  .n_seqs_max = options.n_seqs_max,
                  .adapter_memory_bytes = options.adapter_memory_bytes,
                  .longest_piece = longest_piece_of(*model->loaded()),
                  .started_at = std::time(nullptr),
                  .defaults = defaults,
                  .pooling = arguments.pooling.value_or(pooling_of(*model->loaded())),
                  .embd_normalize = arguments.embd_normalize,
                  .has_metrics = arguments.metrics,
                  .has_slots = arguments.slots,
                  .stream_ping = std::chrono::seconds(arguments.sse_ping_s),
                  .log_prompts = arguments.log_prompts,
                  .slot_save_path = arguments.slot_save_path};
  register_adapters(arguments, loras, service);
  Router router(service.keys, service.is_draining, CorsRules(arguments.http.cors_origins));
  add_all_routes(router, service);
  HttpServer server(
      arguments.http, [&router](const HttpRequest &head) { return router.refuse_unread(head); },
      [&router](Exchange &exchange) { return router.handle(exchange); },
      [&service, format = arguments.log_format](const Exchange &exchange, auto took) {
        note_exchange(service, format, exchange, took);
      });
  fmt::print("patchbay: '{}' on {}://{}:{}\n", service.model_id,
             arguments.http.tls_cert_file.empty() ? "http" : "https", arguments.http.host,
             server.port());
  std::fflush(stdout);
  while (!signals.wait(-1)) {
  }
  drain(arguments, service, server, signals);
  return 0;
}

}  // namespace patchbay
