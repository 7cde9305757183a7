#include "model_zoo/weights/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/limits.h"
#include "model_zoo/weights/safetensors_writer.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("safetensors_" + std::to_string(::getpid()) + ".safetensors")) {}
  ~SafetensorsTest() override { std::filesystem::remove(path_); }

  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string OpenError() const {
    return ErrorOf([&] { SafetensorsFile file(path_); });
  }
  std::string OpenError(const std::string& bytes) const {
    Write(bytes);
    return OpenError();
  }

  const std::filesystem::path path_;
};

std::string WithLength(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + rest;
}

std::string File(const std::string& header, size_t data_bytes) {
  return WithLength(header.size(), header) + std::string(data_bytes, '\1');
}

// A tensor "a" of two floats with one field replaced.
std::string Tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
const std::string kTwoFloats = Tensor(R"("F32")", "[2]", "[0,8]");

TEST_F(SafetensorsTest, ReadsWhatItWroteInEveryType) {
  const at::Tensor a = at::arange(6, at::kFloat).reshape({2, 3}) - 2.5;
  const at::Tensor b =
      at::linspace(-1, 1, 300'001, at::kFloat);  // more than one staging buffer of halves
  for (auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    WriteSafetensors(
        path_,
        {{"layer.a", a}, {"b", b}, {"empty", at::empty({0, 3})}, {"scalar", at::full({}, 4.f)}},
        dtype, {{"made by", "a test"}});
    const SafetensorsFile file(path_);
    ASSERT_EQ(file.tensors().size(), 4u);
    for (const StoredTensor& stored : file.tensors()) {
      const at::Tensor read = at::full(stored.shape, -7, at::kFloat);
      file.ReadInto(stored, read);
      const at::Tensor& written = stored.name == "layer.a" ? a : stored.name == "b" ? b : read;
      EXPECT_TRUE(at::equal(read, written.to(dtype).to(at::kFloat)))
          << stored.name << " as " << dtype;
      if (stored.name == "scalar") {
        EXPECT_EQ(read.item<float>(), 4);
      }
    }
    file.CheckUnchanged();
  }
}

TEST_F(SafetensorsTest, ATensorThatHalfDoesNotHoldStaysAsItIs) {
  const at::Tensor odd = at::full({3}, 0.5f), variance = at::tensor({1.f, 250'000.f});
  const at::Tensor broken = at::full({1}, std::numeric_limits<float>::infinity());
  WriteSafetensors(path_, {{"odd", odd}, {"variance", variance}, {"broken", broken}}, at::kHalf);
  const SafetensorsFile file(path_);
  for (const StoredTensor& stored : file.tensors()) {
    EXPECT_EQ(stored.type == StoredType::kF32, stored.name == "variance") << stored.name;
    const at::Tensor read = at::empty(stored.shape, at::kFloat);
    file.ReadInto(stored, read);
    const at::Tensor& written = stored.name == "odd"        ? odd
                                : stored.name == "variance" ? variance
                                                            : broken;
    EXPECT_TRUE(at::equal(read, written)) << stored.name;
  }
}

TEST_F(SafetensorsTest, WritesTheSameBytesAgainAndAlignsTheData) {
  auto bytes = [&] {
    WriteSafetensors(path_, {{"a", at::ones({3})}}, at::kHalf, {{"x", "y"}});
    std::ifstream in(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string first = bytes();
  EXPECT_EQ(first, bytes());
  EXPECT_EQ((first.size() - 6) % 8, 0u);
}

TEST_F(SafetensorsTest, AcceptsAPaddedHeaderAndMetadata) {
  const std::string header =
      R"({"__metadata__":{"format":"pt","":"\u00e9"},"a":)" + kTwoFloats + "}   ";
  Write(File(header, 8));
  EXPECT_EQ(SafetensorsFile(path_).tensors().size(), 1u);
}

TEST_F(SafetensorsTest, AHeaderLimitIsTheServersOwn) {
  EXPECT_EQ(kMaxSafetensorsHeaderBytes, static_cast<uint64_t>(limits::kMaxSafetensorsHeaderBytes));
}

// docs/faults.md, row 27.
TEST_F(SafetensorsTest, EveryCorruptionIsRefusedInWords) {
  const std::string valid = R"({"a":)" + kTwoFloats + "}";
  ASSERT_EQ(OpenError(File(valid, 8)), "no error");
  auto with = [](const std::string& tensor) { return File(R"({"a":)" + tensor + "}", 8); };
  struct Case {
    std::string what, bytes, error;
  };
  const Case cases[] = {
      {"empty", "", "only 0 bytes"},
      {"shorter than the length", "1234567", "only 7 bytes"},
      {"length past 100 MB", WithLength(100'000'001, valid),
       "a header of 100000001 bytes, at most"},
      {"length of 2^64-1", WithLength(~uint64_t{0}, valid), "at most 100000000"},
      {"length past the file", WithLength(valid.size() + 1, valid), "bytes in a file of"},
      {"length past a short file", WithLength(90'000'000, valid), "bytes in a file of"},
      {"empty header", File("", 0), "begin with '{'"},
      {"leading space", File(" " + valid, 8), "begin with '{'"},
      {"an array", File("[]", 0), "begin with '{'"},
      {"bad UTF-8", File("{\"\xff\":" + kTwoFloats + "}", 8), "not UTF-8"},
      {"overlong UTF-8", File("{\"\xc0\xaf\":" + kTwoFloats + "}", 8), "not UTF-8"},
      {"a surrogate in UTF-8", File("{\"\xed\xa0\x80\":" + kTwoFloats + "}", 8), "not UTF-8"},
      {"cut UTF-8", File("{\"\xe2\x82", 0), "not UTF-8"},
      {"cut JSON", File("{\"a\":", 8), "not JSON from byte"},
      {"text behind the JSON", File(valid + "x", 8), "not JSON from byte"},
      {"zero padding", File(valid + std::string(1, '\0'), 8), "not JSON from byte"},
      {"a name twice", File(R"({"a":)" + kTwoFloats + R"(,"a":)" + kTwoFloats + "}", 8),
       "names 'a' twice"},
      {"a name twice, escaped",
       File(R"({"a":)" + kTwoFloats + R"(,"\u0061":)" + kTwoFloats + "}", 8), "names 'a' twice"},
      {"metadata twice", File(R"({"__metadata__":{},"__metadata__":{},"a":)" + kTwoFloats + "}", 8),
       "names '__metadata__' twice"},
      {"a metadata name twice",
       File(R"({"__metadata__":{"x":"1","x":"2"},"a":)" + kTwoFloats + "}", 8),
       "metadata name 'x' twice"},
      {"metadata that is no text", File(R"({"__metadata__":{"x":1},"a":)" + kTwoFloats + "}", 8),
       "holds a number"},
      {"a field twice", with(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       "'dtype' twice"},
      {"an unknown field", with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
       "unknown field 'x'"},
      {"a missing field", with(R"({"dtype":"F32","data_offsets":[0,8]})"),
       "lacks dtype, shape or data_offsets"},
      {"a tensor that is a number", with("3"), "holds a number"},
      {"a tensor that is null", with("null"), "holds null"},
      {"nested objects", with(R"({"dtype":{"x":1}})"), "holds an object"},
      {"nested arrays", with(Tensor(R"("F32")", "[[2]]", "[0,8]")), "holds an array"},
      {"an unknown dtype", with(Tensor(R"("F128")", "[2]", "[0,8]")), "unknown dtype 'F128'"},
      {"a dtype that is a number", with(Tensor("32", "[2]", "[0,8]")), "holds a number"},
      {"a dtype that disagrees", with(Tensor(R"("F16")", "[2]", "[0,8]")),
       "needs 4 bytes by its shape and dtype, its range has 8"},
      {"a shape that disagrees", with(Tensor(R"("F32")", "[3]", "[0,8]")), "needs 12 bytes"},
      {"a negative extent", with(Tensor(R"("F32")", "[-2]", "[0,8]")), "holds a negative number"},
      {"a fraction of an extent", with(Tensor(R"("F32")", "[2.0]", "[0,8]")), "not a whole one"},
      {"an extent of 2^63", with(Tensor(R"("F32")", "[9223372036854775808]", "[0,8]")),
       "impossible shape"},
      {"an extent of 2^64", with(Tensor(R"("F32")", "[18446744073709551616]", "[0,8]")),
       "not a whole one in range"},
      {"an overflowing product", with(Tensor(R"("F32")", "[4611686018427387904,4]", "[0,8]")),
       "overflows"},
      {"an overflowing element size", with(Tensor(R"("F32")", "[4611686018427387906]", "[0,8]")),
       "overflows"},
      {"seventeen dimensions",
       with(Tensor(R"("F32")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]")),
       "impossible shape"},
      {"one offset", with(Tensor(R"("F32")", "[2]", "[8]")), "lacks dtype, shape or data_offsets"},
      {"three offsets", with(Tensor(R"("F32")", "[2]", "[0,8,8]")), "more than two data offsets"},
      {"offsets in reverse", with(Tensor(R"("F32")", "[2]", "[8,0]")), "ends before it begins"},
      {"an end past the data", File(R"({"a":)" + kTwoFloats + "}", 7), "ends at byte 8 of 7"},
      {"offsets past the data",
       with(Tensor(R"("F32")", "[2]", "[18446744073709551600,18446744073709551608]")),
       "ends at byte 18446744073709551608 of 8"},
      {"bytes of no tensor", File(valid, 9), "1 bytes at the end belong to no tensor"},
      {"no tensors but data", File("{}", 8), "8 bytes at the end"},
      {"a hole",
       File(R"({"a":)" + kTwoFloats + R"(,"b":)" + Tensor(R"("F32")", "[1]", "[12,16]") + "}", 16),
       "a hole of 4 bytes before tensor 'b'"},
      {"a hole at the start", with(Tensor(R"("F32")", "[1]", "[4,8]")),
       "a hole of 4 bytes before tensor 'a'"},
      {"an overlap",
       File(R"({"a":)" + kTwoFloats + R"(,"b":)" + Tensor(R"("F32")", "[2]", "[4,12]") + "}", 12),
       "tensor 'b' overlaps"},
      {"the same bytes twice", File(R"({"a":)" + kTwoFloats + R"(,"b":)" + kTwoFloats + "}", 8),
       "tensor 'b' overlaps"},
  };
  for (const Case& corrupt : cases) {
    const std::string error = OpenError(corrupt.bytes);
    EXPECT_THAT(error, AllOf(HasSubstr("not valid safetensors"), HasSubstr(corrupt.error)))
        << corrupt.what;
    EXPECT_THAT(error, Not(HasSubstr(path_.string()))) << corrupt.what;
  }
}

// docs/faults.md, row 29.
TEST_F(SafetensorsTest, OtherFormatsAreNamedAndRefused) {
  using namespace std::string_literals;
  const std::string rest(64, '\0');
  EXPECT_THAT(OpenError("PK\3\4\0\0\x08\x08"s + rest),
              HasSubstr("unsupported weight format: a zip archive"));
  EXPECT_THAT(OpenError("\x80\2\x8a\nl\xfc\x9c"s + rest),
              HasSubstr("unsupported weight format: a pickle"));
  EXPECT_THAT(OpenError("\x80\5\x95\0"s + rest), HasSubstr("unsupported weight format: a pickle"));
  EXPECT_THAT(OpenError("\x1f\x8b\x08\0"s + rest),
              HasSubstr("unsupported weight format: a gzip archive"));
  EXPECT_THAT(OpenError("\x89HDF\r\n\x1a\n"s + rest), HasSubstr("unsupported weight format: HDF5"));
}

// Rows 26 and 33.
TEST_F(SafetensorsTest, WhatIsNoFileIsRefusedWithoutWaiting) {
  std::filesystem::remove(path_);
  EXPECT_THAT(OpenError(), HasSubstr("cannot be opened: No such file"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(OpenError(), HasSubstr("not a regular file"));
  std::filesystem::remove(path_);
  EXPECT_THAT(ErrorOf([] { SafetensorsFile file(::testing::TempDir()); }),
              HasSubstr("not a regular file"));
}

TEST_F(SafetensorsTest, AHostileNameCannotBreakALogLine) {
  const std::string error =
      OpenError(File("{\"a\\n\\u001b[31m" + std::string(500, 'x') + "\":3}", 0));
  EXPECT_THAT(error, Not(HasSubstr("\x1b")));
  const std::string twice =
      R"({"a\n)" + std::string(500, 'x') + R"(":)" + Tensor(R"("F1")", "[2]", "[0,8]") + "}";
  EXPECT_THAT(OpenError(File(twice, 8)), HasSubstr("tensor 'a?xxx"));
  EXPECT_LT(OpenError(File(twice, 8)).size(), 300u);
}

// Row 28: by copy there is no SIGBUS, and no half-old, half-new model.
TEST_F(SafetensorsTest, AFileThatShrinksOrChangesWhileItIsReadIsAnError) {
  const at::Tensor to = at::empty({1000});
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    WriteSafetensors(path_, {{"a", at::ones({1000})}}, dtype);
    const SafetensorsFile file(path_);
    ASSERT_EQ(::truncate(path_.c_str(), 500), 0);
    EXPECT_THAT(ErrorOf([&] { file.ReadInto(file.tensors()[0], to); }),
                HasSubstr("became shorter"));
    EXPECT_THAT(ErrorOf([&] { file.CheckUnchanged(); }), HasSubstr("written to while"));
  }
}

TEST_F(SafetensorsTest, AWriterReplacesAFileThatIsBeingRead) {
  WriteSafetensors(path_, {{"a", at::ones({1000})}}, at::kFloat);
  const SafetensorsFile file(path_);
  WriteSafetensors(path_, {{"b", at::zeros({3})}}, at::kFloat);
  const at::Tensor to = at::empty({1000});
  file.ReadInto(file.tensors()[0], to);
  EXPECT_TRUE(at::equal(to, at::ones({1000})));
  file.CheckUnchanged();
}

TEST_F(SafetensorsTest, WholeNumbersAreNoWeights) {
  Write(File(R"({"a":)" + Tensor(R"("I32")", "[2]", "[0,8]") + "}", 8));
  const SafetensorsFile file(path_);
  EXPECT_THAT(ErrorOf([&] { file.ReadInto(file.tensors()[0], at::empty({2})); }),
              HasSubstr("tensor 'a' is I32; weights are F32, F16 or BF16"));
}

}  // namespace
}  // namespace fovea::models
