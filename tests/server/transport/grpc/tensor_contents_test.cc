#include "server/transport/grpc/tensor_contents.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.h"
#include "base/status.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using inference::InferTensorContents;

template <typename T>
std::string Raw(const std::vector<T>& elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

absl::StatusOr<ScatteredBytes> ReadBytes(std::string_view bytes, DataType type, int64_t elements) {
  const TestMessage message(bytes);
  ContentsBudget budget;
  return ReadTensorContents(message.bytes().pieces, message.bytes().owner, type, elements, &budget);
}

void ExpectElements(const InferTensorContents& contents, DataType type, int64_t elements,
                    const std::string& raw) {
  const auto data = ReadBytes(contents.SerializeAsString(), type, elements);
  ASSERT_TRUE(data.ok()) << DataTypeName(type) << ": " << data.status();
  EXPECT_EQ(Text(*data), raw) << DataTypeName(type);
  // One more or one less than the shape says.
  for (const int64_t other : {elements - 1, elements + 1}) {
    EXPECT_EQ(ReasonOf(ReadBytes(contents.SerializeAsString(), type, other).status()),
              "request.contents_count")
        << DataTypeName(type) << " " << other;
  }
  // And back, in one part or two.
  for (const size_t first : {size_t{0}, ElementSize(type), raw.size()}) {
    OutputTensor output{"output", type, {elements}, raw.substr(0, first), {raw.substr(first)}};
    const int64_t most = TypedContentsBytes(output);
    std::string written;
    for (const std::string& chunk : WriteTensorContents(std::move(output)).TakeChunks()) {
      written += chunk;
    }
    EXPECT_LE(written.size(), most) << DataTypeName(type);
    InferTensorContents read;
    ASSERT_TRUE(read.ParseFromString(written));
    EXPECT_EQ(read.SerializeAsString(), contents.SerializeAsString()) << DataTypeName(type);
  }
}

TEST(ReadTensorContents, ReadsEveryType) {
  InferTensorContents contents;
  for (const bool value : {true, false, true}) contents.add_bool_contents(value);
  ExpectElements(contents, DataType::kBool, 3, Raw<uint8_t>({1, 0, 1}));

  contents = InferTensorContents();
  for (const int value : {-128, -1, 0, 127}) contents.add_int_contents(value);
  ExpectElements(contents, DataType::kInt8, 4, Raw<int8_t>({-128, -1, 0, 127}));
  ExpectElements(contents, DataType::kInt16, 4, Raw<int16_t>({-128, -1, 0, 127}));
  ExpectElements(contents, DataType::kInt32, 4, Raw<int32_t>({-128, -1, 0, 127}));

  contents = InferTensorContents();
  for (const int64_t value : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    contents.add_int64_contents(value);
  }
  ExpectElements(contents, DataType::kInt64, 3, Raw<int64_t>({INT64_MIN, -1, INT64_MAX}));

  contents = InferTensorContents();
  for (const uint32_t value : {0u, 7u, 255u}) contents.add_uint_contents(value);
  ExpectElements(contents, DataType::kUint8, 3, Raw<uint8_t>({0, 7, 255}));
  ExpectElements(contents, DataType::kUint16, 3, Raw<uint16_t>({0, 7, 255}));
  ExpectElements(contents, DataType::kUint32, 3, Raw<uint32_t>({0, 7, 255}));

  contents = InferTensorContents();
  contents.add_uint64_contents(UINT64_MAX);
  contents.add_uint64_contents(5);
  ExpectElements(contents, DataType::kUint64, 2, Raw<uint64_t>({UINT64_MAX, 5}));

  contents = InferTensorContents();
  for (const float value : {1.5f, -0.f, 3e38f}) contents.add_fp32_contents(value);
  ExpectElements(contents, DataType::kFp32, 3, Raw<float>({1.5f, -0.f, 3e38f}));

  contents = InferTensorContents();
  for (const double value : {1.5, -1e300}) contents.add_fp64_contents(value);
  ExpectElements(contents, DataType::kFp64, 2, Raw<double>({1.5, -1e300}));

  contents = InferTensorContents();
  for (const std::string value : {"one", "", "three"}) contents.add_bytes_contents(value);
  ExpectElements(contents, DataType::kBytes, 3, Framed({"one", "", "three"}));
}

TEST(ReadTensorContents, PackedOrNotAndInSeveralRuns) {
  // int_contents: 1 by itself, then 2 and 3 packed, then 4 by itself.
  const std::string varints = "\x10\x01\x12\x02\x02\x03\x10\x04";
  const auto integers = ReadBytes(varints, DataType::kInt16, 4);
  ASSERT_TRUE(integers.ok()) << integers.status();
  EXPECT_EQ(Text(*integers), Raw<int16_t>({1, 2, 3, 4}));
  // fp32_contents: one by itself, two packed.
  const std::string floats = "\x35" + Raw<float>({1}) + "\x32\x08" + Raw<float>({2, 3});
  const auto numbers = ReadBytes(floats, DataType::kFp32, 3);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(Text(*numbers), Raw<float>({1, 2, 3}));
}

TEST(ReadTensorContents, FloatsAndFilesAreNotCopied) {
  InferTensorContents contents;
  for (int i = 0; i < 100; ++i) contents.add_fp32_contents(i);
  const TestMessage message(contents.SerializeAsString());
  const auto whole = message.bytes().pieces[0];
  ContentsBudget budget;
  const auto data =
      ReadTensorContents(message.bytes().pieces, nullptr, DataType::kFp32, 100, &budget);
  ASSERT_TRUE(data.ok());
  ASSERT_EQ(data->pieces().size(), 1u);
  EXPECT_GE(data->pieces()[0].data(), whole.data());
  EXPECT_LE(data->pieces()[0].data(), whole.data() + whole.size());
}

TEST(ReadTensorContents, ANumberFitsItsType) {
  InferTensorContents contents;
  contents.add_int_contents(128);
  EXPECT_TRUE(ReadBytes(contents.SerializeAsString(), DataType::kInt16, 1).ok());
  EXPECT_EQ(ReasonOf(ReadBytes(contents.SerializeAsString(), DataType::kInt8, 1).status()),
            "request.contents_range");
  contents.set_int_contents(0, -32769);
  EXPECT_FALSE(ReadBytes(contents.SerializeAsString(), DataType::kInt16, 1).ok());
  contents = InferTensorContents();
  contents.add_uint_contents(256);
  EXPECT_FALSE(ReadBytes(contents.SerializeAsString(), DataType::kUint8, 1).ok());
  EXPECT_TRUE(ReadBytes(contents.SerializeAsString(), DataType::kUint16, 1).ok());
}

TEST(ReadTensorContents, HalfFloatsComeRawOnly) {
  EXPECT_EQ(ReasonOf(ReadBytes("", DataType::kFp16, 0).status()), "request.contents_type");
  EXPECT_EQ(ReasonOf(ReadBytes("", DataType::kBf16, 0).status()), "request.contents_type");
}

TEST(ReadTensorContents, ElementsOfAnotherTypeAreRefused) {
  InferTensorContents contents;
  contents.add_fp32_contents(1);
  EXPECT_EQ(ReasonOf(ReadBytes(contents.SerializeAsString(), DataType::kInt32, 1).status()),
            "request.contents_type");
}

TEST(ReadTensorContents, MalformedRunsAreRefused) {
  const std::vector<std::pair<std::string, DataType>> cases = {
      {"\x12\x02\x80\x80", DataType::kInt32},                      // a number that does not end
      {std::string("\x12\x01\x80\x10\x01", 5), DataType::kInt32},  // one that runs out of its run
      {"\x32\x03zzz", DataType::kFp32},                            // no whole float
      {"\x32\x40zzzz", DataType::kFp32},                           // longer than the message
      {"\x30\x01zz", DataType::kFp32},                             // a float as a varint
      {"\x40\x01zz", DataType::kBytes},                            // bytes as a varint
      {"\x15\x01\x02\x03\x04", DataType::kInt32},                  // a varint as a fixed number
  };
  for (const auto& [bytes, type] : cases) {
    const auto data = ReadBytes(bytes, type, 1);
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument)
        << testing::PrintToString(bytes);
  }
}

