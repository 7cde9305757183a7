#include "server/core/quote.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Quote, EscapesAndCuts) {
  EXPECT_EQ(InQuotes("logits"), "'logits'");
  EXPECT_EQ(InQuotes(std::string_view("a\r\n\0", 4)), "'a\\r\\n\\x00'");
  EXPECT_EQ(InQuotes(std::string(65, 'a')), "'" + std::string(64, 'a') + "...'");
}

}  // namespace
}  // namespace fovea
