// Row 17: a truncated image is an error, never a picture with what happened to lie in memory.
#include <gtest/gtest.h>

#include "server/imaging/probe.h"
#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::Decode;
using testing::File;
using testing::ReadImage;

File Prefix(const File& file, size_t size) {
  return File(file.begin(),
              file.begin() + static_cast<ptrdiff_t>(size));  // a copy: reading past it is found
}

class Truncation : public ::testing::TestWithParam<const char*> {};

TEST_P(Truncation, Row17EveryByteOffsetIsTruncated) {
  const File whole = ReadImage(GetParam());
  ASSERT_TRUE(Decode(whole).ok());
  // PNG's last chunk holds nothing (row 112), nor does GIF's last byte.
  const std::string_view name = GetParam();
  const size_t needless = name.ends_with(".png") ? 12 : name.ends_with(".gif") ? 1 : 0;
  // AVIF begins with a length, by which it cannot be recognised.
  const size_t first = name.ends_with(".avif") ? 5 : 1;
  for (size_t size = first; size < whole.size() - needless; ++size) {
    const absl::Status status = Decode(Prefix(whole, size)).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    ASSERT_EQ(ReasonOf(status), "image.truncated") << size << " of " << whole.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Row17, Truncation,
                         ::testing::Values("baseline.jpg", "progressive.jpg", "restarts.jpg",
                                           "cmyk.jpg", "orientation_6.jpg", "gray.jpg", "rgb_8.png",
                                           "rgba_16_interlaced.png", "palette_4_alpha.png",
                                           "lossy.webp", "lossless.webp", "lossy_alpha.webp",
                                           "lossless_alpha.webp", "orientation_5.webp", "tiny.webp",
                                           "animated.webp", "plain.gif", "bits_24.bmp",
                                           "bits_1.bmp", "rgb_raw.tif", "strips_big.tif"));

#ifdef FOVEA_AVIF
INSTANTIATE_TEST_SUITE_P(Row17Avif, Truncation,
                         ::testing::Values("420.avif", "alpha.avif", "animated.avif"));
#endif

// The entropy-coded bytes stop anywhere and the file then ends as it should: only the decoder can
// tell.
TEST(Truncation, Row17MissingJpegPixelsBeforeTheEndMarkerAreDamage) {
  const File end = {std::byte(0xff), std::byte(0xd9)};
  for (const char* name : {"baseline.jpg", "gray.jpg", "cmyk.jpg", "restarts.jpg"}) {
    const File whole = ReadImage(name);
    const File scan_marker = {std::byte(0xff), std::byte(0xda)};
    const size_t scan =
        static_cast<size_t>(std::ranges::search(whole, scan_marker).begin() - whole.begin());
    const size_t pixels = scan + 2 + std::to_integer<size_t>(whole[scan + 3]);
    int refused = 0;
    int accepted = 0;
    const absl::StatusOr<RgbImage> complete = Decode(whole);
    for (size_t size = pixels; size < whole.size() - 2; ++size) {
      File cut = Prefix(whole, size);
      if (cut.back() == std::byte(0xff)) cut.pop_back();  // half of a stuffed byte
      const absl::StatusOr<RgbImage> image = Decode(cut + end);
      if (image.ok()) {
        // The last byte can be no more than padding.
        ++accepted;
        EXPECT_GE(size, whole.size() - 4) << name;
        EXPECT_TRUE(std::ranges::equal(image->bytes(), complete->bytes())) << name << " " << size;
      } else {
        ++refused;
        EXPECT_EQ(ReasonOf(image.status()), "image.corrupt") << name << " " << size;
      }
    }
    EXPECT_GT(refused, 100) << name;
    EXPECT_LE(accepted, 2) << name;
  }
}

TEST(Truncation, Row17MissingPngPixelsInSoundChunksAreDamage) {
  constexpr uint32_t kSide = 20;
  const File rows(kSide * (1 + 3 * kSide), std::byte{0});
  const File deflated = testing::Deflate(rows);
  const auto png = [](const File& pixels) {
    return testing::PngSignature() + testing::PngHeader(kSide, kSide, 8, 2) +
           testing::PngChunk("IDAT", pixels) + testing::PngChunk("IEND", {});
  };
  ASSERT_TRUE(Decode(png(deflated)).ok());
  // The checksum of the deflated data is its last four bytes; without it every pixel is still
  // there.
  for (size_t size = 0; size + 5 < deflated.size(); ++size) {
    EXPECT_EQ(ReasonOf(Decode(png(Prefix(deflated, size))).status()), "image.corrupt") << size;
  }
  const File fewer_rows = testing::Deflate(Prefix(rows, rows.size() - 1));
  EXPECT_EQ(ReasonOf(Decode(png(fewer_rows)).status()), "image.corrupt");
}

// The chunks of a WebP file, type and data.
std::vector<std::pair<std::string, File>> WebpChunks(const File& file) {
  std::vector<std::pair<std::string, File>> chunks;
  for (size_t at = 12; at < file.size();) {
    const std::string type(reinterpret_cast<const char*>(file.data()) + at, 4);
    const size_t length = U32Little(file, at + 4);
    const auto data = file.begin() + static_cast<ptrdiff_t>(at + 8);
    chunks.emplace_back(type, File(data, data + static_cast<ptrdiff_t>(length)));
    at += 8 + length + length % 2;
  }
  return chunks;
}

TEST(Truncation, Row17MissingWebpPixelsInSoundChunksAreDamage) {
  for (const char* name :
       {"lossy.webp", "lossless.webp", "lossy_alpha.webp", "lossless_alpha.webp"}) {
    const File whole = ReadImage(name);
    const absl::StatusOr<RgbImage> complete = Decode(whole);
    ASSERT_TRUE(complete.ok());
    const auto chunks = WebpChunks(whole);
    for (size_t cut = 0; cut < chunks.size(); ++cut) {
      const auto& [type, data] = chunks[cut];
      if (type != "VP8 " && type != "VP8L" && type != "ALPH") continue;
      int refused = 0;
      for (size_t size = 0; size < data.size(); ++size) {
        File body;
        for (size_t i = 0; i < chunks.size(); ++i) {
          const File& bytes = chunks[i].second;
          body = std::move(body) +
                 testing::WebpChunk(chunks[i].first, i == cut ? Prefix(bytes, size) : bytes);
        }
        const absl::StatusOr<RgbImage> image = Decode(testing::WebpFile(body));
        if (image.ok()) {
          // What is missing at the very end can be padding. libwebp reads zeros there, and of a
          // lossless picture notices only when another pixel would begin: the last may differ.
          const size_t sure = image->size() - (type == "VP8L" ? 3 : 0);
          EXPECT_TRUE(std::ranges::equal(image->bytes().first(sure), complete->bytes().first(sure)))
              << name << " " << type << " " << size;
        } else {
          ++refused;
          EXPECT_EQ(ReasonOf(image.status()), "image.corrupt")
              << name << " " << type << " " << size;
        }
      }
      EXPECT_GT(refused, static_cast<int>(data.size()) - 8) << name << " " << type;
    }
  }
}

}  // namespace
}  // namespace fovea
