#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/byte_stream.h"
#include "server/http_types.h"

namespace patchbay {

/// What is said of a request when it has been answered, in logs and counters.
struct ExchangeNotes {
  std::string route{};  ///< its pattern; empty: there is none
  std::string tenant{};
  std::string adapters{};
  uint32_t n_tokens_prompt = 0;
  uint32_t n_tokens_cached = 0;  ///< of the prompt's
  uint32_t n_tokens_out = 0;
  std::string_view finish_reason{};  ///< of the last answer to end
  std::string prompt{};              ///< only where prompts may be logged
};

/// One request and the way back to who sent it. Either a whole answer or a stream of parts, once.
/// On the connection's strand; every function that writes returns false when nobody is there any
/// more.
class Exchange {
 public:
  struct Wire {
    bool keep_alive = true;
    bool chunked = true;  ///< the peer knows chunks (HTTP/1.1)
    std::chrono::milliseconds write_limit{30000};
  };

  Exchange(std::shared_ptr<ByteStream> stream, HttpRequest request, const Wire &wire)
      : stream_(std::move(stream)), request_(std::move(request)), wire_(wire) {}
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  [[nodiscard]] const HttpRequest &request() const { return request_; }
  [[nodiscard]] ExchangeNotes &notes() { return notes_; }
  [[nodiscard]] const ExchangeNotes &notes() const { return notes_; }
  /// Goes with whatever answer is given.
  void add_header(std::string name, std::string value) {
    headers_.emplace_back(std::move(name), std::move(value));
  }

  asio::awaitable<bool> send(HttpResponse response);

  /// A body of unknown length: its head, its parts, its end.
  asio::awaitable<bool> begin_stream(std::string_view content_type);
  asio::awaitable<bool> write(std::string_view part);
  asio::awaitable<bool> end_stream();

  /// The connection itself, to watch whether the peer is still there.
  [[nodiscard]] const std::shared_ptr<ByteStream> &stream() const { return stream_; }
  void close() {
    wire_.keep_alive = false;
    stream_->close();
  }

  [[nodiscard]] unsigned status() const { return status_; }  ///< 0: not answered
  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }
  /// Whether all of the answer was written; not so when the peer went before.
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  /// Whether another request may follow.
  [[nodiscard]] bool keep_alive() const { return wire_.keep_alive && is_complete_; }
  void do_not_keep_alive() { wire_.keep_alive = false; }

 private:
  [[nodiscard]] std::string head(unsigned status, std::string_view content_type,
                                 const HttpHeaders &more) const;
  asio::awaitable<bool> put(std::string_view bytes);

  std::shared_ptr<ByteStream> stream_;
  HttpRequest request_;
  Wire wire_;
  HttpHeaders headers_;
  ExchangeNotes notes_;
  unsigned status_ = 0;
  uint64_t n_bytes_ = 0;
  bool is_complete_ = false;
};

}  // namespace patchbay
