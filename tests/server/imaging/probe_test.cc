#include "server/imaging/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::File;
using testing::FromText;
using testing::ReadImage;

std::string ProbeReason(const File& file, const ImageLimits& limits = {}) {
  return ReasonOf(ProbeImage(file, limits).status());
}

TEST(Probe, ReadsTheHeaderOfEachFormat) {
  const absl::StatusOr<ImageInfo> jpeg = ProbeImage(ReadImage("progressive.jpg"), {});
  ASSERT_TRUE(jpeg.ok());
  EXPECT_EQ(jpeg->format, ImageFormat::kJpeg);
  EXPECT_EQ(jpeg->width, 29);
  EXPECT_EQ(jpeg->height, 23);
  EXPECT_EQ(jpeg->components, 3);
  EXPECT_GT(jpeg->scans, 1);
  EXPECT_EQ(ProbeImage(ReadImage("baseline.jpg"), {})->scans, 1);
  EXPECT_EQ(ProbeImage(ReadImage("cmyk.jpg"), {})->components, 4);
  EXPECT_EQ(ProbeImage(ReadImage("orientation_6.jpg"), {})->orientation, 6);

  const absl::StatusOr<ImageInfo> png = ProbeImage(ReadImage("gray_alpha_16.png"), {});
  ASSERT_TRUE(png.ok());
  EXPECT_EQ(png->format, ImageFormat::kPng);
  EXPECT_EQ(png->width, 29);
  EXPECT_EQ(png->height, 23);
  EXPECT_EQ(png->components, 2);
  EXPECT_EQ(png->bit_depth, 16);

  for (const char* name : {"lossy.webp", "lossless.webp", "lossy_alpha.webp"}) {
    const absl::StatusOr<ImageInfo> webp = ProbeImage(ReadImage(name), {});
    ASSERT_TRUE(webp.ok()) << name;
    EXPECT_EQ(webp->format, ImageFormat::kWebp);
    EXPECT_EQ(webp->width, 29);
    EXPECT_EQ(webp->height, 23);
  }
  EXPECT_EQ(ProbeImage(ReadImage("lossy.webp"), {})->components, 3);
  EXPECT_EQ(ProbeImage(ReadImage("lossy_alpha.webp"), {})->components, 4);
  EXPECT_EQ(ProbeImage(ReadImage("lossless_alpha.webp"), {})->components, 4);
  EXPECT_FALSE(ProbeImage(ReadImage("lossy.webp"), {})->lossless);
  EXPECT_TRUE(ProbeImage(ReadImage("lossless.webp"), {})->lossless);
}

TEST(Probe, TheFirstBytesTellWhatTheWholeFileDoes) {
  for (const std::string& name : testing::ImageNames()) {
    const File file = ReadImage(name);
    const absl::StatusOr<ImageInfo> whole = ProbeImage(file, {});
    ASSERT_TRUE(whole.ok()) << name;
    for (const size_t bytes : {file.size(), file.size() / 2}) {
      const std::optional<ImageInfo> peek = PeekImage(Bytes(file).first(bytes));
      if (bytes < file.size() && !peek) continue;
      ASSERT_TRUE(peek.has_value()) << name;
      EXPECT_EQ(peek->format, whole->format) << name;
      EXPECT_EQ(peek->pixels(), whole->pixels()) << name;
      EXPECT_EQ(peek->scans > 1, whole->scans > 1) << name;
    }
    for (size_t bytes = 0; bytes < std::min<size_t>(file.size(), 64); ++bytes) {
      (void)PeekImage(Bytes(file).first(bytes));  // reads nothing past them
    }
  }
  EXPECT_FALSE(PeekImage(FromText("no image at all")).has_value());
}

TEST(Probe, Row13MoreBytesThanTheLimitIsTheLimitsError) {
  const File file = ReadImage("baseline.jpg");
  ImageLimits limits;
  limits.max_encoded_bytes = static_cast<int64_t>(file.size());
  EXPECT_TRUE(ProbeImage(file, limits).ok());
  --limits.max_encoded_bytes;
  const absl::Status status = ProbeImage(file, limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "image.too_many_bytes");
}

