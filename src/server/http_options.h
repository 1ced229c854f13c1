#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace patchbay {

/// What a peer may take from the server before it has asked for anything.
struct HttpLimits {
  size_t header_bytes = size_t{32} << 10U;
  size_t body_bytes = size_t{64} << 20U;
  std::chrono::milliseconds idle{60000};    ///< between requests
  std::chrono::milliseconds header{10000};  ///< from a request's first byte to the end of its head
  std::chrono::milliseconds body{120000};   ///< for its body
  std::chrono::milliseconds write{30000};   ///< for a part of an answer to be taken
};

/// Where to listen, and for whom.
struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  ///< 0: any free one
  uint32_t n_threads = 2;
  uint32_t n_connections_max = 1024;
  HttpLimits limits;
  std::vector<std::string> cors_origins;  ///< pages that may ask; "*" alone: all
  std::string tls_cert_file;              ///< both or none; PEM
  std::string tls_key_file;
};

}  // namespace patchbay
