#include "server/exchange.h"

#include <fmt/format.h>

#include <cassert>

namespace patchbay {
namespace {

/// Nothing in a value can end its line.
void append(std::string &head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  for (const char c : value) head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  head += "\r\n";
}

}  // namespace

std::string Exchange::head(unsigned status, std::string_view content_type,
                           const HttpHeaders &more) const {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  if (!content_type.empty()) append(head, "Content-Type", content_type);
  for (const auto *headers : {&headers_, &more}) {
    for (const auto &[name, value] : *headers) append(head, name, value);
  }
  append(head, "Connection", wire_.keep_alive ? "keep-alive" : "close");
  return head;
}

asio::awaitable<bool> Exchange::put(std::string_view bytes) {
  n_bytes_ += bytes.size();
  const bool written = co_await stream_->write(bytes, wire_.write_limit);
  if (!written) wire_.keep_alive = false;
  co_return written;
}

asio::awaitable<bool> Exchange::send(HttpResponse response) {
  assert(status_ == 0);
  status_ = response.status;
  std::string message = head(response.status, response.content_type, response.headers);
  constexpr unsigned k_no_content = 204;  // has no body, and says nothing of its length
  if (response.status != k_no_content)
    append(message, "Content-Length", fmt::format("{}", response.body.size()));
  message += "\r\n";
  if (request_.method != "HEAD") message += response.body;
  is_complete_ = co_await put(message);
  co_return is_complete_;
}

asio::awaitable<bool> Exchange::begin_stream(std::string_view content_type) {
  assert(status_ == 0);
  status_ = 200;
  if (!wire_.chunked) wire_.keep_alive = false;
  std::string message = head(200, content_type, {{"Cache-Control", "no-cache"}});
  if (wire_.chunked) append(message, "Transfer-Encoding", "chunked");
  message += "\r\n";
  co_return co_await put(message);
}

asio::awaitable<bool> Exchange::write(std::string_view part) {
  if (part.empty()) co_return true;  // an empty chunk would be the end
  const std::string framed =
      wire_.chunked ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : std::string(part);
  co_return co_await put(framed);
}

asio::awaitable<bool> Exchange::end_stream() {
  is_complete_ = wire_.chunked ? co_await put("0\r\n\r\n") : true;
  co_return is_complete_;
}

}  // namespace patchbay
