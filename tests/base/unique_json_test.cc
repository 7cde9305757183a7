#include "base/unique_json.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <nlohmann/json.hpp>
#include <string>

namespace fovea {
namespace {

std::string Nested(int depth, char opens, char closes) {
  const std::string inner(static_cast<size_t>(depth), opens);
  return inner + std::string(static_cast<size_t>(depth), closes);
}

TEST(UniqueJsonTest, AKeyStandsOnceInAnObject) {
  EXPECT_TRUE(ParseUniqueJson(R"({"a": {"a": 1}, "b": [{"a": 2}]})"));
  EXPECT_FALSE(ParseUniqueJson(R"({"b": [{"a": 1, "a": 2}]})"));
  EXPECT_FALSE(ParseUniqueJson("{"));
}

void* CheckDepths(void*) {
  const std::string deepest = Nested(100, '[', ']');
  const auto parsed = ParseUniqueJson(deepest);
  EXPECT_TRUE(parsed && parsed->dump() == deepest && *parsed == nlohmann::json(*parsed));
  EXPECT_FALSE(ParseUniqueJson(Nested(101, '[', ']')));
  EXPECT_FALSE(ParseUniqueJson(Nested(1'000'000, '[', ']')));
  std::string objects;
  for (int i = 0; i < 101; ++i) objects += R"({"a":)";
  EXPECT_FALSE(ParseUniqueJson(objects + "1" + std::string(101, '}')));
  return nullptr;
}

// Row 105: what is deeper would overflow small stacks when it is written or compared.
TEST(UniqueJsonTest, IsNestedAtMostAHundredDeepAlsoWhereStacksAreSmall) {
  pthread_attr_t small;
  ASSERT_EQ(pthread_attr_init(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, 256 << 10), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &small, CheckDepths, nullptr), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&small);
}

}  // namespace
}  // namespace fovea
