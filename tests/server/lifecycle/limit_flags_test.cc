// docs/operations/README.md carries the table of limits, which this test compares with the flags';
// with FOVEA_WRITE_LIMITS=1 it writes the table instead.
#include "server/lifecycle/limit_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  ParsedCommandLine command_line;
  std::string errors;
};

Parsed Parse(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"fovea-server", "--model-repository", "m"});
  std::vector<const char*> arguments;
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  testing::internal::CaptureStderr();
  Parsed parsed{ParseCommandLine(static_cast<int>(arguments.size()), arguments.data()), ""};
  parsed.errors = testing::internal::GetCapturedStderr();
  return parsed;
}

// A row for each flag.
std::string Table() {
  std::string table = "| flag | default | from | to | |\n|---|---|---|---|---|\n";
  for (const LimitFlag& limit : LimitFlags()) {
    absl::StrAppend(&table, "| `", limit.flag, "` | ", ServerOptions().*limit.value, " | ",
                    limit.least, " | ", limit.most, " | ", HelpOf(limit), " |\n");
  }
  return table;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LimitFlagsTest, TheDocumentHasTheirTable) {
  const std::string begin = "<!-- limits -->\n", end = "<!-- end of limits -->\n";
  const std::string document = ReadAll(FOVEA_OPERATING);
  const size_t from = document.find(begin), to = document.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to);
  const size_t table = from + begin.size();
  if (std::getenv("FOVEA_WRITE_LIMITS") != nullptr) {
    std::ofstream(FOVEA_OPERATING) << document.substr(0, table) << Table() << document.substr(to);
    return;
  }
  EXPECT_EQ(document.substr(table, to - table), Table()) << "FOVEA_WRITE_LIMITS=1 writes the table";
}

TEST(LimitFlagsTest, BothBoundsAreTakenAndWhatIsBeyondIsRefusedInWords) {
  for (const LimitFlag& limit : LimitFlags()) {
    for (const int64_t value : {limit.least, limit.most}) {
      const Parsed parsed = Parse({limit.flag, absl::StrCat(value)});
      EXPECT_EQ(parsed.command_line.options.*limit.value, value) << limit.flag;
    }
    for (const std::string& text :
         {absl::StrCat(limit.least - 1), absl::StrCat(limit.most + 1), std::string("1.5"),
          std::string("much"), std::string("99999999999999999999")}) {
      const Parsed parsed = Parse({limit.flag, text});
      EXPECT_EQ(parsed.command_line.exit_code, 2) << limit.flag;
      EXPECT_THAT(parsed.errors,
                  HasSubstr(absl::StrCat(limit.flag, ": ", text, " is not a whole number from ",
                                         limit.least, " to ", limit.most)));
    }
  }
}

TEST(LimitFlagsTest, DefaultsAreWithinTheBounds) {
  for (const LimitFlag& limit : LimitFlags()) {
    const int64_t value = ServerOptions().*limit.value;
    EXPECT_TRUE(limit.least <= value && value <= limit.most) << limit.flag;
  }
  EXPECT_TRUE(Parse({}).command_line.serve);
}

TEST(LimitFlagsTest, EachIsAVariableAndAKeyOfTheFileToo) {
  setenv("FOVEA_GRPC_MAX_CONNECTION_AGE", "1234", 1);
  EXPECT_EQ(Parse({}).command_line.options.grpc_max_connection_age_ms, 1234);
  unsetenv("FOVEA_GRPC_MAX_CONNECTION_AGE");
  const std::string path = testing::TempDir() + "fovea_limit_flags_test.toml";
  for (const LimitFlag& limit : LimitFlags()) {
    if (limit.value == &ServerOptions::request_memory_mb) continue;  // hangs on others
    std::ofstream(path) << (limit.flag + 2) << " = " << limit.most << "\n";
    EXPECT_EQ(Parse({"--config", path}).command_line.options.*limit.value, limit.most)
        << limit.flag;
  }
}

}  // namespace
}  // namespace fovea
