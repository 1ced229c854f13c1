#include "server/request_reader.h"

#include <fmt/format.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/api_error.h"

namespace patchbay {
namespace {

namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
constexpr const char *k_unknown_coding = "Transfer-Encoding must be chunked and nothing else";

using BeastParser = http::request_parser<http::string_body>;

/// In OpenAI's shape, which most clients read: the request's own dialect is not known yet.
ReadRequest refuse(unsigned status, std::string message) {
  ReadRequest result;
  result.refusal = error_response({.error = {ErrorCode::invalid_argument, std::move(message)}},
                                  ErrorShape::openai);
  result.refusal->status = status;
  result.keep_alive = false;
  return result;
}

ReadRequest refuse(const boost::system::error_code &error, const HttpLimits &limits) {
  if (error == http::error::body_limit)
    return refuse(413, fmt::format("the body is larger than {} bytes", limits.body_bytes));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return refuse(431, fmt::format("the head is larger than {} bytes", limits.header_bytes));
  return refuse(400, fmt::format("not HTTP as it is defined: {}", error.message()));
}

HttpRequest head_of(const BeastParser &parser) {
  const auto &message = parser.get();
  HttpRequest request{.method = std::string(message.method_string())};
  for (const auto &field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  return request;
}

/// How long a body of any other coding is cannot be told, so nothing that follows it can be read
/// (RFC 9112, section 6.3).
bool has_unknown_coding(const BeastParser &parser) {
  const auto [first, end] = parser.get().equal_range(http::field::transfer_encoding);
  return first != end &&
         (std::next(first) != end || !equals_ignoring_case(first->value(), "chunked"));
}

/// Feeds what is unread; an error code other than need_more is final.
boost::system::error_code feed(BeastParser &parser, std::string &unread) {
  boost::system::error_code error;
  while (!unread.empty() && !parser.is_done()) {
    const size_t n = parser.put(boost::asio::buffer(unread), error);
    unread.erase(0, n);
    if (error || n == 0) break;
  }
  return error == http::error::need_more ? boost::system::error_code{} : error;
}

}  // namespace

/// Appends what comes; false: the connection is over.
asio::awaitable<bool> RequestReader::read_more(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (left <= std::chrono::milliseconds::zero()) co_return false;
  constexpr size_t k_piece = size_t{1} << 16U;
  const size_t n_before = unread_.size();
  unread_.resize(n_before + k_piece);
  const std::span<char> into(unread_.data() + n_before, k_piece);
  const size_t n = co_await stream_.read_some(into, left);
  unread_.resize(n_before + n);
  co_return n > 0;
}

asio::awaitable<ReadRequest> RequestReader::read() {
  BeastParser parser;
  parser.eager(true);
  parser.header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  ReadRequest nothing;
  nothing.keep_alive = false;
  if (unread_.empty()) {
    const bool came = co_await read_more(Clock::now() + limits_.idle);
    if (!came) co_return nothing;
  }
  auto deadline = Clock::now() + limits_.header;
  bool is_head = true;
  while (!parser.is_done()) {
    const auto error = feed(parser, unread_);
    if (error) co_return refuse(error, limits_);
    if (parser.is_done()) break;
    if (is_head && parser.is_header_done()) {
      is_head = false;
      if (has_unknown_coding(parser)) co_return refuse(400, k_unknown_coding);
      HttpRequest head = head_of(parser);
      if (auto answer = parse_target(parser.get().target(), head) ? gate_(head) : std::nullopt) {
        ReadRequest refused;
        refused.refusal = std::move(*answer);
        refused.keep_alive = false;
        co_return refused;
      }
      deadline = Clock::now() + limits_.body;
      if (parser.get()[http::field::expect] == "100-continue") {
        const bool written = co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n", limits_.write);
        if (!written) co_return nothing;
      }
    }
    const bool came = co_await read_more(deadline);
    if (!came) co_return nothing;
  }
  ReadRequest result;
  result.keep_alive = parser.keep_alive();
  result.is_http11 = parser.get().version() >= 11;
  if (has_unknown_coding(parser)) co_return refuse(400, k_unknown_coding);
  const std::string target(parser.get().target());
  HttpRequest request = head_of(parser);
  request.body = std::move(parser.get().body());
  if (!parse_target(target, request)) co_return refuse(400, "the request's target is no path");
  result.request = std::move(request);
  co_return result;
}

}  // namespace patchbay
