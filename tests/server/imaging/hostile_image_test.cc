// Rows 14 to 16, 18, 22 and 23: small files that ask for a lot, and files that are not what they
// say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/imaging/decode.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/png_chunks.h"
#include "server/imaging/probe.h"
#include "tests/server/imaging/hostile_files.h"
#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::Big16;
using testing::Big32;
using testing::Decode;
using testing::File;
using testing::FromText;
using testing::JpegSegment;
using testing::Little32;
using testing::PngChunk;
using testing::PngHeader;
using testing::PngSignature;
using testing::ReadImage;

std::string Reason(const File& file) { return ReasonOf(Decode(file).status()); }

File Concatenate(std::initializer_list<File> parts) {
  File whole;
  for (const File& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

// Inserts `part` after the file's first `at` bytes.
File Insert(const File& file, size_t at, const File& part) {
  const auto split = file.begin() + static_cast<ptrdiff_t>(at);
  return File(file.begin(), split) + part + File(split, file.end());
}

TEST(HostileImage, Row14SizesThatNobodyDecodesAreRefusedByTheHeader) {
  for (const auto& [width, height] : {std::pair{65'500u, 65'500u},
                                      {1u, 0x7fffffffu},
                                      {0x7fffffffu, 0x7fffffffu},
                                      {0xffffffffu, 0xffffffffu},
                                      {12'000u, 9'000u},
                                      {40'000u, 2'000u}}) {
    EXPECT_EQ(Reason(PngSignature() + PngHeader(width, height, 8, 2)), "image.too_many_pixels")
        << width;
  }
  File jpeg = ReadImage("baseline.jpg");
  const auto frame = std::ranges::search(jpeg, File{std::byte(0xff), std::byte(0xc0)}).begin();
  const File size = Big16(65'500) + Big16(65'500);
  std::ranges::copy(size, frame + 5);
  EXPECT_EQ(Reason(jpeg), "image.too_many_pixels");
  // VP8X: a canvas of 16384 x 16384.
  const File canvas = Little32(0) + File{std::byte(0xff), std::byte(0x3f), std::byte(0),
                                         std::byte(0xff), std::byte(0x3f), std::byte(0)};
  EXPECT_EQ(Reason(testing::WebpFile(testing::WebpChunk("VP8X", canvas))), "image.too_many_pixels");
  EXPECT_EQ(Reason(PngSignature() + PngHeader(7'000, 7'000, 8, 2)),
            "image.truncated");  // within the limits
}

TEST(HostileImage, Row14AJpegWhoseSizeIsGivenTwiceOrNotAtAllIsDamaged) {
  const File jpeg = ReadImage("baseline.jpg");
  const auto frame = std::ranges::search(jpeg, File{std::byte(0xff), std::byte(0xc0)}).begin();
  const File frame_segment(frame, frame + 19);
  const size_t at = static_cast<size_t>(frame - jpeg.begin());
  EXPECT_EQ(Reason(Insert(jpeg, at, frame_segment)), "image.corrupt");
  File without_height = jpeg;
  without_height[at + 5] = without_height[at + 6] = std::byte(0);  // to come in a DNL segment
  EXPECT_EQ(Reason(without_height), "image.corrupt");
}

TEST(HostileImage, Row15APngThatInflatesPastItsPixelsIsNotInflated) {
  // 4 pixels, then 64 MB of zeros in 64 KB.
  const File bomb = PngSignature() + PngHeader(2, 2, 8, 0) +
                    PngChunk("IDAT", testing::Deflate(File(64 << 20))) + PngChunk("IEND", {});
  ASSERT_LT(bomb.size(), 100'000u);
  const absl::StatusOr<ImageInfo> info = ProbeImage(bomb, {});
  ASSERT_TRUE(info.ok());
  EXPECT_LT(info->decode_bytes, 200'000);
  // libpng itself would unpack it all, and then cut it off.
  const absl::StatusOr<RgbImage> image = Decode(bomb);
  EXPECT_EQ(ReasonOf(image.status()), "image.corrupt") << "after all of it was unpacked";
  // A little too much is none of our business.
  const File little = PngSignature() + PngHeader(2, 2, 8, 0) +
                      PngChunk("IDAT", testing::Deflate(File(1 << 20))) + PngChunk("IEND", {});
  EXPECT_TRUE(Decode(little).ok());
}

TEST(HostileImage, Row15MoreMetadataThanTheLimitIsRefusedAndLessIsIgnored) {
  const File png = ReadImage("rgb_8.png");
  const size_t after_header = 8 + 25;
  const File text =
      FromText(std::string_view("key\0\1\0\0\0", 8)) + testing::Deflate(File(100'000'000));
  for (const char* type : {"iTXt", "zTXt", "iCCP", "tEXt", "eXIf", "abCd"}) {
    EXPECT_EQ(Reason(Insert(png, after_header, PngChunk(type, text))), "") << type;
    EXPECT_EQ(Reason(Insert(png, after_header, PngChunk(type, File(9 << 20)))),
              "image.metadata_too_large")
        << type;
  }
  // Many small ones count together.
  File chunks;
  for (int i = 0; i < 1000; ++i) chunks = std::move(chunks) + PngChunk("tEXt", File(10'000));
  EXPECT_EQ(Reason(Insert(png, after_header, chunks)), "image.metadata_too_large");

  const File jpeg = ReadImage("baseline.jpg");
  File segments;
  for (int i = 0; i < 200; ++i) segments = std::move(segments) + JpegSegment(0xe2, File(60'000));
  EXPECT_EQ(Reason(Insert(jpeg, 2, segments)), "image.metadata_too_large");
  EXPECT_EQ(Reason(Insert(jpeg, 2, JpegSegment(0xfe, File(60'000)))), "");

  const File webp = ReadImage("lossless.webp");
  const File body(webp.begin() + 12, webp.end());
  EXPECT_EQ(Reason(testing::WebpFile(body + testing::WebpChunk("XMP ", File(9 << 20)))),
            "image.metadata_too_large");
  EXPECT_EQ(Reason(testing::WebpFile(body + testing::WebpChunk("XMP ", File(1000)))), "");
}

TEST(HostileImage, Row15UnknownCriticalChunksAndDamagedTransparencyAreErrors) {
  const File png = ReadImage("palette_4_alpha.png");
  EXPECT_EQ(Reason(Insert(png, 8 + 25, PngChunk("ABCD", File(4)))), "image.corrupt");
  File damaged = png;
  const auto transparency = std::ranges::search(damaged, FromText("tRNS")).begin();
  ASSERT_NE(transparency, damaged.end());
  transparency[4] ^= std::byte(1);
  EXPECT_EQ(Reason(damaged), "image.corrupt");
}

TEST(HostileImage, Row15ATransparencyThatMakesNoSenseIsAnErrorAndNotAnOpaquePicture) {
  const auto with_transparency = [](const char* name, size_t bytes) {
    const File png = ReadImage(name);
    const auto pixels = std::ranges::search(png, FromText("IDAT")).begin() - 4;
    return Insert(png, static_cast<size_t>(pixels - png.begin()), PngChunk("tRNS", File(bytes)));
  };
  EXPECT_EQ(Reason(with_transparency("rgb_8.png", 6)), "");
  EXPECT_EQ(Reason(with_transparency("rgb_8.png", 5)), "image.corrupt");
  EXPECT_EQ(Reason(with_transparency("gray_8.png", 2)), "");
  EXPECT_EQ(Reason(with_transparency("gray_8.png", 1)), "image.corrupt");
  EXPECT_EQ(Reason(with_transparency("gray_8.png", 3)), "");
  EXPECT_EQ(Reason(with_transparency("palette_4.png", 16)), "");
  EXPECT_EQ(Reason(with_transparency("palette_4.png", 17)), "");
  EXPECT_EQ(Reason(with_transparency("palette_4.png", 0)), "");
}

TEST(HostileImage, Row112APaletteThatMakesNoSenseIsAnErrorWhereThePixelsNeedIt) {
  const auto with_palette = [](const char* name, size_t bytes) {
    return Insert(ReadImage(name), 8 + 25, PngChunk("PLTE", File(bytes)));
  };
  for (const size_t bytes : {3 * 2, 3 * 256, 3 * 2 - 1, 3 * 257}) {
    EXPECT_EQ(Reason(with_palette("rgb_8.png", bytes)), "") << bytes;
    EXPECT_EQ(Reason(with_palette("gray_8.png", bytes)), "") << bytes;
  }
  const auto with_only_palette = [](size_t bytes) {
    return PngSignature() + PngHeader(2, 2, 8, 3) + PngChunk("PLTE", File(bytes)) +
           PngChunk("IDAT", testing::Deflate(File(6))) + PngChunk("IEND", {});
  };
  EXPECT_EQ(Reason(with_only_palette(3)), "");
  EXPECT_EQ(Reason(with_only_palette(2)), "image.corrupt");
  EXPECT_EQ(Reason(with_only_palette(0)), "image.corrupt");
}

// What stands behind the last pixel decides nothing, unless no checksum vouches for the pixels.
TEST(HostileImage, Row112PixelsForWhichNoChecksumVouchesAreDamage) {
  const File deflated = testing::Deflate(File(8 * 9));
  const auto png = [](const File& pixels, bool right_checksum) {
    File chunk = PngChunk("IDAT", pixels);
    if (!right_checksum) chunk.back() ^= std::byte(1);
    return PngSignature() + PngHeader(8, 8, 8, 0) + chunk + PngChunk("IEND", {});
  };
  File wrong_sum = deflated;
  wrong_sum.back() ^= std::byte(1);
  const File no_sum(deflated.begin(), deflated.end() - 4);
  EXPECT_EQ(Reason(png(deflated, true)), "");
  EXPECT_EQ(Reason(png(deflated, false)), "");
  EXPECT_EQ(Reason(png(wrong_sum, true)), "image.corrupt");
  EXPECT_EQ(Reason(png(no_sum, true)), "");
  EXPECT_EQ(Reason(png(wrong_sum, false)), "image.corrupt");
  EXPECT_EQ(Reason(png(no_sum, false)), "image.corrupt");
}

// A warning of libjpeg's that touches no pixel is none of ours; behind it every other still counts.
TEST(HostileImage, Row111SpareBytesAreForgivenAndDamageBehindThemIsNot) {
  const File jpeg = ReadImage("baseline.jpg");
  const auto tables = std::ranges::search(jpeg, File{std::byte(0xff), std::byte(0xdb)}).begin();
  const File spare = Insert(jpeg, static_cast<size_t>(tables - jpeg.begin()), File(5));
  EXPECT_EQ(Reason(spare), "");
  File lost(spare.begin(), spare.end() - 22);  // 20 bytes of pixels
  lost.insert(lost.end(), spare.end() - 2, spare.end());
  EXPECT_EQ(Reason(lost), "image.corrupt");
  // Bytes between scans hide no scan from the count.
  const File progressive = ReadImage("progressive.jpg");
  const File scan_marker = {std::byte(0xff), std::byte(0xda)};
  const auto last = std::ranges::find_end(progressive, scan_marker).begin();
  const File scan = File(3) + File(last, progressive.end() - 2);
  File many(progressive.begin(), progressive.end() - 2);
  for (int i = 0; i < 200; ++i) many.insert(many.end(), scan.begin(), scan.end());
  EXPECT_EQ(Reason(std::move(many) + File(jpeg.end() - 2, jpeg.end())), "image.too_many_scans");
}

// Where zeros follow the last pixel in place of the end's marker the picture is whole; where they
// follow an earlier one they would be read as pixels.
TEST(HostileImage, Row111ZerosInPlaceOfTheEndAreForgivenBehindTheLastPixelAlone) {
  const File jpeg = ReadImage("baseline.jpg");
  const auto ending = [&](size_t lost, size_t zeros) {
    return Reason(File(jpeg.begin(), jpeg.end() - 2 - static_cast<std::ptrdiff_t>(lost)) +
                  File(zeros));
  };
  EXPECT_EQ(ending(0, 100), "");
  EXPECT_EQ(ending(0, 16), "");
  EXPECT_EQ(ending(0, 15), "image.truncated");
  for (const size_t lost : {40, 100}) {
    EXPECT_EQ(ending(lost, 1000), "image.corrupt") << lost;
    EXPECT_EQ(ending(lost, 100'000), "image.corrupt") << lost;
  }
  const File progressive = ReadImage("progressive.jpg");
  EXPECT_EQ(Reason(File(progressive.begin(), progressive.end() - 2) + File(100)),
            "image.truncated");
}

TEST(HostileImage, Row15AWebpOfThousandsOfPrefixCodesIsDamagedAndOneOfSomeIsNot) {
  EXPECT_EQ(Reason(testing::WebpOfManyPrefixCodes(20)), "");
  const File large = testing::WebpOfManyPrefixCodes(1024);
  ASSERT_LT(large.size(), 300'000u);
  const absl::Status status = Decode(large).status();
  EXPECT_EQ(ReasonOf(status), "image.too_large_to_decode");
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("too much memory to decode"));
}

TEST(HostileImage, Row16AProgressiveJpegWithTooManyScansIsRefusedBeforeItIsDecoded) {
  const File jpeg = ReadImage("progressive.jpg");
  const File scan_marker = {std::byte(0xff), std::byte(0xda)};
  const auto last = std::ranges::find_end(jpeg, scan_marker).begin();
  const File scan(last, jpeg.end() - 2);
  const absl::StatusOr<ImageInfo> info = ProbeImage(jpeg, {});
  ASSERT_TRUE(info.ok());
  const auto with_scans = [&](int count) {
    File file(jpeg.begin(), jpeg.end() - 2);
    file.reserve(file.size() + scan.size() * static_cast<size_t>(count) + 2);
    for (int i = info->scans; i < count; ++i) file.insert(file.end(), scan.begin(), scan.end());
    return std::move(file) + File(jpeg.end() - 2, jpeg.end());
  };
  EXPECT_EQ(ProbeImage(with_scans(100), {})->scans, 100);
  EXPECT_EQ(ReasonOf(ProbeImage(with_scans(101), {}).status()), "image.too_many_scans");
  EXPECT_EQ(Reason(with_scans(80'000)), "image.too_many_scans");
  ImageLimits limits;
  limits.max_jpeg_scan_pixels = info->scans * info->pixels();
  EXPECT_TRUE(ProbeImage(jpeg, limits).ok());
  --limits.max_jpeg_scan_pixels;
  EXPECT_EQ(ReasonOf(ProbeImage(jpeg, limits).status()), "image.too_many_scans");
}

TEST(HostileImage, Row19AHugeThumbnailAndAnEndlessDirectoryAreIgnored) {
  const File jpeg = ReadImage("baseline.jpg");
  const File exif = FromText(std::string_view("Exif\0\0MM\0*\0\0\0\x08\xff\xff", 16));
  EXPECT_EQ(Reason(Insert(jpeg, 2, JpegSegment(0xe1, exif + File(65'000)))), "");
  // A JPEG in the thumbnail does not end the picture.
  EXPECT_EQ(Reason(Insert(jpeg, 2, JpegSegment(0xe1, exif + ReadImage("gray.jpg")))), "");
}

TEST(HostileImage, AnotherFormatBehindAKnownMagicIsDamaged) {
  EXPECT_EQ(Reason(FromText("\xff\xd8\xff<html></html>") + File(30'000)), "image.corrupt");
  EXPECT_EQ(Reason(PngSignature() + FromText("<html><body>hello</body></html>")), "image.corrupt");
  EXPECT_EQ(Reason(testing::WebpFile(FromText("<html>ab"))), "image.corrupt");
  EXPECT_EQ(Reason(testing::WebpFile(testing::WebpChunk("VP8 ", FromText("<html>abcdefghij")))),
            "image.corrupt");
  EXPECT_EQ(Reason(Concatenate({FromText("\xff\xd8\xff\xd9")})), "image.corrupt");
  EXPECT_EQ(Reason(PngSignature() + PngHeader(4, 4, 8, 2) + PngChunk("IEND", {})), "image.corrupt");
}

TEST(HostileImage, NoMessageCarriesALibrarysWords) {
  File damaged = ReadImage("baseline.jpg");
  damaged[damaged.size() - 30] = std::byte(0xff);
  damaged[damaged.size() - 29] = std::byte(0xd3);
  const absl::Status status = Decode(damaged).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "the image is damaged: its pixels cannot be decoded");
}

// Flipping bits anywhere ends in a picture of the right size or in an error that is the caller's.
TEST(HostileImage, Row115FlippedBitsNeverDoMoreThanFail) {
  std::mt19937 random(3);
  for (const char* name :
       {"baseline.jpg",       "progressive.jpg",     "cmyk.jpg",
        "orientation_6.jpg",  "rgba_16.png",         "palette_4_alpha_interlaced.png",
        "orientation_5.png",  "lossy_alpha.webp",    "lossless.webp",
        "orientation_7.webp", "animated_alpha.webp", "key.gif",
        "larger_screen.gif",  "bits_4.bmp",          "runs_8.bmp",
        "runs_4.bmp",         "rgb_tiff_lzw.tif",    "rgb_jpeg.tif",
        "1_group4.tif",       "tiles_planes.tif",    "p_packbits.tif",
        "420.avif",           "alpha.avif"}) {
    const File good = ReadImage(name);
    for (int round = 0; round < 400; ++round) {
      File bad = good;
      const int flips = 1 + static_cast<int>(random() % 4);
      for (int i = 0; i < flips; ++i) bad[random() % bad.size()] ^= std::byte(1 << random() % 8);
      ImageLimits limits;
      limits.max_pixels = 1'000'000;  // the test's own time
      const absl::StatusOr<ImageInfo> info = ProbeImage(bad, limits);
      if (!info.ok()) {
        EXPECT_EQ(info.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      const bool halves = info->format == ImageFormat::kJpeg;
      const int halvings = halves ? round % (kMaxHalvings + 1) : 0;
      const absl::StatusOr<RgbImage> image = DecodeImage(bad, *info, {.halvings = halvings});
      if (image.ok()) {
        EXPECT_EQ(
            int64_t{image->width} * image->height,
            int64_t{DecodedSide(info->width, halvings)} * DecodedSide(info->height, halvings));
      } else if (info->format == ImageFormat::kPng) {
        // The decoder may find its end missing as well.
        EXPECT_THAT(ReasonOf(image.status()), ::testing::AnyOf("image.corrupt", "image.truncated"))
            << name;
      } else {
        EXPECT_EQ(ReasonOf(image.status()), "image.corrupt") << name;
      }
    }
  }
}

TEST(HostileImage, Row115FilesThatAskForMoreThanTheyHoldEndInTheirOwnError) {
  for (const testing::HostileFile& hostile : testing::HostileFiles()) {
    EXPECT_EQ(Reason(hostile.file), hostile.reason) << hostile.name;
  }
}

TEST(HostileImage, Row115TheFirstOfATagCounts) {
  const auto files = testing::HostileFiles();
  const auto twice = std::ranges::find(files, "tags twice", &testing::HostileFile::name);
  const absl::StatusOr<RgbImage> image = Decode(twice->file);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 128);
}

// Flips bits of the chunks and puts the checksums right, so that libpng gets to see them.
TEST(HostileImage, FlippedBitsUnderRightChecksumsNeverDoMoreThanFail) {
  std::mt19937 random(4);
  for (const char* name : {"rgba_16_interlaced.png", "palette_4_alpha.png", "gray_2_key.png",
                           "rgb_16_key_interlaced.png", "gray_alpha_8.png"}) {
    const File good = ReadImage(name);
    int decoded = 0;
    for (int round = 0; round < 400; ++round) {
      File bad = PngSignature();
      for (size_t at = bad.size(); at < good.size();) {
        const absl::StatusOr<fovea::PngChunk> chunk = ReadPngChunk(good, at);
        ASSERT_TRUE(chunk.ok());
        at += chunk->whole.size();
        File data(chunk->data.begin(), chunk->data.end());
        if (!data.empty() && random() % 3 == 0) {
          data[random() % data.size()] ^= std::byte(1 << random() % 8);
        }
        bad = std::move(bad) + PngChunk(chunk->type, data);
      }
      const absl::Status status = Decode(bad).status();
      decoded += status.ok();
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
    }
    EXPECT_GT(decoded, 0) << name;
    EXPECT_LT(decoded, 400) << name;
  }
}

// Whatever is inflated is a picture, unless a row's first byte names no filter.
TEST(HostileImage, AnyRowsAreAPictureOrDamage) {
  std::mt19937 random(5);
  constexpr uint32_t kSide = 9;
  constexpr std::pair<int, int> kKinds[] = {{0, 1}, {0, 2},  {0, 4},  {0, 8}, {0, 16},
                                            {2, 8}, {2, 16}, {3, 1},  {3, 2}, {3, 4},
                                            {3, 8}, {4, 8},  {4, 16}, {6, 8}, {6, 16}};
  for (const auto& [color_type, bit_depth] : kKinds) {
    int decoded = 0;
    for (int round = 0; round < 100; ++round) {
      File header = Big32(kSide) + Big32(kSide) +
                    File{std::byte(bit_depth), std::byte(color_type), std::byte(0), std::byte(0),
                         std::byte(round % 2)};
      File palette;  // of fewer colours than a sample can name
      if (color_type == 3) palette = PngChunk("PLTE", File(3));
      File rows(kSide * (4 + 8 * kSide));  // enough for every kind
      for (std::byte& value : rows) value = std::byte(random() % 5);
      if (round % 5 == 0) rows[0] = std::byte(5);
      const absl::StatusOr<RgbImage> image =
          Decode(PngSignature() + PngChunk("IHDR", header) + palette +
                 PngChunk("IDAT", testing::Deflate(rows)) + PngChunk("IEND", {}));
      decoded += image.ok();
      if (image.ok()) {
        EXPECT_EQ(image->size(), 3 * kSide * kSide);
      } else {
        EXPECT_EQ(ReasonOf(image.status()), "image.corrupt");
      }
    }
    EXPECT_EQ(decoded, 80) << color_type << " " << bit_depth;
  }
}

}  // namespace
}  // namespace fovea
