#include "server/transport/http/content_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <utility>
#include <vector>

namespace fovea {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr ContentCoding kCodings[] = {ContentCoding::kGzip, ContentCoding::kDeflate};

std::string Joined(const HttpAnswer& answer) {
  std::string all;
  for (const std::string& part : answer.body) all += part;
  return all;
}

std::string Unpacked(const std::string& packed, size_t size) {
  std::string text(size + 1, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 32), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

// What no coding makes shorter.
std::string Noise(size_t size) {
  std::string noise(size, '\0');
  uint64_t state = 1;
  for (char& byte : noise) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return noise;
}

TEST(ContentCodingTest, TheGreatestWeightIsPreferred) {
  for (const auto& [field, coding] : std::vector<std::pair<const char*, ContentCoding>>{
           {"", ContentCoding::kIdentity},
           {"br", ContentCoding::kIdentity},
           {"gzip", ContentCoding::kGzip},
           {"GZIP, deflate, br", ContentCoding::kGzip},
           {"deflate, gzip", ContentCoding::kGzip},
           {"deflate;q=0.9, gzip;q=0.5", ContentCoding::kDeflate},
           {"gzip;q=0", ContentCoding::kIdentity},
           {"gzip;q=0, deflate", ContentCoding::kDeflate},
           {"*", ContentCoding::kGzip},
           {"*;q=0.5, gzip;q=0", ContentCoding::kDeflate},
           {"identity", ContentCoding::kIdentity},
           {"gzip;q=2", ContentCoding::kIdentity},
           {"gzip;q=x", ContentCoding::kIdentity},
           {";;;=", ContentCoding::kIdentity},
       }) {
    EXPECT_EQ(PreferredCoding(field), coding) << field;
  }
}

TEST(ContentCodingTest, WhatIsCompressedUnpacksToTheAnswer) {
  MemoryBudget budget(1 << 20, SteadyClock());
  for (const ContentCoding coding : kCodings) {
    for (const size_t size : {size_t{1024}, size_t{300'000}}) {
      HttpAnswer answer{.body = {std::string(size, 'a'), "", Noise(size / 2), std::string(3, 'b')}};
      const std::string text = Joined(answer);
      Compress(coding, budget, &answer);
      EXPECT_LT(BodyBytes(answer), static_cast<int64_t>(text.size()));
      EXPECT_EQ(Unpacked(Joined(answer), text.size()), text);
      EXPECT_THAT(
          answer.fields,
          Contains(Pair("Content-Encoding", coding == ContentCoding::kGzip ? "gzip" : "deflate")));
      EXPECT_EQ(budget.held(), 0);
    }
  }
}

TEST(ContentCodingTest, WhatWouldBecomeLongerOrHasNoRoomStaysAsItIs) {
  MemoryBudget budget(1 << 20, SteadyClock()), none(1000, SteadyClock());
  for (const ContentCoding coding : kCodings) {
    for (const size_t size : {size_t{1024}, size_t{300'000}}) {
      HttpAnswer answer{.body = {Noise(size)}};
      Compress(coding, budget, &answer);
      EXPECT_EQ(Joined(answer), Noise(size));
      EXPECT_THAT(answer.fields, IsEmpty());
      answer.body = {std::string(size, 'a')};
      Compress(coding, none, &answer);
      EXPECT_EQ(Joined(answer), std::string(size, 'a'));
    }
  }
}

TEST(ContentCodingTest, ShortAnswersErrorsAndImagesAreNotWorthIt) {
  using boost::beast::http::status;
  const std::vector<std::string> body = {std::string(2000, 'a')};
  EXPECT_TRUE(IsWorthCompressing({.body = body}));
  EXPECT_FALSE(IsWorthCompressing({.body = {"short"}}));
  EXPECT_FALSE(IsWorthCompressing({.status = status::bad_request, .body = body}));
  EXPECT_FALSE(IsWorthCompressing({.fields = {{"Content-Type", "image/png"}}, .body = body}));
}

}  // namespace
}  // namespace fovea
