#include "server/plain_generate.h"

#include "server/generate.h"
#include "server/sglang_generate.h"
#include "server/tgi_generate.h"

namespace patchbay {

void add_plain_generate(Router &router, Service &service) {
  const auto add = [&](const char *path, bool streams) {
    const auto read = [streams](JsonFields &fields, const Service &s) {
      return fields.any("inputs") != nullptr ? read_tgi(fields, s, streams)
                                             : read_sglang(fields, s, streams);
    };
    router.add({.method = "POST",
                .path = path,
                .is_work = true,
                .handler = generation_route(service, ErrorShape::openai, read)});
  };
  add("/generate", false);
  add("/generate_stream", true);
}

}  // namespace patchbay
