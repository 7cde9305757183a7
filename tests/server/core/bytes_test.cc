#include <gtest/gtest.h>

#include <random>

#include "server/core/byte_cursor.h"
#include "server/core/bytes_tensor.h"

namespace fovea {
namespace {

std::string Text(const ScatteredBytes& bytes) {
  std::string text(bytes.size(), '\0');
  bytes.CopyTo(0, bytes.size(), text.data());
  return text;
}

// Cut into single bytes with empty pieces in between.
ScatteredBytes Crumbs(std::string_view text) {
  auto owner = std::make_shared<const std::string>(text);
  std::vector<ScatteredBytes::Piece> pieces;
  for (size_t i = 0; i < owner->size(); ++i) {
    pieces.push_back(std::as_bytes(std::span(*owner).subspan(i, 1)));
    pieces.push_back({});
  }
  return ScatteredBytes(std::move(pieces), owner);
}

const std::string kTwoElements = std::string("\x03\0\0\0abc\x00\0\0\0", 11);

TEST(BytesTensor, SplitsIntoItsElements) {
  for (const ScatteredBytes& data : {ScatteredBytes::Copy(kTwoElements), Crumbs(kTwoElements)}) {
    const auto elements = SplitBytesTensor(data, 2);
    ASSERT_TRUE(elements.has_value());
    ASSERT_EQ(elements->size(), 2u);
    EXPECT_EQ(Text((*elements)[0]), "abc");
    EXPECT_EQ((*elements)[1].size(), 0u);
  }
}

TEST(BytesTensor, ElementsKeepTheBytesAlive) {
  auto elements = SplitBytesTensor(ScatteredBytes::Copy(kTwoElements), 2);
  EXPECT_EQ(Text((*elements)[0]), "abc");
}

TEST(BytesTensor, RefusesWhatIsNotSoManyElements) {
  for (const int64_t count : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1} << 40}) {
    EXPECT_FALSE(IsBytesTensor(Crumbs(kTwoElements), count)) << count;
    EXPECT_FALSE(SplitBytesTensor(Crumbs(kTwoElements), count).has_value());
  }
  EXPECT_FALSE(IsBytesTensor(ScatteredBytes::Copy(std::string("\x04\0\0\0abc", 7)), 1));
  EXPECT_FALSE(IsBytesTensor(ScatteredBytes::Copy("\xFF\xFF\xFF\xFF"), 1));
  EXPECT_FALSE(IsBytesTensor(ScatteredBytes::Copy(std::string("\x01\0\0", 3)), 1));
  EXPECT_FALSE(IsBytesTensor(ScatteredBytes::Copy(kTwoElements + "x"), 2));
  EXPECT_TRUE(IsBytesTensor(ScatteredBytes(), 0));
}

TEST(ByteCursor, ReadsTheSameHoweverTheBytesAreCut) {
  const ScatteredBytes crumbs = Crumbs("hello, world");
  ByteCursor cursor(crumbs);
  char word[5];
  ASSERT_TRUE(cursor.Read(5, word));
  EXPECT_EQ(std::string(word, 5), "hello");
  ASSERT_TRUE(cursor.Skip(2));
  EXPECT_EQ(cursor.remaining(), 5u);
  EXPECT_FALSE(cursor.Read(6, word));
  EXPECT_FALSE(cursor.Skip(6));
  std::vector<ScatteredBytes::Piece> taken;
  EXPECT_FALSE(cursor.Take(6, &taken));
  EXPECT_TRUE(taken.empty());
  ASSERT_TRUE(cursor.Take(5, &taken));
  ASSERT_EQ(taken.size(), 1u) << "crumbs that touch are one piece again";
  EXPECT_EQ(taken[0].size(), 5u);
  EXPECT_EQ(cursor.remaining(), 0u);
  EXPECT_TRUE(cursor.Contiguous().empty());
}

}  // namespace
}  // namespace fovea
