#pragma once

#include "grammar/schema_document.h"
#include "grammar/schema_facts.h"

namespace patchbay {

/// Whether a value is valid under all schemas of a set. Throws SchemaRefusal for schemas that are
/// not supported.
[[nodiscard]] bool is_valid(SchemaDocument &document, const SchemaSet &set,
                            const SchemaDocument::Json &value);

/// The same by the own keywords of expanded schemas but enum and const, `facts` being theirs.
[[nodiscard]] bool is_valid_unlisted(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                                     const SchemaFacts &facts, const SchemaDocument::Json &value);

/// Whether it can be shown that no value is valid under both sets: by types, by values, by bounds,
/// or by a member that one of them requires. Throws as is_valid() does.
[[nodiscard]] bool are_disjoint(SchemaDocument &document, const SchemaSet &one,
                                const SchemaSet &other);

}  // namespace patchbay
