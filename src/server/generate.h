#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "patchbay/request.hpp"
#include "server/adapter_choice.h"
#include "server/answers.h"
#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// How a dialect speaks of one request's answers: all at once, or as server-sent events (WHATWG
/// HTML, section 9.2). The functions of a stream return whole events, or nothing.
class AnswerFormat {
 public:
  AnswerFormat() = default;
  AnswerFormat(const AnswerFormat &) = delete;
  AnswerFormat &operator=(const AnswerFormat &) = delete;
  virtual ~AnswerFormat() = default;

  /// Before anything else: what of the request depends on which model it turned out to name. An
  /// error ends it.
  [[nodiscard]] virtual std::optional<Error> prepare(const AdapterChoice & /*choice*/,
                                                     Request & /*request*/) {
    return std::nullopt;
  }
  /// Then: what the request wears, and from where on.
  virtual void choose(const AdapterChoice &choice) = 0;
  /// Then: the slot under which GET /slots lists the answer.
  virtual void take_slot(uint32_t /*slot*/) {}

  [[nodiscard]] virtual HttpResponse whole(const Answers &answers) = 0;

  [[nodiscard]] virtual std::string begin() { return {}; }
  [[nodiscard]] virtual std::string token(const TokenEvent &event) = 0;
  [[nodiscard]] virtual std::string choice_end(const ChoiceEnd &end) = 0;
  [[nodiscard]] virtual std::string end(const Usage &usage) = 0;
};

/// A request as a dialect has read it.
struct DialectRequest {
  Request request;
  AdapterWish wish;
  bool stream = false;
  std::optional<uint32_t> slot{};  ///< wanted, below Service::n_seqs_max
  std::unique_ptr<AnswerFormat> format;
};

/// Reads a request's fields; errors stay in them.
using DialectReader = std::function<DialectRequest(JsonFields &fields, const Service &service)>;

/// A route that generates: reads the body, chooses adapters, generates, answers. A peer that goes
/// away ends its request. `service` outlives the handler.
[[nodiscard]] RouteHandler generation_route(Service &service, ErrorShape errors,
                                            DialectReader read);

/// "data: ...\n\n"
[[nodiscard]] std::string sse_data(std::string_view data);

}  // namespace patchbay
