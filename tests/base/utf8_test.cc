#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea {
namespace {

std::string Encode(uint32_t value) {
  const auto lead = [&](uint32_t mark, int shift) {
    return static_cast<char>(mark | value >> shift);
  };
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) return {lead(0, 0)};
  if (value < 0x800) return {lead(0xC0, 6), tail(0)};
  if (value < 0x10000) return {lead(0xE0, 12), tail(6), tail(0)};
  return {lead(0xF0, 18), tail(12), tail(6), tail(0)};
}

TEST(Utf8Test, DecodesEveryCodePointThereIs) {
  for (uint32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value < 0xE000) continue;
    const std::string text = Encode(value);
    const CodePoint decoded = DecodeUtf8(text + "x");
    ASSERT_EQ(decoded.value, value) << std::hex << value;
    ASSERT_EQ(decoded.length, static_cast<int>(text.size()));
    if (text.size() > 1) {
      ASSERT_EQ(DecodeUtf8(text.substr(0, text.size() - 1)).value, CodePoint::kInvalid);
    }
  }
}

TEST(Utf8Test, RefusesWhatIsNotUtf8) {
  for (const char* text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF",
                           "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82(", "\xF0\x9F\x98("}) {
    const CodePoint decoded = DecodeUtf8(text);
    EXPECT_EQ(decoded.value, CodePoint::kInvalid) << text;
    EXPECT_EQ(decoded.length, 1);
  }
}

TEST(Utf8Test, KnowsControlCharacters) {
  for (uint32_t control : {0x00, 0x0A, 0x1B, 0x1F, 0x7F, 0x80, 0x9B, 0x9F}) {
    EXPECT_TRUE(IsControl(control)) << control;
  }
  for (uint32_t other : {0x20, 0x41, 0x7E, 0xA0, 0xE9}) EXPECT_FALSE(IsControl(other)) << other;
}

TEST(Utf8Test, KnowsWhatMisleadsItsReader) {
  for (uint32_t mark : {0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069}) {
    EXPECT_TRUE(IsMisleading(mark)) << mark;
  }
  for (uint32_t other : {0x41, 0x05D0, 0x0627, 0x200D, 0x2027, 0x202F, 0x2065, 0x206A}) {
    EXPECT_FALSE(IsMisleading(other)) << other;
  }
}

}  // namespace
}  // namespace fovea