TEST(Probe, Row18OtherTypesAreRefused) {
  EXPECT_EQ(ProbeReason({}), "image.empty");
  const std::string_view zero_padded(
      "\0\0\0\x18"
      "ftypheic\0\0\0\0mif1heic",
      24);
  const std::string_view jp2("\0\0\0\x0cjP  \r\n\x87\n", 12);
  const std::string_view exr("\x76\x2f\x31\x01\x02\0\0\0", 8);
  const std::string_view ico("\0\0\1\0\1\0\x10\x10", 8);
  for (const std::string_view text :
       {std::string_view("<!doctype html><html></html>"), std::string_view("<svg xmlns='x'/>"),
        std::string_view("%PDF-1.7\n"), std::string_view("BMW builds cars, and this is a text"),
        zero_padded, jp2, exr, ico, std::string_view("#!/bin/sh"),
        std::string_view("P6\n1 1\n255\n"), std::string_view("RIFF\4\0\0\0AVI ", 12),
        std::string_view("8BPS\0\1"), std::string_view("\0", 1), std::string_view("\x89PNX"),
        std::string_view("\xff\xd8\xfe")}) {
    const absl::Status status = ProbeImage(FromText(text), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(ReasonOf(status), "image.unsupported_type") << text;
  }
}

TEST(Probe, Row18BytesAfterTheImageAreNotPartOfIt) {
  for (const char* name : {"baseline.jpg", "rgb_8.png", "lossless.webp"}) {
    const File image = ReadImage(name);
    const File polyglot = image + FromText("<html><script>alert(1)</script></html>PK\3\4");
    const absl::StatusOr<ImageInfo> info = ProbeImage(polyglot, {});
    ASSERT_TRUE(info.ok()) << name;
    EXPECT_EQ(info->encoded_bytes, static_cast<int64_t>(image.size())) << name;
  }
}

TEST(Probe, Row113RefusalsNameWhatCameAndTheRemedy) {
  const std::pair<std::string_view, const char*> kinds[] = {
      {{"\0\0\0\x18"
        "ftypheic\0\0\0\0mif1heic",
        24},
       "unsupported image: this is a HEIC picture (an iPhone's format); convert it to JPEG or PNG. "
       "Supported: JPEG, PNG, "},
      {{"\0\0\0\x18"
        "ftypmif1\0\0\0\0mif1heic",
        24},
       "HEIF picture"},
      {{"\0\0\0\x18"
        "ftypisom\0\0\0\0isommp42",
        24},
       "video"},
      {"\xff\x0a", "JPEG XL"},
      {{"\0\0\0\x0cjP  \r\n\x87\n", 12}, "JPEG 2000"},
      {"8BPS", "Photoshop"},
      {"%PDF-1.7", "PDF document; send a picture of its page"},
      {{"PK\3\4", 4}, "ZIP archive"},
      {"\xef\xbb\xbf <!DOCTYPE HTML><title>404", "HTML page"},
      {"<?xml version='1.0'?>\n<svg/>", "SVG"},
      {"<?xml version='1.0'?>\n<a/>", "XML"},
      {"  {\"error\": 1}", "JSON"},
      {"/9j/4AAQSkZJRgABAQ==", "text in base64"},
      {"data:image/png;base64,iVBORw0KGgo=", "data URL"},
      {"https://example.org/a.jpg", "a URL; send the picture itself"},
      {"no such file\n", "text, which begins 'no such file\\n'"},
      {"P6\n1 1\n255\n", "Netpbm"},
      {"\1\2\3\4", "this is an unknown format; convert it"},
  };
  for (const auto& [bytes, words] : kinds) {
    const absl::Status status = ProbeImage(FromText(bytes), {}).status();
    EXPECT_EQ(ReasonOf(status), "image.unsupported_type") << words;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(words));
  }
  // Nothing of theirs breaks a line.
  const absl::Status status = ProbeImage(FromText("a\nb\tc\x80"), {}).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("a\\nb\\tc\\x80"));
  EXPECT_EQ(ProbeReason(FromText("BM")), "image.truncated");
}

TEST(Probe, Row24TheAspectRatioIsLimited) {
  const auto png = [](uint32_t width, uint32_t height) {
    return testing::PngSignature() + testing::PngHeader(width, height, 8, 0) +
           testing::PngChunk("IDAT", {}) + testing::PngChunk("IEND", {});
  };
  EXPECT_EQ(ProbeReason(png(1, 1)), "");
  EXPECT_EQ(ProbeReason(png(1, 1000)), "");
  EXPECT_EQ(ProbeReason(png(1000, 1)), "");
  EXPECT_EQ(ProbeReason(png(1, 1001)), "image.extreme_aspect_ratio");
  EXPECT_EQ(ProbeReason(png(1001, 1)), "image.extreme_aspect_ratio");
  EXPECT_EQ(ProbeReason(png(0, 5)), "image.corrupt");
  ImageLimits limits;
  limits.min_side = 8;
  EXPECT_EQ(ProbeReason(png(8, 9), limits), "");
  EXPECT_EQ(ProbeReason(png(7, 9), limits), "image.too_small");
}

TEST(Probe, FormsOfJpegThatAreNotDecodedAreUnsupportedTypes) {
  File file = ReadImage("baseline.jpg");
  const auto frame = std::ranges::search(file, File{std::byte(0xff), std::byte(0xc0)}).begin();
  ASSERT_NE(frame, file.end());
  for (const int marker : {0xc3, 0xc5, 0xc7, 0xc8, 0xcb, 0xcf}) {
    frame[1] = std::byte(marker);
    EXPECT_EQ(ProbeReason(file), "image.unsupported_type") << marker;
  }
  frame[1] = std::byte(0xc1);
  EXPECT_EQ(ProbeReason(file), "");
  frame[4] = std::byte(12);  // bits
  EXPECT_EQ(ProbeReason(file), "image.unsupported_type");
  frame[4] = std::byte(8);
  frame[9] = std::byte(2);  // components
  EXPECT_EQ(ProbeReason(file), "image.unsupported_type");
}

// The bound that is reserved from the memory budget must hold whatever the decoder does; here its
// arithmetic only.
TEST(Probe, TheBytesOfADecodeGrowWithWhatItHoldsAtOnce) {
  const auto bytes = [](const char* name) { return ProbeImage(ReadImage(name), {})->decode_bytes; };
  EXPECT_GE(bytes("baseline.jpg"), 3 * 29 * 23);
  EXPECT_GT(bytes("progressive.jpg"), bytes("baseline.jpg") + 3 * 29 * 23);  // 4:2:0
  EXPECT_GT(bytes("cmyk.jpg"), 7 * 29 * 23);
  EXPECT_GT(bytes("orientation_6.jpg"), bytes("orientation_1.jpg") + 3 * 29 * 23);
  EXPECT_GE(bytes("rgba_8_interlaced.png"), bytes("rgba_8.png") + 4 * 29 * 23);
  EXPECT_GE(bytes("lossless.webp"), bytes("lossy.webp") + 4 * 29 * 23);
  EXPECT_GE(bytes("lossless_alpha.webp"), bytes("lossless.webp") + 4 * 29 * 23);
}

}  // namespace
}  // namespace fovea
