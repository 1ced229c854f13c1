#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
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

/// Given a request without its body: the answer, when it needs not be read for that.
using HttpGate = std::function<std::optional<HttpResponse>(const HttpRequest &head)>;

/// Reads the requests of one connection, one after the other.
class RequestReader {
 public:
  /// All outlive the reader. `gate` is asked before a body is waited for.
  RequestReader(ByteStream &stream, const HttpLimits &limits, const HttpGate &gate)
      : stream_(stream), limits_(limits), gate_(gate) {}

  [[nodiscard]] asio::awaitable<ReadRequest> read();

 private:
  struct Parser;

  [[nodiscard]] asio::awaitable<bool> read_more(std::chrono::steady_clock::time_point deadline);

  ByteStream &stream_;
  const HttpLimits &limits_;
  const HttpGate &gate_;
  std::string unread_;  // came with earlier bytes
};

}  // namespace patchbay
