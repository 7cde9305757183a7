#include "server/observe/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "server/core/testing/fake_clock.h"
#include "server/observe/logging.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A millisecond in the first stage, two in the next, ...
AccessRecord Request(absl::StatusCode code, std::string_view reason = "") {
  StageTimes stages(0);
  Nanos now = 0;
  for (int stage = 0; stage < kStageCount; ++stage) {
    stages.EndStage(static_cast<Stage>(stage), now += (stage + 1) * kMillisecond);
  }
  return {.protocol = "grpc",
          .method = "ModelInfer",
          .id = "r1",
          .model = "cats",
          .version = "2",
          .code = code,
          .reason = reason,
          .stages = stages,
          .received_bytes = 300,
          .sent_bytes = 40};
}

class AccessLogTest : public ::testing::Test {
 protected:
  // The lines that `write` makes a log with these options write.
  template <typename Write>
  std::vector<std::string> Lines(std::string_view format, const AccessLogOptions& options,
                                 Write write) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(SetUpLogging("error", format).ok());  // the access log has its own switch
    AccessLog log(options, clock_);
    write(log);
    EXPECT_TRUE(FlushLog(std::chrono::seconds(60)));
    std::istringstream written(testing::internal::GetCapturedStderr());
    std::vector<std::string> lines;
    for (std::string line; std::getline(written, line);) lines.push_back(line);
    return lines;
  }

  FakeClock clock_;
};

TEST_F(AccessLogTest, ALineTellsWhoAskedWhatAndWhatBecameOfIt) {
  const auto lines = Lines("text", {}, [](AccessLog& log) {
    log.Write(Request(absl::StatusCode::kInvalidArgument, "image.truncated"));
  });
  EXPECT_THAT(lines, ElementsAre(EndsWith(
                         " info    request protocol=grpc method=ModelInfer id=r1 model=cats "
                         "version=2 code=INVALID_ARGUMENT reason=image.truncated total_ms=28.000 "
                         "receive_ms=1.000 decode_ms=2.000 preprocess_ms=3.000 queue_ms=4.000 "
                         "compute_ms=5.000 postprocess_ms=6.000 encode_ms=7.000 "
                         "received_bytes=300 sent_bytes=40")));
}

TEST_F(AccessLogTest, InJsonItIsOneObjectWithNumbers) {
  const auto lines = Lines("json", {.mode = AccessLogMode::kAll},
                           [](AccessLog& log) { log.Write(Request(absl::StatusCode::kOk)); });
  ASSERT_THAT(lines, SizeIs(1));
  const auto object = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(object["message"], "request");
  EXPECT_EQ(object["level"], "info");
  EXPECT_TRUE(object.contains("time"));
  EXPECT_EQ(object["id"], "r1");
  EXPECT_EQ(object["code"], "OK");
  EXPECT_EQ(object["reason"], "");
  EXPECT_EQ(object["queue_ms"], 4.0);
  EXPECT_EQ(object["total_ms"], 28.0);
  EXPECT_EQ(object["received_bytes"], 300);
}

TEST_F(AccessLogTest, ACallerWhoHasProvedWhoHeIsIsNamed) {
  AccessRecord record = Request(absl::StatusCode::kUnavailable, "queue.full");
  const auto write = [&](AccessLog& log) { log.Write(record); };
  EXPECT_FALSE(nlohmann::json::parse(Lines("json", {}, write).at(0)).contains("principal"));
  record.principal = "team-a";
  EXPECT_EQ(nlohmann::json::parse(Lines("json", {}, write).at(0))["principal"], "team-a");
}

TEST_F(AccessLogTest, ATraceIsNamedWhereThereIsOne) {
  AccessRecord record = Request(absl::StatusCode::kUnavailable, "queue.full");
  const auto write = [&](AccessLog& log) { log.Write(record); };
  EXPECT_FALSE(nlohmann::json::parse(Lines("json", {}, write).at(0)).contains("trace_id"));
  record.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  EXPECT_EQ(nlohmann::json::parse(Lines("json", {}, write).at(0))["trace_id"], record.trace_id);
  EXPECT_THAT(Lines("text", {}, write).at(0), HasSubstr(" trace_id=4bf92f35"));
}

