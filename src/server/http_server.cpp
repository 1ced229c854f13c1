#include "server/http_server.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "server/api_error.h"

namespace patchbay {
namespace {

using asio::ip::tcp;
using std::chrono::steady_clock;

constexpr auto k_token = asio::as_tuple(asio::use_awaitable);

/// Counts one more while it lives.
class Count {
 public:
  explicit Count(std::atomic<uint32_t> &count) : count_(count) { ++count_; }
  ~Count() { --count_; }
  Count(const Count &) = delete;
  Count &operator=(const Count &) = delete;

 private:
  std::atomic<uint32_t> &count_;
};

asio::ssl::context make_tls(const HttpOptions &options) {
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
  const auto use = [](const std::string &path, const char *what, const auto &load) {
    try {
      load();
    } catch (const boost::system::system_error &error) {
      throw LoadError(
          {.path = path,
           .problem = fmt::format("cannot be used as {}: {}", what, error.code().message())});
    }
  };
  use(options.tls_cert_file, "a TLS certificate",
      [&] { context.use_certificate_chain_file(options.tls_cert_file); });
  use(options.tls_key_file, "the certificate's private key",
      [&] { context.use_private_key_file(options.tls_key_file, asio::ssl::context::pem); });
  return context;
}

/// The one that the peer sent, for its own logs, if it can stand in a line of ours; else a new one.
std::string request_id_of(const HttpRequest &request, uint64_t n_requests) {
  constexpr size_t k_longest = 128;
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  };
  const auto given = request.header("X-Request-Id").value_or("");
  if (!given.empty() && given.size() <= k_longest && std::ranges::all_of(given, is_plain))
    return std::string(given);
  static const uint32_t process = std::random_device{}();  // ids of two runs differ
  return fmt::format("req-{:08x}-{}", process, n_requests);
}

}  // namespace

HttpServer::HttpServer(const HttpOptions &options, HttpGate gate, HttpHandler handler,
                       HttpObserver observer)
    : options_(options),
      gate_(std::move(gate)),
      handler_(std::move(handler)),
      observer_(std::move(observer)),
      acceptor_(context_) {
  if (!options_.tls_cert_file.empty()) tls_.emplace(make_tls(options_));
  listen();
  asio::co_spawn(context_, accept(), asio::detached);
  for (uint32_t i = 0; i < std::max(1U, options_.n_threads); ++i)
    threads_.emplace_back([this] { context_.run(); });
}

HttpServer::~HttpServer() {
  context_.stop();
  for (auto &thread : threads_) thread.join();
}

uint16_t HttpServer::port() const { return acceptor_.local_endpoint().port(); }

void HttpServer::listen() try {
  tcp::resolver resolver(context_);
  const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(asio::socket_base::max_listen_connections);
} catch (const boost::system::system_error &error) {
  throw LoadError({.path = fmt::format("{}:{}", options_.host, options_.port),
                   .problem = fmt::format("cannot be listened on: {}", error.code().message()),
                   .hint = "another program may use the port: see --port"});
}

asio::awaitable<void> HttpServer::accept() {
  while (true) {
    auto strand = asio::make_strand(context_);
    auto result = co_await acceptor_.async_accept(strand, k_token);
    if (!std::get<0>(result)) {
      asio::co_spawn(strand, serve(std::move(std::get<1>(result))), asio::detached);
      continue;
    }
    // Out of descriptors, most likely: others have to end first.
    log().warn("a connection cannot be accepted: {}", std::get<0>(result).message());
    asio::steady_timer pause(context_, std::chrono::milliseconds(100));
    (void)co_await pause.async_wait(k_token);
  }
}

asio::awaitable<void> HttpServer::serve(tcp::socket socket) {
  const Count count(n_connections_);
  const std::shared_ptr<ByteStream> stream =
      tls_ ? make_tls_stream(std::move(socket), *tls_) : make_plain_stream(std::move(socket));
  try {
    const bool spoken = co_await stream->handshake(options_.limits.header);
    if (!spoken) co_return;
    if (n_connections_ > options_.n_connections_max) {
      co_await turn_away(stream);
    } else {
      co_await serve_requests(stream);
    }
    co_await stream->shut_down();
  } catch (const std::exception &error) {
    log().error("a connection is given up: {}", error.what());
  }
}

asio::awaitable<void> HttpServer::turn_away(std::shared_ptr<ByteStream> stream) {
  Exchange::Wire wire;
  wire.keep_alive = false;
  wire.write_limit = options_.limits.write;
  HttpRequest unread;
  Exchange exchange(stream, std::move(unread), wire);
  ApiError error;
  error.error = Error{ErrorCode::unavailable, "too many connections"};
  HttpResponse response = error_response(error, ErrorShape::openai);
  (void)co_await exchange.send(std::move(response));
}

asio::awaitable<void> HttpServer::serve_requests(std::shared_ptr<ByteStream> stream) {
  RequestReader reader(*stream, options_.limits, gate_);
  bool goes_on = true;
  while (goes_on) {
    ReadRequest read = co_await reader.read();
    if (!read.request && !read.refusal) co_return;
    goes_on = co_await answer(stream, std::move(read));
  }
}

/// Returns whether another request may follow.
asio::awaitable<bool> HttpServer::answer(std::shared_ptr<ByteStream> stream, ReadRequest read) {
  const Count count(n_exchanges_);
  const auto start = steady_clock::now();
  Exchange::Wire wire;
  wire.keep_alive = read.keep_alive && keeps_alive_;
  wire.chunked = read.is_http11;
  wire.write_limit = options_.limits.write;
  HttpRequest request = read.request ? std::move(*read.request) : HttpRequest();
  request.id = request_id_of(request, ++n_requests_);
  Exchange exchange(stream, std::move(request), wire);
  exchange.add_header("X-Request-Id", exchange.request().id);
  if (read.refusal) {
    HttpResponse refusal = std::move(*read.refusal);
    (void)co_await exchange.send(std::move(refusal));
  } else {
    co_await handler_(exchange);
  }
  observer_(exchange, steady_clock::now() - start);
  co_return exchange.keep_alive() && keeps_alive_;
}

}  // namespace patchbay
