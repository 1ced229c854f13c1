#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/exchange.h"
#include "server/http_options.h"
#include "server/request_reader.h"

namespace patchbay {

/// Answers an exchange. On the connection's strand; must not block for long.
using HttpHandler = std::function<asio::awaitable<void>(Exchange &)>;

/// Told of every exchange that has ended, and how long it took. Any thread; must not block.
using HttpObserver = std::function<void(const Exchange &, std::chrono::duration<double>)>;

/// Accepts connections and reads requests, each connection on a strand of its own over a few
/// threads. Knows HTTP and nothing of what is asked.
class HttpServer {
 public:
  /// Listens when it returns. Throws LoadError: the address cannot be used, or a certificate cannot
  /// be read.
  HttpServer(const HttpOptions &options, HttpGate gate, HttpHandler handler, HttpObserver observer);
  /// Ends everything at once.
  ~HttpServer();
  HttpServer(const HttpServer &) = delete;
  HttpServer &operator=(const HttpServer &) = delete;

  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] uint32_t n_connections() const { return n_connections_; }
  /// Requests that are being answered.
  [[nodiscard]] uint32_t n_exchanges() const { return n_exchanges_; }

  /// No connection stays open behind the answer that it is waiting for.
  void stop_keeping_alive() { keeps_alive_ = false; }

 private:
  void listen();
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  asio::awaitable<void> serve_requests(std::shared_ptr<ByteStream> stream);
  asio::awaitable<void> turn_away(std::shared_ptr<ByteStream> stream);
  asio::awaitable<bool> answer(std::shared_ptr<ByteStream> stream, ReadRequest read);

  HttpOptions options_;
  HttpGate gate_;
  HttpHandler handler_;
  HttpObserver observer_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<uint32_t> n_connections_ = 0;
  std::atomic<uint32_t> n_exchanges_ = 0;
  std::atomic<bool> keeps_alive_ = true;
  std::atomic<uint64_t> n_requests_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace patchbay
