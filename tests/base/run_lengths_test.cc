#include "base/run_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace fovea {
namespace {

using ::testing::ElementsAre;

std::string TextOf(const std::vector<int64_t>& lengths) {
  RunLengths runs;
  for (size_t i = 0; i < lengths.size(); ++i) runs.Add(i % 2 == 1, lengths[i]);
  return runs.Text();
}

TEST(RunLengthsTest, AreWrittenAsCocoDoes) {
  // By pycocotools 2.0.11.
  EXPECT_EQ(RunLengths().Text(), "0");
  EXPECT_EQ(TextOf({2, 3, 1}), "231");
  EXPECT_EQ(TextOf({0, 4}), "04");
  EXPECT_EQ(TextOf({2, 0, 0, 3, 1}), "231") << "runs without a pixel join their neighbours";
}

TEST(RunLengthsTest, AreReadAsTheyAreWritten) {
  EXPECT_THAT(*ReadRunLengths("231", 6), ElementsAre(2, 3, 1));
  EXPECT_EQ(ReadRunLengths("[2l1:00mNG99j0000000Q2", 630)->front(), 75);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<int64_t> lengths = {static_cast<int64_t>(random() % 3)};
    int64_t pixels = lengths[0];
    for (unsigned more = random() % 20; more > 0; --more) {
      lengths.push_back(static_cast<int64_t>(1 + random() % (uint64_t{1} << random() % 25)));
      pixels += lengths.back();
    }
    EXPECT_EQ(ReadRunLengths(TextOf(lengths), pixels), lengths);
    EXPECT_EQ(ReadRunLengths(TextOf(lengths), pixels + 1), std::nullopt);
  }
}

TEST(RunLengthsTest, WhatFillsNoMaskIsRefused) {
  for (const char* text : {"", "231x", "23", "2311", "q", " ", "\x7f", "P", "O", "oooooooooooooo",
                           "PPPPPPPPPPPPPPP1"}) {
    EXPECT_FALSE(ReadRunLengths(text, 6)) << text;
  }
  // A text that says nothing at length would take eight times its size.
  EXPECT_FALSE(ReadRunLengths(std::string(100, '0') + "6", 6));
}

TEST(RunLengthsTest, AnyBytesEndInLengthsThatFillTheMaskOrInNone) {
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text(1 + random() % 4, ' ');
    for (char& c : text) c = static_cast<char>(random() % 8 == 0 ? random() : '0' + random() % 24);
    const auto lengths = ReadRunLengths(text, 16);
    if (!lengths) continue;
    int64_t pixels = 0;
    for (const int64_t length : *lengths) {
      EXPECT_GE(length, 0);
      pixels += length;
    }
    EXPECT_EQ(pixels, 16);
    ++read;
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace fovea
