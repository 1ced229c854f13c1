#include "server/openapi.h"

#include <gmock/gmock.h>

#include "arch/tiny_model.h"
#include "base/temp_dir.h"
#include "server/route_docs.h"
#include "server/routes.h"

namespace patchbay {
namespace {

using testing::IsSupersetOf;
using testing::UnorderedElementsAreArray;

/// A server over a tiny model, with every route and no connections.
class OpenApi : public testing::Test {
 protected:
  OpenApi() { add_all_routes(router_, service_); }

  TempDir dir_;
  std::shared_ptr<const Model> model_ =
      Model::load(dir_.write("tiny.gguf", build_tiny_model(tiny_llama()).bytes()));
  Engine engine_{model_, {.n_ctx = 32}};
  Service service_{.model = model_,
                   .engine = engine_,
                   .model_id = "tiny",
                   .model_path = "tiny.gguf",
                   .files = AdapterFiles({}),
                   .keys = {}};
  Router router_{service_.keys, service_.is_draining};
};

TEST_F(OpenApi, DescribesEveryRouteAndNoOther) {
  std::vector<std::string> routes;
  for (const auto &route : router_.routes()) routes.push_back(route.method + " " + route.path);
  std::vector<std::string> described;
  for (const auto &doc : route_docs()) described.push_back(doc.method + " " + doc.path);
  EXPECT_THAT(described, UnorderedElementsAreArray(routes));
}

TEST_F(OpenApi, EveryRowSaysWhatARouteIsFor) {
  const std::vector<std::string> types{
      "string", "integer",      "number",       "boolean",       "array",
      "object", "string|array", "object|array", "string|object", "object|boolean"};
  for (const auto &doc : route_docs()) {
    SCOPED_TRACE(doc.path);
    EXPECT_FALSE(doc.summary.empty());
    EXPECT_FALSE(doc.dialect.empty());
    for (const auto &field : doc.fields) {
      EXPECT_FALSE(field.summary.empty()) << field.name;
      EXPECT_THAT(types, IsSupersetOf({field.type})) << field.name;
    }
  }
}

TEST_F(OpenApi, TheDocumentHasAllOfThem) {
  const Json document = openapi_document(router_.routes());
  size_t n_operations = 0;
  for (const auto &[path, operations] : document["paths"].items())
    n_operations += operations.size();
  EXPECT_EQ(n_operations, router_.routes().size());
  const Json &completions = document["paths"]["/v1/completions"]["post"];
  EXPECT_TRUE(
      completions["requestBody"]["content"]["application/json"]["schema"]["properties"].contains(
          "lora"));
  EXPECT_TRUE(completions["responses"].contains("429"));
  EXPECT_TRUE(document["paths"].contains("/v1/models/{name}"));
  EXPECT_FALSE(document["paths"]["/health"]["get"].contains("security"));
}

}  // namespace
}  // namespace patchbay
