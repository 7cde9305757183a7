#include "server/transport/http/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json Document(const OpenApiOptions& options = {.version = "1.2.3"}) {
  return json::parse(OpenApiDocument(HttpRoutes(), options));
}

std::string MethodOf(const HttpRoute& route) {
  return absl::AsciiStrToLower(std::string(to_string(route.method)));
}
std::string PathOf(const HttpRoute& route) { return "/" + std::string(route.pattern); }

// Schemas of arrays that do not say of what: generators of clients drop what holds one.
void CollectVague(const std::string& at, const json& part, std::set<std::string>* vague) {
  if (part.is_object() && part.contains("type") && !part.contains("items")) {
    const json& type = part["type"];
    const bool is_array =
        type.is_array() ? std::ranges::find(type, "array") != type.end() : type == "array";
    if (is_array) vague->insert(at);
  }
  for (const auto& [name, inner] : part.items()) {
    if (inner.is_structured()) CollectVague(at + "/" + name, inner, vague);
  }
}

// Everything that a "$ref" anywhere in `part` names.
void CollectReferences(const json& part, std::set<std::string>* references) {
  if (part.is_object() && part.contains("$ref")) references->insert(part["$ref"]);
  for (const json& inner : part) {
    if (inner.is_structured()) CollectReferences(inner, references);
  }
}

TEST(OpenApi, HasEachRouteAndNoOther) {
  const json document = Document();
  std::set<std::string> wanted, described, ids;
  for (const HttpRoute& route : HttpRoutes()) wanted.insert(MethodOf(route) + PathOf(route));
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      described.insert(method + path);
      ids.insert(operation["operationId"].get<std::string>());
      EXPECT_TRUE(operation["responses"].contains("200")) << method << path;
    }
  }
  EXPECT_EQ(described, wanted);
  EXPECT_EQ(described.size(), HttpRoutes().size());  // no route is in the table twice
  EXPECT_EQ(ids.size(), HttpRoutes().size());
}

TEST(OpenApi, EachReferenceLeadsSomewhere) {
  const json document = Document();
  std::set<std::string> references;
  CollectReferences(document, &references);
  EXPECT_GT(references.size(), 20);
  for (const std::string& reference : references) {
    EXPECT_TRUE(document.contains(json::json_pointer(reference.substr(1)))) << reference;
  }
}

TEST(OpenApi, EachArraySaysOfWhat) {
  std::set<std::string> vague;
  CollectVague("", Document(), &vague);
  EXPECT_THAT(vague, ::testing::IsEmpty());
}

TEST(OpenApi, WhatAPortDoesNotAnswerIsLeftOut) {
  OpenApiOptions options{.version = "1", .groups = ApiGroups()};
  options.groups.Add("health");
  const json document = Document(options);
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      EXPECT_EQ(operation["tags"], json({"health"})) << path;
    }
  }
  EXPECT_TRUE(document["paths"].contains("/v2/health/live"));
}

class OpenApiServedTest : public HttpApiTest {};

TEST_F(OpenApiServedTest, KeysAreAskedForWhereThereAreAny) {
  const HttpApiAnswer open = Ask("GET /openapi.json");
  ASSERT_EQ(open.status, 200) << open.body;
  EXPECT_EQ(open.Field("Content-Type"), "application/json");
  EXPECT_FALSE(open.Json()["components"].contains("securitySchemes"));
  const OpenApiOptions with_keys{.version = "1", .asks_for_keys = true};
  const json document = Document(with_keys);
  EXPECT_EQ(document["components"]["securitySchemes"]["key"]["scheme"], "bearer");
  EXPECT_FALSE(document["paths"]["/v2/health/live"]["get"].contains("security"));
  EXPECT_EQ(document["paths"]["/v1/classify"]["post"]["security"][0],
            json({{"key", json::array()}}));
}

// Each path that is described is one that the port knows.
TEST_F(OpenApiServedTest, EachDescribedPathIsAnswered) {
  for (const HttpRoute& route : HttpRoutes()) {
    std::string path = PathOf(route);
    for (size_t at; (at = path.find('{')) != path.npos;) {
      path.replace(at, path.find('}') - at + 1, "vit");
    }
    const HttpApiAnswer answer = Ask(std::string(to_string(route.method)) + " " + path);
    EXPECT_THAT(answer.body, Not(HasSubstr("http.path_unknown"))) << path;
    EXPECT_NE(answer.status, 405) << path;
    EXPECT_TRUE(Document()["paths"][PathOf(route)][MethodOf(route)]["responses"].contains(
        std::to_string(answer.status)))
        << path << ": " << answer.status;
  }
}

}  // namespace
}  // namespace fovea
