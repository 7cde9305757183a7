#include "base/exif.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::Big16;
using testing::Big32;
using testing::File;
using testing::FromText;

// A big-endian TIFF structure of one directory entry.
File OneEntry(uint32_t tag, uint32_t type, uint32_t count, uint32_t value) {
  return FromText("MM") + Big16(42) + Big32(8) + Big16(1) + Big16(tag) + Big16(type) +
         Big32(count) + Big16(value) + Big16(0) + Big32(0);
}

TEST(Exif, ReadsTheOrientationInBothByteOrders) {
  for (uint32_t orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 3, 1, orientation)), static_cast<int>(orientation));
  }
  const std::string_view little("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
                                26);
  EXPECT_EQ(ExifOrientation(FromText(little)), 6);
}

TEST(Exif, Row19ValuesOutOfRangeAreIgnored) {
  for (const uint32_t bad : {0u, 9u, 255u, 256u, 65535u})
    EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 3, 1, bad)), 1);
}

TEST(Exif, Row19OtherTypesCountsAndTagsAreIgnored) {
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 1, 1, 6)), 1);
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 3, 0, 6)), 1);
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 3, 3, 6)), 1);  // would lie elsewhere
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 4, 1, 6)), 1);  // 6 << 16
  EXPECT_EQ(ExifOrientation(OneEntry(0x0113, 3, 1, 6)), 1);
}

TEST(Exif, Row19WhatPillowReadsBesidesTheStandardIsRead) {
  const auto with_long = [](uint32_t type) {
    return FromText("MM") + Big16(42) + Big32(8) + Big16(1) + Big16(0x0112) + Big16(type) +
           Big32(1) + Big32(6) + Big32(0);
  };
  EXPECT_EQ(ExifOrientation(with_long(4)), 6);
  EXPECT_EQ(ExifOrientation(with_long(9)), 6);
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 8, 1, 6)), 6);
  EXPECT_EQ(ExifOrientation(OneEntry(0x0112, 3, 2, 6)), 6);
  EXPECT_EQ(ExifOrientation(FromText(std::string_view("Exif\0\0", 6)) + OneEntry(0x0112, 3, 1, 6)),
            6);
  // The magic in the other byte order.
  File swapped = OneEntry(0x0112, 3, 1, 6);
  std::swap(swapped[2], swapped[3]);
  EXPECT_EQ(ExifOrientation(swapped), 6);
  const std::string_view little("II\0*\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
                                26);
  EXPECT_EQ(ExifOrientation(FromText(little)), 6);
}

TEST(Exif, Row19EveryTruncationIsReadWithoutHarm) {
  const File whole = OneEntry(0x0112, 3, 1, 8);
  ASSERT_EQ(ExifOrientation(whole), 8);
  for (size_t size = 0; size < whole.size(); ++size) {
    const File part(
        whole.begin(),
        whole.begin() + static_cast<ptrdiff_t>(size));  // its own allocation, for the sanitizer
    const int expected =
        size >= 22 ? 8 : 1;  // the entry ends at 22; the link after it is never read
    EXPECT_EQ(ExifOrientation(part), expected) << size;
  }
}

TEST(Exif, Row19DirectoriesThatPointAtThemselvesOrNowhereEnd) {
  File itself = OneEntry(0x0100, 3, 1, 1);
  itself[25] = std::byte(8);  // the next directory is this one
  EXPECT_EQ(ExifOrientation(itself), 1);
  for (const uint32_t offset : {0u, 24u, 25u, 26u, 0x7fffffffu, 0xffffffffu}) {
    const File file = FromText("MM") + Big16(42) + Big32(offset) + File(18);
    EXPECT_EQ(ExifOrientation(file), 1) << offset;
  }
  EXPECT_EQ(ExifOrientation(FromText("MM") + Big16(42) + Big32(8) + Big16(0xffff) + File(40)), 1);
}

// EXIF 2.32, table 6: which side of the picture the first row, and which the first column is.
TEST(Exif, EachOrientationIsTurnedUpright) {
  using Sides = std::pair<std::string_view, std::string_view>;
  const Sides sides[] = {{"top", "left"},     {"top", "right"},  {"bottom", "right"},
                         {"bottom", "left"},  {"left", "top"},   {"right", "top"},
                         {"right", "bottom"}, {"left", "bottom"}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const UprightTurn turn = TurnOf(orientation);
    const auto& [row, column] = sides[orientation - 1];
    // Once rows are columns, the first column is the stored first row.
    const std::string_view top = turn.transposed ? column : row;
    const std::string_view left = turn.transposed ? row : column;
    EXPECT_EQ(top, turn.upside_down ? "bottom" : "top") << orientation;
    EXPECT_EQ(left, turn.mirrored ? "right" : "left") << orientation;
  }
}

}  // namespace
}  // namespace fovea
