#include "grammar/grammar_rules.h"

namespace patchbay::grammar {

// Not inline: GCC 12 then takes the moved variant for one that was never written.
void Network::add(uint32_t from, uint32_t to, Expr over) {
  edges.push_back({from, to, std::move(over)});
}

}  // namespace patchbay::grammar
