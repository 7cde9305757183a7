// Tensors in shared memory that callers register, over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/core/testing/notification.h"
#include "server/shared_memory/shared_memory_regions.h"
#include "tests/server/shared_memory/fake_shared_memory.h"
#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HttpSharedMemoryTest : public HttpApiTest {
 protected:
  HttpSharedMemoryTest() {
    memory_.Create("/object", "0123456789abcdef");
    Start({.shared_memory = std::make_shared<SharedMemoryRegions>(memory_.Opener())});
  }
  static json Span(int64_t offset, int64_t size) {
    return {{"shared_memory_region", "r"},
            {"shared_memory_offset", offset},
            {"shared_memory_byte_size", size}};
  }
  static json Tensor(const json& parameters) {
    return {{"name", "x"}, {"datatype", "INT8"}, {"shape", {4}}, {"parameters", parameters}};
  }

  FakeSharedMemory memory_;
};

TEST_F(HttpSharedMemoryTest, RegionsAreRegisteredToldAndUnregistered) {
  EXPECT_THAT(Ask("GET /v2").Json()["extensions"].dump(), HasSubstr("system_shared_memory"));
  const std::string path = "/v2/systemsharedmemory/region/r/";
  const std::string region = R"({"key":"/object","offset":2,"byte_size":8})";
  EXPECT_EQ(Ask("POST " + path + "register", region).body, "{}");
  const json told = {{{"name", "r"}, {"key", "/object"}, {"offset", 2}, {"byte_size", 8}}};
  EXPECT_EQ(Ask("GET /v2/systemsharedmemory/status").Json(), told);
  EXPECT_EQ(Ask("GET " + path + "status").Json(), told);
  const HttpApiAnswer twice = Ask("POST " + path + "register", region);
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(twice.Json()["code"], "ALREADY_EXISTS");
  EXPECT_EQ(Ask("POST " + path + "unregister").status, 200);
  EXPECT_EQ(Ask("GET " + path + "status").status, 404);
  EXPECT_EQ(Ask("POST " + path + "register", region).status, 200);
  EXPECT_EQ(Ask("POST /v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(Ask("GET /v2/systemsharedmemory/status").body, "[]");
}

TEST_F(HttpSharedMemoryTest, Row52WhatIsNoRegionIsRefused) {
  for (const auto& [body, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "shared_memory.key"},
           {R"({"key":"/../etc/passwd","byte_size":1})", "shared_memory.key"},
           {R"({"key":7,"byte_size":1})", "request.json"},
           {R"({"key":"/object","byte_size":-1})", "request.json"},
           {R"({"key":"/object","byte_size":1.5})", "request.json"},
           {R"({"key":"/object"})", "shared_memory.range"},
           {R"({"key":"/object","offset":18446744073709551615,"byte_size":2})",
            "shared_memory.range"}}) {
    const HttpApiAnswer answer = Ask("POST /v2/systemsharedmemory/region/r/register", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.Reason(), reason) << body;
  }
  EXPECT_EQ(Ask("POST /v2/cudasharedmemory/region/r/register", "{}").status, 501);
}

TEST_F(HttpSharedMemoryTest, AnEmptyNameInAPathIsNotAllOfThem) {
  const std::string path = "/v2/systemsharedmemory/region/";
  EXPECT_EQ(Ask("POST " + path + "r/register", R"({"key":"/object","byte_size":8})").status, 200);
  EXPECT_EQ(Ask("POST " + path + "/unregister").status, 404);
  EXPECT_EQ(Ask("GET /v2/systemsharedmemory/status").Json().size(), 1);
}

TEST_F(HttpSharedMemoryTest, TensorsComeFromRegionsAndGoThere) {
  ASSERT_EQ(
      Ask("POST /v2/systemsharedmemory/region/r/register", R"({"key":"/object","byte_size":16})")
          .status,
      200);
  const HttpApiAnswer answer = Infer({{"inputs", {Tensor(Span(1, 4))}},
                                      {"outputs", {{{"name", "x"}, {"parameters", Span(10, 6)}}}}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(memory_.Bytes("/object"), "01234567891234ef");
  const json output = answer.Json()["outputs"][0];
  EXPECT_EQ(output, json({{"name", "x"}, {"datatype", "INT8"}, {"shape", {4}}}));

  const auto reason = [&](json input, json output) {
    return Infer({{"inputs", {std::move(input)}},
                  {"outputs", {{{"name", "x"}, {"parameters", std::move(output)}}}}})
        .Reason();
  };
  EXPECT_EQ(reason(Tensor(Span(1, 3)), 5), "request.json");
  EXPECT_EQ(reason(Tensor(Span(1, 3)), nullptr), "request.input_size") << "null means absent";
  const json none = json::object();
  EXPECT_EQ(reason(Tensor(Span(1, 3)), none), "request.input_size");
  EXPECT_EQ(reason(Tensor(Span(13, 4)), none), "shared_memory.range");
  EXPECT_EQ(reason(Tensor(Span(0, 4)), Span(0, 3)), "shared_memory.output_too_small");
  json with_data = Tensor(Span(0, 4));
  with_data["data"] = {1, 2, 3, 4};
  EXPECT_EQ(reason(with_data, none), "request.two_contents");
  json parameters = Span(0, 4);
  parameters["shared_memory_region"] = 1;
  EXPECT_EQ(reason(Tensor(parameters), none), "shared_memory.not_registered");
}

TEST_F(HttpSharedMemoryTest, Row52CopiesThatTakeLongHoldUpNoHealth) {
  ASSERT_EQ(
      Ask("POST /v2/systemsharedmemory/region/r/register", R"({"key":"/object","byte_size":16})")
          .status,
      200);
  Notification copied;
  std::atomic<int> copying = 0;
  memory_.OnRead([&] {
    ++copying;
    copied.Wait();
  });
  // More than the port has threads, of either kind.
  constexpr int kCallers = limits::kHttpThreads + limits::kHttpSlowThreads + 2;
  std::vector<std::thread> callers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      answered += Infer({{"inputs", {Tensor(Span(1, 4))}}}).status == 200 ? 1 : 0;
    });
  }
  while (copying < limits::kHttpSlowThreads) std::this_thread::yield();
  for (int i = 0; i < 2 * limits::kHttpThreads; ++i) {
    EXPECT_EQ(Ask("GET /healthz").status, 200);
    EXPECT_EQ(Ask("GET /readyz").status, 200);
  }
  EXPECT_EQ(copying, limits::kHttpSlowThreads);
  copied.Notify();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, kCallers);
}

TEST_F(HttpSharedMemoryTest, Row52ARegionThatIsUnregisteredMeanwhileIsNotWritten) {
  ASSERT_EQ(
      Ask("POST /v2/systemsharedmemory/region/r/register", R"({"key":"/object","byte_size":16})")
          .status,
      200);
  inference_.Hold();
  HttpApiAnswer answer;
  std::thread caller([&] {
    answer = Infer({{"inputs", {Tensor(Span(1, 4))}},
                    {"outputs", {{{"name", "x"}, {"parameters", Span(10, 6)}}}}});
  });
  auto held = inference_.Take();
  EXPECT_EQ(Ask("POST /v2/systemsharedmemory/region/r/unregister").status, 200);
  held.Answer();
  caller.join();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.Reason(), "shared_memory.unregistered");
  EXPECT_EQ(memory_.Bytes("/object"), "0123456789abcdef");
}

}  // namespace
}  // namespace fovea
