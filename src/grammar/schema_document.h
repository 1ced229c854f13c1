#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/char_network.h"

namespace patchbay {

/// A schema that cannot be honoured: where (a JSON pointer as a fragment, "#/properties/a") and
/// why. Thrown by what reads schemas and caught by json_schema_rules().
class SchemaRefusal : public std::runtime_error {
 public:
  SchemaRefusal(const std::string &pointer, const std::string &problem)
      : std::runtime_error(pointer + ": " + problem) {}
};

/// A part of a set of schemas that hold together. Whole, or its own keywords only: without $ref,
/// allOf, anyOf and oneOf, whose say is heard elsewhere in the set.
struct SchemaPart {
  uint32_t schema = 0;
  bool own_only = false;

  auto operator<=>(const SchemaPart &) const = default;
};
/// Rising.
using SchemaSet = std::vector<SchemaPart>;

/// A JSON schema's text and the schemas in it, by numbers: schemas of equal text say the same and
/// have one. Which keywords there are is checked when a schema is first looked at.
class SchemaDocument {
 public:
  using Json = nlohmann::ordered_json;

  /// Throws SchemaRefusal: no JSON, too large, too deep.
  explicit SchemaDocument(std::string_view text);
  SchemaDocument(const SchemaDocument &) = delete;  // schemas_ views into json_
  SchemaDocument &operator=(const SchemaDocument &) = delete;

  [[nodiscard]] uint32_t root() { return schema_at(json_, "#"); }
  [[nodiscard]] const Json &json(uint32_t schema) const { return *schemas_[schema].json; }
  /// Where it stands, of equal ones the first that was looked at.
  [[nodiscard]] const std::string &pointer(uint32_t schema) const {
    return schemas_[schema].pointer;
  }
  /// Whether it says something itself, beside $ref, allOf, anyOf and oneOf.
  [[nodiscard]] bool has_own_keywords(uint32_t schema) const {
    return schemas_[schema].has_own_keywords;
  }

  /// The schema under a keyword, `json(schema)[keyword]`, or of a member or element of it.
  [[nodiscard]] uint32_t under(uint32_t schema, const std::string &keyword);
  [[nodiscard]] uint32_t under(uint32_t schema, const std::string &keyword,
                               const std::string &member);
  [[nodiscard]] uint32_t under(uint32_t schema, const std::string &keyword, size_t element);

  /// An anyOf, or a oneOf: of the options one has to hold as well.
  struct Group {
    uint32_t schema = 0;
    bool is_one_of = false;
    std::vector<uint32_t> options;
  };
  /// What a set of schemas says together, with references followed and allOf taken apart.
  struct Expansion {
    bool never = false;             ///< one of them is false
    std::vector<uint32_t> schemas;  ///< rising; their own keywords are what counts
    std::vector<Group> groups;
  };
  /// Throws SchemaRefusal: a reference that leads nowhere or back to itself.
  [[nodiscard]] Expansion expand(const SchemaSet &set);

  /// The strings that match a regular expression under a keyword; each is read once. Throws
  /// SchemaRefusal for one that is not supported.
  [[nodiscard]] const CharNetwork &pattern(uint32_t schema, const std::string &keyword,
                                           const std::string &pattern);

  /// Counts work, in steps of some ten nanoseconds. Throws SchemaRefusal when it has become too
  /// much: schemas can refer to each other in very many ways.
  void spend(uint64_t n_steps);

  [[noreturn]] void refuse(uint32_t schema, const std::string &problem) const {
    throw SchemaRefusal(pointer(schema), problem);
  }
  /// The same of one of its keywords.
  [[noreturn]] void refuse(uint32_t schema, const std::string &keyword,
                           const std::string &problem) const {
    throw SchemaRefusal(pointer(schema) + "/" + keyword, problem);
  }

 private:
  struct Schema {
    const Json *json = nullptr;
    std::string pointer;
    bool has_own_keywords = false;
  };
  class Expander;

  [[nodiscard]] uint32_t schema_at(const Json &json, const std::string &pointer);
  void check_keywords(uint32_t schema);
  [[nodiscard]] uint32_t follow(uint32_t schema);

  Json json_;
  std::vector<Schema> schemas_;
  std::unordered_map<const Json *, uint32_t> number_of_;
  std::unordered_map<std::string, uint32_t> number_of_text_;
  std::map<std::string, CharNetwork> networks_;  // by pattern
  uint64_t work_ = 0;
};

}  // namespace patchbay
