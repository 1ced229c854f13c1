#include "server/byte_stream.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <type_traits>

namespace patchbay {
namespace {

namespace beast = boost::beast;
using Tls = beast::ssl_stream<beast::tcp_stream>;

// Results come as values: a connection that ends is no exception.
constexpr auto k_token = asio::as_tuple(asio::use_awaitable);

/// `Stream`: beast::tcp_stream or Tls.
template <class Stream>
class BeastStream final : public ByteStream {
 public:
  template <class... Args>
  explicit BeastStream(Args &&...args) : stream_(std::forward<Args>(args)...) {
    boost::system::error_code ignored;
    // A token is a small packet, which must not wait for the next one.
    socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    // Looking whether the peer is there must not wait for it.
    socket().non_blocking(true, ignored);
  }

  asio::awaitable<bool> handshake(std::chrono::milliseconds limit) override {
    if constexpr (std::is_same_v<Stream, Tls>) {
      lowest().expires_after(limit);
      const auto result = co_await stream_.async_handshake(asio::ssl::stream_base::server, k_token);
      co_return !std::get<0>(result);
    } else {
      (void)limit;
      co_return true;
    }
  }

  asio::awaitable<size_t> read_some(std::span<char> into,
                                    std::chrono::milliseconds limit) override {
    lowest().expires_after(limit);
    const asio::mutable_buffer buffer(into.data(), into.size());
    const auto result = co_await stream_.async_read_some(buffer, k_token);
    co_return std::get<0>(result) ? 0 : std::get<1>(result);
  }

  asio::awaitable<bool> write(std::string_view bytes, std::chrono::milliseconds limit) override {
    constexpr size_t k_piece = size_t{1} << 16U;
    bool has_limit = false;
    while (!bytes.empty()) {
      if constexpr (!std::is_same_v<Stream, Tls>) {
        // The kernel nearly always has room for a token: no timer and no turn of the loop for it.
        boost::system::error_code error;
        bytes.remove_prefix(socket().send(asio::buffer(bytes), 0, error));
        if (error && error != asio::error::would_block) co_return false;
        if (bytes.empty()) break;
      }
      has_limit = true;
      // The limit is for the operations that begin after this call.
      lowest().expires_after(limit);
      const asio::const_buffer piece(bytes.data(), std::min(bytes.size(), k_piece));
      const auto result = co_await stream_.async_write_some(piece, k_token);
      if (std::get<0>(result)) co_return false;
      bytes.remove_prefix(std::get<1>(result));
    }
    if (has_limit) lowest().expires_never();
    co_return true;
  }

  asio::awaitable<bool> wait_for_close() override {
    while (true) {
      const auto result = co_await socket().async_wait(asio::ip::tcp::socket::wait_read, k_token);
      if (std::get<0>(result)) co_return true;
      char byte = 0;
      boost::system::error_code error;
      const size_t n = socket().receive(asio::mutable_buffer(&byte, 1),
                                        asio::ip::tcp::socket::message_peek, error);
      // What woke the wait may have been read before.
      if (error != asio::error::would_block) co_return n == 0;
    }
  }

  asio::awaitable<void> shut_down() override {
    boost::system::error_code ignored;
    if constexpr (std::is_same_v<Stream, Tls>) {
      lowest().expires_after(std::chrono::seconds(1));
      (void)co_await stream_.async_shutdown(k_token);
    }
    socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    co_return;
  }

  void close() override {
    boost::system::error_code ignored;
    socket().close(ignored);
  }

 private:
  beast::tcp_stream &lowest() { return beast::get_lowest_layer(stream_); }
  asio::ip::tcp::socket &socket() { return lowest().socket(); }

  Stream stream_;
};

}  // namespace

std::shared_ptr<ByteStream> make_plain_stream(asio::ip::tcp::socket socket) {
  return std::make_shared<BeastStream<beast::tcp_stream>>(std::move(socket));
}

std::shared_ptr<ByteStream> make_tls_stream(asio::ip::tcp::socket socket,
                                            asio::ssl::context &context) {
  return std::make_shared<BeastStream<Tls>>(std::move(socket), context);
}

}  // namespace patchbay
