// What changes the server over HTTP: its repository, its settings.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {
namespace {

using nlohmann::json;

TEST_F(HttpApiTest, TheRepositoryIsListedAndChanged) {
  const json index = Ask("POST /v2/repository/index").Json();
  ASSERT_EQ(index.size(), 4);
  EXPECT_EQ(index[0]["reason"], "its weights are missing");
  EXPECT_EQ(index[2],
            json({{"name", "vit"}, {"version", "1"}, {"state", "READY"}, {"reason", ""}}));
  EXPECT_EQ(Ask("POST /v2/repository/index", R"({"ready":true})").Json().size(), 1);
  EXPECT_GT(Ask("POST /v2/repository/index", R"({"ready":null})").Json().size(), 1);  // Row 109
  EXPECT_EQ(Ask("POST /v2/repository/index", R"({"ready":1})").Reason(), "request.json");
  EXPECT_EQ(Ask("POST /v2/repository/index", R"({"ready":true,"ready":false})").Reason(),
            "request.json");
  EXPECT_EQ(Ask("POST /v2/repository/models/vit/load",
                R"({"parameters":{"config":"{\"max_batch_size\":2}"}})")
                .status,
            200);
  EXPECT_EQ(catalog_.last_config(), R"({"max_batch_size":2})");
  EXPECT_EQ(Ask("POST /v2/repository/models/vit/load", R"({"parameters":{"other":"x"}})").status,
            400);
  for (const char* nothing :
       {R"({"parameters":null})",
        R"({"parameters":{"config":null,"file:1/model.safetensors":null}})"}) {
    EXPECT_EQ(Ask("POST /v2/repository/models/vit/load", nothing).status, 200) << nothing;
    EXPECT_EQ(catalog_.last_config(), "");  // Row 109
  }
  EXPECT_EQ(Ask("POST /v2/repository/models/other/load").Json()["error"],
            "failed to load 'other': the repository has no such model");
  EXPECT_EQ(Ask("POST /v2/repository/models/vit/load", "[").Reason(), "request.json");
  EXPECT_EQ(Ask("POST /v2/repository/models/vit/unload").status, 200);
  const json long_config = {{"parameters", {{"config", std::string(200'000, ' ')}}}};
  EXPECT_EQ(Ask("POST /v2/repository/models/vit/load", long_config.dump()).status, 413);
}

// Row 75.
TEST_F(HttpApiTest, ALoadMayBringItsWeights) {
  const auto load = [&](const std::string& body) {
    return Ask("POST /v2/repository/models/vit/load", body);
  };
  // Long enough to be read on another thread.
  std::string weights;
  while (weights.size() < 500'000) weights.push_back(static_cast<char>(weights.size() * 7));
  const json files = {
      {"other", {1, {{"parameters", 2}}}},
      {"parameters",
       {{"file:3/model.safetensors", absl::Base64Escape(weights)}, {"config", "{}"}}}};
  EXPECT_EQ(load(files.dump()).status, 200);
  ASSERT_EQ(catalog_.last_files().size(), 1);
  EXPECT_EQ(catalog_.last_files()[0].name, "3/model.safetensors");
  EXPECT_EQ(catalog_.last_files()[0].bytes, weights);
  ExpectNothingIsHeld();

  const std::string file = R"("file:1/model.safetensors":)";
  EXPECT_EQ(load("{\"parameters\":{" + file + "\"AAAA\"}}").Reason(), "repository.parameter");
  EXPECT_EQ(load("{\"parameters\":{" + file + "\"?\",\"config\":\"{}\"}}").Reason(),
            "repository.file_encoding");
  EXPECT_EQ(load("{\"parameters\":{" + file + "1,\"config\":\"{}\"}}").Reason(),
            "repository.parameter");
  EXPECT_EQ(load("{\"parameters\":{" + file + "\"AAAA\"," + file + "\"AAAA\"}}").Reason(),
            "request.json");
  for (const char* bad :
       {"[]", "1", "{", R"({"parameters":[{"config":"{}"}]})", R"({"parameters":1})",
        R"({"parameters":{},"parameters":{}})", R"({"parameters":{"config":"{}"}} x)"}) {
    EXPECT_EQ(load(bad).Reason(), "request.json") << bad;
  }
  EXPECT_EQ(load(R"({"parameters":{"config":{"config":"{}"}}})").Reason(), "repository.parameter");
  std::string many = "{\"parameters\":{\"config\":\"{}\"";
  for (int i = 0; i < 64; ++i) many += ",\"file:" + std::to_string(i) + "\":\"AAAA\"";
  EXPECT_EQ(load(many + "}}").Reason(), "request.parameter_count");
  Start({.request_bytes = 1 << 20});
  EXPECT_EQ(load(files.dump()).status, 503);  // its body, and what it is read into
}

TEST_F(HttpApiTest, WhatThereIsNotIsSaidAsGenericClientsExpect) {
  EXPECT_EQ(Ask("GET /v2/systemsharedmemory/status").body, "[]");
  EXPECT_EQ(Ask("POST /v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(Ask("POST /v2/cudasharedmemory/region/r/unregister").status, 200);
  EXPECT_EQ(Ask("POST /v2/systemsharedmemory/region/r/register", "{}").status, 501);
  EXPECT_EQ(Ask("GET /v2/trace/setting").Json()["trace_level"], json({"OFF"}));
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_level":["TIMESTAMPS"]})").status, 501);
}

TEST_F(HttpApiTest, SettingsAreToldAndChanged) {
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_rate":"7","trace_count":9})").status, 200);
  EXPECT_EQ(Ask("GET /v2/models/vit/trace/setting").Json()["trace_rate"], "7");
  EXPECT_EQ(Ask("POST /v2/models/vit/trace/setting", R"({"trace_rate":"8"})").Json()["trace_count"],
            "9");
  EXPECT_EQ(Ask("GET /v2/trace/setting").Json()["trace_rate"], "7");
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_rate":null,"trace_count":null})").status, 200);
  EXPECT_EQ(Ask("GET /v2/models/none/trace/setting").status, 404);
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_rate":{"a":1}})").Reason(), "request.json");
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_rate":[7]})").Reason(), "request.json");
  EXPECT_EQ(Ask("POST /v2/trace/setting", R"({"trace_rate":"-7"})").Reason(), "trace.bad_setting");
  EXPECT_EQ(Ask("POST /v2/trace/setting", "[]").Reason(), "request.json");
  const json log = Ask("POST /v2/logging", R"({"log_info":true,"log_verbose_level":0})").Json();
  EXPECT_EQ(log["log_info"], true);
  EXPECT_EQ(log["log_verbose_level"], 0);
  EXPECT_EQ(Ask("GET /v2/logging").Json(), log);
  EXPECT_EQ(Ask("POST /v2/logging", R"({"log_verbose_level":4294967296})").Reason(),
            "request.json");
  EXPECT_EQ(Ask("POST /v2/logging", R"({"log_file":"/tmp/x"})").status, 501);
}

}  // namespace
}  // namespace fovea
