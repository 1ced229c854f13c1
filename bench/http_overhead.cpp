// What HTTP costs: the same streams through an engine in this process and through a running
// `patchbay serve`, in turns. bench/http_overhead.py starts that server and says what came out.
//
//   http_overhead MODEL PORT SERVER_PROCESS_ID THREADS ROUNDS N_TOKENS N_STREAMS ADAPTER...
//
// Stream i wears adapter i modulo their number, which the server knows as a0, a1, ... Prints a JSON
// object per round: milliseconds from asking to the first text, milliseconds per later token,
// microseconds of computing time per token (server or engine), each a mean over the streams.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "patchbay/engine.hpp"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr uint32_t k_n_prompt = 16;

struct Work {
  uint32_t n_streams = 8;
  uint32_t n_tokens = 64;
  uint32_t n_vocab = 0;
  std::vector<std::shared_ptr<const Adapter>> adapters;
  uint16_t port = 0;
};

std::vector<int32_t> prompt_of(const Work &work, uint32_t i_stream) {
  std::vector<int32_t> tokens(k_n_prompt);
  for (uint32_t i = 0; i < k_n_prompt; ++i)
    tokens[i] = static_cast<int32_t>((i_stream * 7919U + i * 31U + 100) % work.n_vocab);
  return tokens;
}

/// When what came of one stream.
struct Times {
  Clock::time_point asked;
  Clock::time_point first;  ///< text
  Clock::time_point last;
};

struct Figures {
  double first_ms = 0;
  double token_ms = 0;
  double cpu_us = 0;
};

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Figures figures_of(const Work &work, const std::vector<Times> &times, double cpu_s) {
  Figures figures{.cpu_us = cpu_s * 1e6 / (work.n_streams * work.n_tokens)};
  for (const auto &one : times) {
    figures.first_ms += ms_between(one.asked, one.first) / work.n_streams;
    figures.token_ms += ms_between(one.first, one.last) / (work.n_tokens - 1) / work.n_streams;
  }
  return figures;
}

/// Computing time of all threads of a process that are alive; clock ticks would be too coarse.
double cpu_seconds(const std::string &process) {
  double ns = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/" + process + "/task")) {
    double task_ns = 0;
    std::ifstream(task.path() / "schedstat") >> task_ns;
    ns += task_ns;
  }
  return ns / 1e9;
}

// The engine alone.

RequestHandle submit(Engine &engine, const Work &work, uint32_t i_stream) {
  Request request{.prompt = prompt_of(work, i_stream),
                  .n_predict = static_cast<int32_t>(work.n_tokens),
                  .ignore_eos = true};
  request.sampling.temperature = 0;
  if (!work.adapters.empty()) {
    request.spans = {
        {.first = 0, .adapters = {{work.adapters[i_stream % work.adapters.size()], 1.0F}}}};
  }
  auto submitted = engine.submit(std::move(request));
  if (const auto *error = std::get_if<Error>(&submitted)) throw std::runtime_error(error->message);
  return std::get<RequestHandle>(std::move(submitted));
}

/// Takes the stream's events up to the end of one with text; false: it has ended.
bool take_text(RequestHandle &handle, Times &times) {
  while (auto event = handle.next()) {
    if (const auto *end = std::get_if<RequestEnd>(&*event)) {
      if (end->error) throw std::runtime_error(end->error->message);
      times.last = Clock::now();
      return false;
    }
    const auto *token = std::get_if<TokenEvent>(&*event);
    if (token == nullptr || token->text.empty()) continue;
    if (times.first == Clock::time_point{}) times.first = Clock::now();
    return true;
  }
  return false;
}

Figures ask_engine(Engine &engine, const Work &work) {
  const double cpu_before = cpu_seconds("self");
  std::vector<Times> times(work.n_streams);
  std::vector<RequestHandle> handles;
  for (uint32_t i = 0; i < work.n_streams; ++i) {
    times[i].asked = Clock::now();
    handles.push_back(submit(engine, work, i));
  }
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    for (uint32_t i = 0; i < work.n_streams; ++i) {
      if (times[i].last == Clock::time_point{}) goes_on |= take_text(handles[i], times[i]);
    }
  }
  return figures_of(work, times, cpu_seconds("self") - cpu_before);
}

// The server.

