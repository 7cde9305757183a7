// ImageInfo::decode_bytes is what the memory budget goes by: it must hold for what the libraries
// allocate, too. This program replaces the C allocator by one that counts.
#include <gtest/gtest.h>
#include <malloc.h>
#include <turbojpeg.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <opencv2/imgcodecs.hpp>
#include <random>

#include "server/core/check.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"
#include "tests/server/imaging/image_files.h"

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}

namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};

void* Counted(void* memory) {
  if (memory == nullptr) return memory;
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t before = peak.load();
  while (now > before && !peak.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void Uncounted(void* memory) {
  if (memory != nullptr) live -= static_cast<int64_t>(malloc_usable_size(memory));
}

}  // namespace

extern "C" {
void* malloc(size_t size) { return Counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return Counted(__libc_calloc(count, size)); }
void* realloc(void* old, size_t size) {
  Uncounted(old);
  return Counted(__libc_realloc(old, size));
}
void* memalign(size_t alignment, size_t size) { return Counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  Uncounted(memory);
  __libc_free(memory);
}
}

namespace fovea {
namespace {

using testing::File;

constexpr int kHeight = 1203;
constexpr int kWidth = 1601;

File Noise(size_t size) {
  std::mt19937 random(5);
  File noise(size);
  for (std::byte& value : noise) value = std::byte(random());
  return noise;
}

File Png(int bit_depth, int color_type, int components, bool compressible) {
  const size_t row = 1 + (size_t{kWidth} * components * bit_depth + 7) / 8;
  File rows = compressible ? File(row * kHeight) : Noise(row * kHeight);
  for (size_t y = 0; y < kHeight; ++y) rows[y * row] = std::byte(0);  // no filter
  const File palette = color_type == 3 ? testing::PngChunk("PLTE", File(3 << bit_depth)) : File();
  return testing::PngSignature() + testing::PngHeader(kWidth, kHeight, bit_depth, color_type) +
         palette + testing::PngChunk("IDAT", testing::Deflate(rows)) +
         testing::PngChunk("IEND", {});
}

File Jpeg(int pixel_format, int subsampling, int flags) {
  const File pixels = Noise(size_t{kWidth} * kHeight * tjPixelSize[pixel_format]);
  const tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  FOVEA_CHECK(tjCompress2(handle, reinterpret_cast<const unsigned char*>(pixels.data()), kWidth, 0,
                          kHeight, pixel_format, &out, &size, subsampling, 90, flags) == 0);
  const auto* data = reinterpret_cast<const std::byte*>(out);
  File file(data, data + size);
  tjFree(out);
  tjDestroy(handle);
  return file;
}

File Webp(int channels, int quality) {
  const File pixels = Noise(size_t{kWidth} * kHeight * channels);
  const cv::Mat image(kHeight, kWidth, CV_MAKETYPE(CV_8U, channels),
                      const_cast<std::byte*>(pixels.data()));
  std::vector<uint8_t> out;
  FOVEA_CHECK(cv::imencode(".webp", image, out, {cv::IMWRITE_WEBP_QUALITY, quality}));
  const auto* data = reinterpret_cast<const std::byte*>(out.data());
  return {data, data + out.size()};
}

File Turned(const File& jpeg) {
  const std::string_view exif("Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 32);
  return File(jpeg.begin(), jpeg.begin() + 2) +
         testing::JpegSegment(0xe1, testing::FromText(exif)) + File(jpeg.begin() + 2, jpeg.end());
}

struct Case {
  const char* name;
  File (*make)();
};

const Case kCases[] = {
    {"BaselineJpeg", [] { return Jpeg(TJPF_RGB, TJSAMP_420, 0); }},
    {"ProgressiveJpeg", [] { return Jpeg(TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE); }},
    {"GrayProgressiveJpeg", [] { return Jpeg(TJPF_GRAY, TJSAMP_GRAY, TJFLAG_PROGRESSIVE); }},
    {"CmykJpeg", [] { return Jpeg(TJPF_CMYK, TJSAMP_444, 0); }},
    {"TurnedProgressiveCmykJpeg",
     [] { return Turned(Jpeg(TJPF_CMYK, TJSAMP_444, TJFLAG_PROGRESSIVE)); }},
    {"TurnedJpeg", [] { return Turned(Jpeg(TJPF_RGB, TJSAMP_420, 0)); }},
    {"OneBitPng", [] { return Png(1, 0, 1, true); }},
    {"PalettePng", [] { return Png(4, 3, 1, true); }},
    {"RgbPng", [] { return Png(8, 2, 3, false); }},
    {"SixteenBitPng", [] { return Png(16, 2, 3, true); }},
    {"SixteenBitAlphaPng", [] { return Png(16, 6, 4, false); }},
    {"LossyWebp", [] { return Webp(3, 80); }},
    {"LossyAlphaWebp", [] { return Webp(4, 80); }},
    {"LosslessWebp", [] { return Webp(3, 101); }},
    {"LosslessAlphaWebp", [] { return Webp(4, 101); }},
};

class DecodeMemory : public ::testing::TestWithParam<Case> {};

TEST_P(DecodeMemory, StaysWithinWhatTheProbeSaid) {
  const File file = GetParam().make();
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_TRUE(DecodeImage(file, *info).ok());  // what is allocated once a thread
  const int64_t before = live;
  peak = before;
  {
    const absl::StatusOr<RgbImage> image = DecodeImage(file, *info);
    ASSERT_TRUE(image.ok()) << image.status();
  }
  const int64_t used = peak - before;
  EXPECT_EQ(live, before);
  EXPECT_LE(used, info->decode_bytes);
  // Nor is so much reserved that nothing else fits.
  EXPECT_GE(used, info->decode_bytes / 3);
  RecordProperty("used", std::to_string(used));
  RecordProperty("said", std::to_string(info->decode_bytes));
}

INSTANTIATE_TEST_SUITE_P(Row39, DecodeMemory, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea
