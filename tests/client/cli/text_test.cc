#include "client/cpp/cli/text.h"

#include <gtest/gtest.h>

namespace fovea::client {
namespace {

TEST(Text, NumbersHaveFixedDecimals) {
  EXPECT_EQ(Milliseconds(absl::Microseconds(12'345)), "12.35");
  EXPECT_EQ(Mebibytes(3.5 * (1 << 20)), "3.50");
  EXPECT_EQ(Percent(0.6314), "63.1 %");
  EXPECT_EQ(Gmacs(1'254'000'000, 2), "1.25");
}

TEST(Text, MultiplyAddsThatWereNotCountedAreNoZero) { EXPECT_EQ(Gmacs(0, 2), "-"); }

TEST(Text, TimeSinceIsInTheUnitThatReadsBest) {
  EXPECT_EQ(Ago(absl::Seconds(12)), "12 s ago");
  EXPECT_EQ(Ago(absl::Minutes(5)), "5 min ago");
  EXPECT_EQ(Ago(absl::Hours(5)), "5 h ago");
  EXPECT_EQ(Ago(absl::Hours(72)), "3 days ago");
  EXPECT_EQ(Ago(absl::InfiniteDuration()), "never");
  EXPECT_EQ(Ago(absl::Seconds(-3)), "0 s ago");  // the server's clock is ahead
}

TEST(Text, AModelIsANameOrANameAndAVersion) {
  EXPECT_EQ(ParseModel("shapes")->name, "shapes");
  EXPECT_EQ(ParseModel("shapes")->version, "");
  EXPECT_EQ(ParseModel("shapes/2")->name, "shapes");
  EXPECT_EQ(ParseModel("shapes/2")->version, "2");
  for (const char* wrong : {"", "/", "/2", "shapes/", "shapes/2/3"}) {
    EXPECT_FALSE(ParseModel(wrong).ok()) << wrong;
  }
}

TEST(Text, ATimeIsSecondsOrHasAUnit) {
  EXPECT_EQ(ParseTime("2").value(), absl::Seconds(2));
  EXPECT_EQ(ParseTime("0.5").value(), absl::Milliseconds(500));
  EXPECT_EQ(ParseTime("250ms").value(), absl::Milliseconds(250));
  EXPECT_EQ(ParseTime("2m").value(), absl::Minutes(2));
  for (const char* wrong : {"", "0", "-1", "0ms", "soon", "nan", "2 parsecs", "32d"}) {
    EXPECT_FALSE(ParseTime(wrong).ok()) << wrong;
  }
}

TEST(Text, InHtmlIsNoMarkup) {
  EXPECT_EQ(HtmlText("<a href='x'>\x1b & \"y\""),
            "&lt;a href=&#39;x&#39;&gt;? &amp; &quot;y&quot;");
}

TEST(Text, AShapeLeavesTheBatchOut) {
  EXPECT_EQ(ShapeText({-1, 3, 224, 224}), "3x224x224");
  EXPECT_EQ(ShapeText({-1, -1, -1, 3}), "?x?x3");
  EXPECT_EQ(ShapeText({-1}), "");
}

TEST(Text, AClassWithoutALabelHasItsNumber) {
  EXPECT_EQ(LabelOf({.index = 17, .label = "tabby"}), "tabby");
  EXPECT_EQ(LabelOf({.index = 17}), "class 17");
}

TEST(Text, ForATerminalHasNoControlCharactersAndIsUtf8) {
  EXPECT_EQ(Printable("Käfer 甲虫"), "Käfer 甲虫");
  EXPECT_EQ(Printable("a\tb\x7f"), "a?b?");
  EXPECT_EQ(Printable("\xC2\x9B"), "?");               // U+009B, an escape of one character
  EXPECT_EQ(Printable("a\u202Eb\u2028c"), "a?b?c");    // turns what follows; ends a line
  EXPECT_EQ(Printable("\xE4 \xFF\xC0\x80"), "? ???");  // Latin-1, no lead byte, overlong
  EXPECT_EQ(Printable("\xF0\x9F\x98"), "???");         // cut off
}

TEST(Text, IsShortenedBetweenCharacters) {
  EXPECT_EQ(Shortened("甲虫甲虫", 3), "甲虫…");
  EXPECT_EQ(Shortened("abc", 3), "abc");
}

}  // namespace
}  // namespace fovea::client