class Connection {
 public:
  explicit Connection(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
      throw std::runtime_error("nobody listens at the port");
  }
  ~Connection() { close(fd_); }
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), 0);
      if (n <= 0) throw std::runtime_error("the server takes no request");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  /// Reads what has come and looks at it as briefly as can be, as the machine is the engine's too.
  void receive(Times &times) {
    const size_t n_before = text_.size();
    std::array<char, 16384> bytes{};
    const ssize_t n = recv(fd_, bytes.data(), bytes.size(), 0);
    if (n <= 0) throw std::runtime_error("a stream broke off after: " + text_);
    const auto now = Clock::now();
    text_.append(bytes.data(), static_cast<size_t>(n));
    constexpr std::string_view k_end = "data: [DONE]";
    const size_t from = n_before > k_end.size() ? n_before - k_end.size() : 0;
    if (times.first == Clock::time_point{} && text_.find("data: ") != std::string::npos)
      times.first = now;
    if (text_.find(k_end, from) != std::string::npos) times.last = now;
  }

  [[nodiscard]] const std::string &text() const { return text_; }

 private:
  int fd_;
  std::string text_;
};

std::string request_of(const Work &work, uint32_t i_stream) {
  Json body{{"prompt", prompt_of(work, i_stream)},
            {"max_tokens", work.n_tokens},
            {"temperature", 0},
            {"ignore_eos", true},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}}};
  if (!work.adapters.empty()) body["model"] = fmt::format("a{}", i_stream % work.adapters.size());
  const std::string text = body.dump();
  return fmt::format("POST /v1/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", text.size(),
                     text);
}

Figures ask_server(const Work &work, const std::string &process) {
  const double cpu_before = cpu_seconds(process);
  std::vector<Times> times(work.n_streams);
  std::vector<std::string> requests;
  for (uint32_t i = 0; i < work.n_streams; ++i) requests.push_back(request_of(work, i));
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> waiting;
  for (uint32_t i = 0; i < work.n_streams; ++i) {
    times[i].asked = Clock::now();
    connections.push_back(std::make_unique<Connection>(work.port));
    connections.back()->send_all(requests[i]);
    waiting.push_back({.fd = connections.back()->fd(), .events = POLLIN, .revents = 0});
  }
  uint32_t n_open = work.n_streams;
  while (n_open > 0) {
    if (poll(waiting.data(), waiting.size(), 600'000) <= 0)
      throw std::runtime_error("nothing comes from the server");
    for (uint32_t i = 0; i < work.n_streams; ++i) {
      if ((waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      connections[i]->receive(times[i]);
      if (times[i].last == Clock::time_point{}) continue;
      waiting[i].fd = -1;
      --n_open;
    }
  }
  // A server that did less than it was asked would look fast.
  const std::string wanted = fmt::format("\"completion_tokens\":{},", work.n_tokens);
  for (const auto &connection : connections) {
    if (connection->text().find(wanted) == std::string::npos)
      throw std::runtime_error("the server did not do all: " + connection->text());
  }
  return figures_of(work, times, cpu_seconds(process) - cpu_before);
}

Json json_of(const Figures &figures) {
  return {
      {"first_ms", figures.first_ms}, {"token_ms", figures.token_ms}, {"cpu_us", figures.cpu_us}};
}

void compare(Engine &engine, const Work &work, const std::string &process, uint32_t n_rounds) {
  (void)ask_engine(engine, work);
  (void)ask_server(work, process);
  for (uint32_t i = 0; i < n_rounds; ++i) {
    Json round;
    // Whoever comes second may find the machine in another state.
    for (const bool is_engine : {i % 2 == 0, i % 2 != 0}) {
      round[is_engine ? "engine" : "server"] =
          json_of(is_engine ? ask_engine(engine, work) : ask_server(work, process));
    }
    fmt::print("{}\n", round.dump());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) try {
  using patchbay::Engine;
  using patchbay::Model;
  constexpr int k_n_fixed = 8;
  if (argc < k_n_fixed) {
    fmt::print(
        stderr,
        "usage: http_overhead MODEL PORT SERVER_PROCESS_ID THREADS ROUNDS N_TOKENS N_STREAMS "
        "ADAPTER...\n");
    return 2;
  }
  const auto number = [&](int i) { return static_cast<uint32_t>(std::atoi(argv[i])); };
  const auto model = Model::load(argv[1]);
  patchbay::Work work{.n_streams = number(7),
                      .n_tokens = number(6),
                      .n_vocab = model->n_vocab(),
                      .adapters = {},
                      .port = static_cast<uint16_t>(number(2))};
  for (int i = k_n_fixed; i < argc; ++i) work.adapters.push_back(model->load_adapter(argv[i]));
  Engine engine(model,
                {.n_seqs_max = work.n_streams, .n_threads = number(4), .prefix_cache = false});
  patchbay::compare(engine, work, argv[3], number(5));
  return 0;
} catch (const std::exception &error) {
  fmt::print(stderr, "http_overhead: {}\n", error.what());
  return 1;
}
