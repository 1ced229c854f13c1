#include "server/routes.h"

#include "server/dynamo_adapters.h"
#include "server/embeddings.h"
#include "server/llama_adapters.h"
#include "server/llama_completion.h"
#include "server/llama_server.h"
#include "server/llama_slot_actions.h"
#include "server/llama_slots.h"
#include "server/metrics.h"
#include "server/openai_chat.h"
#include "server/openai_completions.h"
#include "server/openai_models.h"
#include "server/openapi.h"
#include "server/plain_generate.h"
#include "server/sglang_adapters.h"
#include "server/vllm_adapters.h"

namespace patchbay {

void add_all_routes(Router &router, Service &service) {
  for (const auto add :
       {add_openai_models, add_openai_completions, add_openai_chat, add_vllm_adapters,
        add_sglang_adapters, add_dynamo_adapters, add_llama_server, add_llama_adapters,
        add_llama_completion, add_llama_slots, add_llama_slot_actions, add_embeddings,
        add_plain_generate, add_metrics, add_openapi})
    add(router, service);
}

}  // namespace patchbay
