#include "server/core/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace fovea {
namespace {

constexpr int64_t kLarge = int64_t{1} << 62;

TEST(DataTypeTest, NamesAndSizesAreTheProtocols) {
  const std::pair<std::string_view, size_t> expected[] = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"BF16", 2}, {"FP32", 4},  {"FP64", 8},   {"BYTES", 0}};
  for (const auto& [name, size] : expected) {
    const std::optional<DataType> type = ParseDataType(name);
    ASSERT_TRUE(type.has_value()) << name;
    EXPECT_EQ(DataTypeName(*type), name);
    EXPECT_EQ(ElementSize(*type), size);
  }
  for (std::string_view name : {"", "fp32", "FP32 ", "FLOAT", "INT128"}) {
    EXPECT_FALSE(ParseDataType(name).has_value()) << name;
  }
}

// docs/faults.md, row 8.
TEST(ElementCountTest, FindsOverflow) {
  const auto count = [](std::vector<int64_t> shape) { return ElementCount(shape); };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({2, 3, 4}), 24);
  EXPECT_EQ(count({2, 0, kLarge}), 0);
  EXPECT_EQ(count({kLarge, 1}), kLarge);
  EXPECT_FALSE(count({kLarge, 2}).has_value());
  EXPECT_FALSE(count({16, (int64_t{1} << 60) + 2}).has_value());  // 32 after wrapping round
  EXPECT_FALSE(count({kLarge, 4, 0}).has_value());
  EXPECT_FALSE(count({-1, 3}).has_value());
  EXPECT_FALSE(count({std::numeric_limits<int64_t>::min()}).has_value());
}

// "abcdefghij" in pieces of which some are empty.
class ScatteredBytesTest : public testing::Test {
 protected:
  static ScatteredBytes Scatter() {
    auto owner = std::make_shared<const std::string>("abcdefghij");
    const auto bytes = std::as_bytes(std::span(*owner));
    return ScatteredBytes({bytes.subspan(0, 3), {}, bytes.subspan(3, 1), bytes.subspan(4, 6)},
                          owner);
  }
  static std::string Text(const ScatteredBytes& bytes, size_t offset, size_t count) {
    std::string text(count, '?');
    bytes.CopyTo(offset, count, text.data());
    return text;
  }
  static std::string Text(ScatteredBytes::Piece piece) {
    return std::string(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
};

TEST_F(ScatteredBytesTest, CopiesEveryRange) {
  const ScatteredBytes bytes = Scatter();
  ASSERT_EQ(bytes.size(), 10u);
  const std::string all = "abcdefghij";
  for (size_t offset = 0; offset <= all.size(); ++offset) {
    for (size_t count = 0; offset + count <= all.size(); ++count) {
      EXPECT_EQ(Text(bytes, offset, count), all.substr(offset, count));
    }
  }
}

TEST_F(ScatteredBytesTest, SlicesEveryRangeWithoutCopying) {
  const ScatteredBytes bytes = Scatter();
  const std::string all = "abcdefghij";
  for (size_t offset = 0; offset <= all.size(); ++offset) {
    for (size_t count = 0; offset + count <= all.size(); ++count) {
      const ScatteredBytes slice = bytes.Slice(offset, count);
      ASSERT_EQ(slice.size(), count);
      EXPECT_EQ(Text(slice, 0, count), all.substr(offset, count));
      EXPECT_EQ(slice.owner(), bytes.owner());
    }
  }
  EXPECT_EQ(bytes.Slice(1, 2).pieces()[0].data(), bytes.pieces()[0].data() + 1);
}

TEST_F(ScatteredBytesTest, RefusesRangesOutsideOfIt) {
  const ScatteredBytes bytes = Scatter();
  char to[16];
  EXPECT_DEATH(bytes.CopyTo(0, 11, to), "check failed");
  EXPECT_DEATH(bytes.CopyTo(11, 0, to), "check failed");
  EXPECT_DEATH(bytes.CopyTo(5, std::numeric_limits<size_t>::max(), to), "check failed");
  EXPECT_DEATH((void)bytes.Slice(9, 2), "check failed");
}

TEST_F(ScatteredBytesTest, KeepsItsBytesAlive) {
  ScatteredBytes slice;
  {
    const ScatteredBytes bytes = Scatter();
    slice = bytes.Slice(2, 5);
  }
  EXPECT_EQ(Text(slice, 0, 5), "cdefg");
  const ScatteredBytes copy = ScatteredBytes::Copy(std::string("temporary"));
  EXPECT_EQ(Text(copy, 0, 9), "temporary");
}

TEST_F(ScatteredBytesTest, IsContiguousWithoutACopyWhereItLiesInOnePiece) {
  std::vector<std::byte> storage;
  const ScatteredBytes one = ScatteredBytes::Copy("abc");
  EXPECT_EQ(one.Contiguous(&storage).data(), one.pieces()[0].data());
  EXPECT_TRUE(storage.empty());
  EXPECT_EQ(Text(Scatter().Contiguous(&storage)), "abcdefghij");
  EXPECT_EQ(storage.size(), 10u);
  EXPECT_TRUE(ScatteredBytes().Contiguous(&storage).empty());
}

}  // namespace
}  // namespace fovea
