#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "server/byte_stream.h"
#include "server/http_options.h"
#include "server/http_types.h"

namespace patchbay {

/// What came of reading: a request, or an answer to give before the connection ends, or neither
/// when the peer has gone.
struct ReadRequest {
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;
  bool keep_alive = true;
  bool is_http11 = true;
};

/// Reads the requests of one connection, one after the other.
class RequestReader {
 public:
  RequestReader(ByteStream &stream, const HttpLimits &limits) : stream_(stream), limits_(limits) {}

  [[nodiscard]] asio::awaitable<ReadRequest> read();

 private:
  struct Parser;

  [[nodiscard]] asio::awaitable<bool> read_more(std::chrono::steady_clock::time_point deadline);

  ByteStream &stream_;
  const HttpLimits &limits_;
  std::string unread_;  // came with earlier bytes
};

}  // namespace patchbay
