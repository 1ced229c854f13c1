#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

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
#include "server/http_server.h"
#include "server/routes.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

/// SIGTERM and SIGINT as something to wait for. Made before any other thread, which then leaves
/// them alone.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
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

/// The adapters of the command line are the default set, unless they are only to be known.
void register_adapters(const ServeArguments &arguments, Service &service) {
  std::vector<DefaultAdapter> defaults;
  auto entries = open_named_adapters(*service.model, arguments.model.loras);
  for (size_t i = 0; i < entries.size(); ++i) {
    const LoraItem &item = arguments.model.loras[i];
    const auto added = service.registry.add(std::move(entries[i]));
    if (!added) throw LoadError({.path = item.path, .problem = added.error().message});
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
  const auto model = open_model(arguments.model);
  const std::string &path = model->loaded()->info.path;
  Engine engine(model, arguments.model.engine);
  Service service{.model = model,
                  .engine = engine,
                  .model_id = model_id_of(arguments, path),
                  .model_path = path,
                  .files = AdapterFiles({arguments.lora_dirs.begin(), arguments.lora_dirs.end()}),
                  .keys = read_keys(arguments),
                  .chat = open_chat(arguments.chat, *model->loaded()),
                  .n_seqs_max = arguments.model.engine.n_seqs_max,
                  .started_at = std::time(nullptr)};
  register_adapters(arguments, service);
  Router router(service.keys, service.is_draining);
  add_all_routes(router, service);
  HttpServer server(arguments.http,
                    [&router](Exchange &exchange) { return router.handle(exchange); });
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