// docs/faults.md, row 6.
TEST(ReadTensorContents, IntegersAreConvertedUpToALimit) {
  const auto integers = [](int64_t count) {
    InferTensorContents contents;
    contents.mutable_int_contents()->Resize(static_cast<int>(count), 1);
    return contents.SerializeAsString();
  };
  constexpr int64_t kMost = limits::kMaxConvertedElements;
  EXPECT_TRUE(ReadBytes(integers(kMost), DataType::kInt8, kMost).ok());
  const auto more = ReadBytes(integers(kMost + 1), DataType::kInt8, kMost + 1);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted) << more.status();
  EXPECT_EQ(ReasonOf(more.status()), "request.contents_too_large");

  // Of all tensors of a request together.
  const TestMessage message(integers(kMost / 2 + 1));
  ContentsBudget budget;
  const auto read = [&] {
    return ReadTensorContents(message.bytes().pieces, nullptr, DataType::kInt8, kMost / 2 + 1,
                              &budget);
  };
  EXPECT_TRUE(read().ok());
  EXPECT_EQ(read().status().code(), absl::StatusCode::kResourceExhausted);
}

// docs/faults.md, row 6.
TEST(ReadTensorContents, FieldsAreReadUpToALimit) {
  // Floats one by one: each would be a piece of its own.
  std::string floats;
  for (int64_t i = 0; i < limits::kMaxContentsFields; ++i) floats += "\x35zzzz";
  const int64_t count = limits::kMaxContentsFields;
  EXPECT_TRUE(ReadBytes(floats, DataType::kFp32, count).ok());
  EXPECT_EQ(ReadBytes(floats + "\x35zzzz", DataType::kFp32, count + 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  // Empty runs, and fields that nobody knows.
  for (const std::string& field : {std::string("\x12\x00", 2), std::string("\x48\x01")}) {
    std::string fields;
    for (int64_t i = 0; i <= limits::kMaxContentsFields; ++i) fields += field;
    EXPECT_EQ(ReadBytes(fields, DataType::kInt8, 1).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

TEST(ReadTensorContents, TheShapesCountIsNotBelieved) {
  EXPECT_EQ(ReasonOf(ReadBytes("\x10\x01", DataType::kInt64, int64_t{1} << 40).status()),
            "request.contents_count");
  EXPECT_EQ(ReasonOf(ReadBytes("\x42\x01z", DataType::kBytes, INT64_MAX).status()),
            "request.contents_count");
}

}  // namespace
}  // namespace fovea