// docs/faults.md, row 54: whatever a caller names itself and its model, the line is one object, and
// says just that.
TEST_F(AccessLogTest, WhatACallerWroteIsEscapedInJson) {
  const std::string hostile = "a\"},{\"x\":\"\r\n\x1b[2J\xff\xe2\x80\xa8\\";
  AccessRecord record = Request(absl::StatusCode::kNotFound, "model.not_found");
  record.id = record.model = record.version = record.principal = hostile;
  const auto lines = Lines("json", {}, [&](AccessLog& log) { log.Write(record); });
  ASSERT_THAT(lines, SizeIs(1));
  const auto object = nlohmann::json::parse(lines[0]);
  for (const char* name : {"id", "model", "version", "principal"}) {
    EXPECT_EQ(object[name], "a\"},{\"x\":\"\\x0d\\x0a\\x1b[2J\\xff\\xe2\\x80\\xa8\\");
  }
  EXPECT_FALSE(object.contains("x"));
}

TEST_F(AccessLogTest, TheModeSaysWhatIsLogged) {
  const auto write = [](AccessLog& log) {
    log.Write(Request(absl::StatusCode::kOk));
    log.Write(Request(absl::StatusCode::kUnavailable, "queue.full"));
  };
  EXPECT_THAT(Lines("text", {.mode = AccessLogMode::kOff}, write), IsEmpty());
  EXPECT_THAT(Lines("text", {.mode = AccessLogMode::kErrors}, write),
              ElementsAre(HasSubstr("code=UNAVAILABLE")));
  EXPECT_THAT(Lines("text", {.mode = AccessLogMode::kAll}, write), SizeIs(2));
}

TEST_F(AccessLogTest, ASampleIsOfTheAnsweredRequestsOnly) {
  const auto lines = Lines("text", {.mode = AccessLogMode::kAll, .sample = 10}, [](AccessLog& log) {
    for (int i = 0; i < 30; ++i) {
      log.Write(Request(absl::StatusCode::kOk));
      log.Write(Request(absl::StatusCode::kInternal));
    }
  });
  const auto ok = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("code=OK") != std::string::npos;
  });
  EXPECT_EQ(ok, 3);
  EXPECT_THAT(lines, SizeIs(33));
}

TEST_F(AccessLogTest, AFloodOfFailuresIsCountedAndNotWritten) {
  const auto lines = Lines("text", {.max_failures_per_second = 3}, [this](AccessLog& log) {
    for (int i = 0; i < 50; ++i) log.Write(Request(absl::StatusCode::kUnavailable));
    clock_.Advance(kSecond);
    log.Write(Request(absl::StatusCode::kNotFound));
  });
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_THAT(
      lines[3],
      EndsWith(" warning failed requests that are not in this log requests=47 most_in_a_second=3"));
  EXPECT_THAT(lines[4], HasSubstr("code=NOT_FOUND"));
}

TEST_F(AccessLogTest, WhatIsNotWrittenIsToldAtTheEndWhereNoFailureFollows) {
  const auto lines = Lines("text", {.max_failures_per_second = 3}, [](AccessLog& log) {
    log.Flush();
    for (int i = 0; i < 50; ++i) log.Write(Request(absl::StatusCode::kUnavailable));
    log.Flush();
    log.Flush();
  });
  ASSERT_THAT(lines, SizeIs(4)) << "told once, and only where there is something to tell";
  EXPECT_THAT(
      lines[3],
      EndsWith(" warning failed requests that are not in this log requests=47 most_in_a_second=3"));
}

// docs/faults.md, row 54.
TEST_F(AccessLogTest, WhatACallerWroteForgesNoLineAndNoField) {
  AccessRecord record = Request(absl::StatusCode::kNotFound);
  record.id = "a b\" code=OK\r\n{\"level\":\"error\"}\x1b[31m";
  const std::string model(100'000, 'x');
  record.model = model;
  const auto write = [&](AccessLog& log) { log.Write(record); };
  const auto text = Lines("text", {}, write);
  ASSERT_THAT(text, SizeIs(1));
  EXPECT_THAT(text[0],
              HasSubstr(R"(id="a b\" code=OK\\x0d\\x0a{\"level\":\"error\"}\\x1b[31m" model=xxx)"));
  EXPECT_LT(text[0].size(), 1000);
  const auto json = Lines("json", {}, write);
  ASSERT_THAT(json, SizeIs(1));
  EXPECT_EQ(nlohmann::json::parse(json[0])["id"],
            R"(a b" code=OK\x0d\x0a{"level":"error"}\x1b[31m)");
}

}  // namespace
}  // namespace fovea
