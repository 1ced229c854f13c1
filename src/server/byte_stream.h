#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>

namespace patchbay {

namespace asio = boost::asio;

/// A connection to read bytes from and write them to, plain or TLS. One reader and one writer at a
/// time, both on the connection's strand. A time limit that passes closes the connection.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream() = default;
  ByteStream(const ByteStream &) = delete;
  ByteStream &operator=(const ByteStream &) = delete;

  /// Before anything else; false: the peer does not speak TLS as it must.
  [[nodiscard]] virtual asio::awaitable<bool> handshake(std::chrono::milliseconds limit) = 0;
  /// How many bytes came; 0: the connection is over.
  [[nodiscard]] virtual asio::awaitable<size_t> read_some(std::span<char> into,
                                                          std::chrono::milliseconds limit) = 0;
  /// All of `bytes`; false: the connection is over. `limit` is for each 64 KiB of them.
  [[nodiscard]] virtual asio::awaitable<bool> write(std::string_view bytes,
                                                    std::chrono::milliseconds limit) = 0;
  /// Returns when the peer has closed its side, or close() is called. What it sends meanwhile stays
  /// to be read, and ends the watching too.
  [[nodiscard]] virtual asio::awaitable<bool> wait_for_close() = 0;
  virtual asio::awaitable<void> shut_down() = 0;
  virtual void close() = 0;
};

[[nodiscard]] std::shared_ptr<ByteStream> make_plain_stream(asio::ip::tcp::socket socket);
[[nodiscard]] std::shared_ptr<ByteStream> make_tls_stream(asio::ip::tcp::socket socket,
                                                          asio::ssl::context &context);

}  // namespace patchbay
