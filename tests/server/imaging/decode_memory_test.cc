// ImageInfo::decode_bytes is what the memory budget goes by: it must hold for what the libraries
// allocate, too; and where they get no memory, that is what the caller is told. This program
// replaces the C allocator by one that counts, and fails when told to.
#include <gif_lib.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <turbojpeg.h>
#include <webp/encode.h>
#ifdef FOVEA_AVIF
#include <avif/avif.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "base/check.h"
#include "server/core/testing/fake_clock.h"
#include "server/imaging/decode.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/preprocess.h"
#include "server/imaging/probe.h"
#include "tests/server/imaging/hostile_files.h"
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
std::atomic<int64_t> live_blocks{0};

// Small allocations succeed. They fail only where a process is at its end, and libwebp 1.2.4 frees
// twice where its colour cache, of at most 8 KiB, cannot be had.
constexpr size_t kLargeAllocation = 10'000;

// When armed, large allocations fail after so many successes.
struct Failures {
  bool armed = false;
  int successes = 0;
  int happened = 0;
};
Failures failures;

bool Fails(size_t size) {
  if (!failures.armed || size < kLargeAllocation) return false;
  if (failures.successes > 0) {
    --failures.successes;
    return false;
  }
  ++failures.happened;
  errno = ENOMEM;
  return true;
}

void* Counted(void* memory) {
  if (memory == nullptr) return memory;
  ++live_blocks;
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t before = peak.load();
  while (now > before && !peak.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void Uncounted(void* memory) {
  if (memory == nullptr) return;
  --live_blocks;
  live -= static_cast<int64_t>(malloc_usable_size(memory));
}

}  // namespace

extern "C" {
void* malloc(size_t size) { return Fails(size) ? nullptr : Counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) {
  return Fails(count * size) ? nullptr : Counted(__libc_calloc(count, size));
}
void* realloc(void* old, size_t size) {
  if (Fails(size)) return nullptr;
  Uncounted(old);
  return Counted(__libc_realloc(old, size));
}
void* memalign(size_t alignment, size_t size) {
  return Fails(size) ? nullptr : Counted(__libc_memalign(alignment, size));
}
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

struct Size {
  int height, width;
  size_t pixels() const { return size_t{1} * height * width; }
};
constexpr Size kLarge{1203, 1601};
constexpr Size kSmall{23, 29};
constexpr Size kMiddling{150, 200};
constexpr Size kWide{17, 16383};
constexpr Size kHigh{16383, 17};

File Noise(size_t size) {
  std::mt19937 random(5);
  File noise(size);
  for (std::byte& value : noise) value = std::byte(random());
  return noise;
}

const uint8_t* Data(const File& file) { return reinterpret_cast<const uint8_t*>(file.data()); }

File FromData(const uint8_t* data, size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  return {first, first + size};
}

// Rows of noise, each behind a byte that says that it is not filtered.
File PngRows(Size size, int bits_per_pixel) {
  const size_t row = 1 + (size_t{1} * size.width * bits_per_pixel + 7) / 8;
  File rows = Noise(row * size.height);
  for (size_t at = 0; at < rows.size(); at += row) rows[at] = std::byte(0);
  return rows;
}

File InterlacedRows(Size size, int bits_per_pixel) {
  struct Pass {
    int top, left, down, right;
  };
  constexpr Pass kPasses[] = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                              {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};
  File rows;
  for (const auto& [top, left, down, right] : kPasses) {
    const Size part{(size.height - top + down - 1) / down, (size.width - left + right - 1) / right};
    if (part.pixels() == 0) continue;
    rows = std::move(rows) + PngRows(part, bits_per_pixel);
  }
  return rows;
}

File Png(Size size, int bit_depth, int color_type, int components, bool interlaced = false) {
  const int bits_per_pixel = bit_depth * components;
  File header = testing::Big32(size.width) + testing::Big32(size.height) +
                File{std::byte(bit_depth), std::byte(color_type), std::byte(0), std::byte(0),
                     std::byte(interlaced)};
  const File palette = color_type == 3 ? testing::PngChunk("PLTE", File(3 << bit_depth)) : File();
  const File rows =
      interlaced ? InterlacedRows(size, bits_per_pixel) : PngRows(size, bits_per_pixel);
  return testing::PngSignature() + testing::PngChunk("IHDR", header) + palette +
         testing::PngChunk("IDAT", testing::Deflate(rows)) + testing::PngChunk("IEND", {});
}

File Jpeg(Size size, int pixel_format, int subsampling, int flags) {
  const File pixels = Noise(size.pixels() * tjPixelSize[pixel_format]);
  const tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  FOVEA_CHECK(tjCompress2(handle, Data(pixels), size.width, 0, size.height, pixel_format, &out,
                          &bytes, subsampling, 90, flags) == 0);
  const File file = FromData(out, bytes);
  tjFree(out);
  tjDestroy(handle);
  return file;
}

enum class Webp { kLossy, kLossless };

File EncodedWebp(Size size, int channels, Webp how) {
  const File pixels = Noise(size.pixels() * channels);
  const uint8_t* from = Data(pixels);
  const int row = size.width * channels;
  uint8_t* out = nullptr;
  size_t bytes = 0;
  if (how == Webp::kLossless) {
    const auto encode = channels == 3 ? WebPEncodeLosslessRGB : WebPEncodeLosslessRGBA;
    bytes = encode(from, size.width, size.height, row, &out);
  } else {
    const auto encode = channels == 3 ? WebPEncodeRGB : WebPEncodeRGBA;
    bytes = encode(from, size.width, size.height, row, 80, &out);
  }
  FOVEA_CHECK(bytes > 0);
  const File file = FromData(out, bytes);
  WebPFree(out);
  return file;
}

File Gif(Size size) {
  const File numbers = Noise(size.pixels());
  File file;
  int error = 0;
  GifFileType* gif = EGifOpen(
      &file,
      [](GifFileType* to, const GifByteType* bytes, int count) {
        const auto* first = reinterpret_cast<const std::byte*>(bytes);
        auto& written = *static_cast<File*>(to->UserData);
        written.insert(written.end(), first, first + count);
        return count;
      },
      &error);
  FOVEA_CHECK(gif != nullptr);
  ColorMapObject* colours = GifMakeMapObject(256, nullptr);
  FOVEA_CHECK(EGifPutScreenDesc(gif, size.width, size.height, 8, 0, colours) == GIF_OK);
  FOVEA_CHECK(EGifPutImageDesc(gif, 0, 0, size.width, size.height, false, nullptr) == GIF_OK);
  for (int y = 0; y < size.height; ++y) {
    auto* row = const_cast<uint8_t*>(Data(numbers)) + size_t{1} * y * size.width;
    FOVEA_CHECK(EGifPutLine(gif, row, size.width) == GIF_OK);
  }
  GifFreeMapObject(colours);
  FOVEA_CHECK(EGifCloseFile(gif, &error) == GIF_OK);
  return file;
}

// With a header of 40 bytes: rows of `bits`, or runs that a file of `bits` 8 ends each row in.
File Bmp(Size size, int bits, bool runs) {
  File pixels;
  if (runs) {
    for (int y = 0; y < size.height; ++y) {
      for (int left = size.width; left > 0; left -= 255) {
        pixels.push_back(std::byte(std::min(left, 255)));
        pixels.push_back(std::byte(y));
      }
      pixels.resize(pixels.size() + 2);
    }
  } else {
    pixels = Noise((size_t{1} * size.width * bits + 31) / 32 * 4 * size.height);
  }
  const uint32_t start = 14 + 40 + (bits == 8 ? 1024 : 0);
  File file = testing::FromText("BM") + testing::Little32(0) + testing::Little32(0) +
              testing::Little32(start) + testing::Little32(40) + testing::Little32(size.width) +
              testing::Little32(size.height) + testing::Little32(1 | bits << 16) +
              testing::Little32(runs ? 1 : 0);
  file.resize(start);
  return std::move(file) + pixels;
}

// Big-endian, uncompressed, in one strip or in strips of 16 rows.
File Tiff(Size size, int rows_per_strip) {
  const int strips = (size.height + rows_per_strip - 1) / rows_per_strip;
  const uint32_t row = 3 * size.width, pixels = row * size.height;
  File offsets, counts;
  for (int i = 0; i < strips; ++i) {
    const int rows = std::min(rows_per_strip, size.height - i * rows_per_strip);
    offsets = std::move(offsets) + testing::Big32(8 + i * rows_per_strip * row);
    counts = std::move(counts) + testing::Big32(rows * row);
  }
  const uint32_t directory = 8 + pixels, behind = directory + 2 + 9 * 12 + 4;
  const auto entry = [](uint32_t tag, uint32_t count, uint32_t value) {
    return testing::Big16(tag) + testing::Big16(4) + testing::Big32(count) + testing::Big32(value);
  };
  const auto list = [&](uint32_t tag, const File& values, uint32_t at) {
    const bool inside = values.size() == 4;
    return entry(tag, static_cast<uint32_t>(strips), inside ? U32Big(values, 0) : at);
  };
  return testing::FromText(std::string_view("MM\0*", 4)) + testing::Big32(directory) +
         Noise(pixels) + testing::Big16(9) + entry(256, 1, size.width) +
         entry(257, 1, size.height) + entry(258, 1, 8) + entry(259, 1, 1) + entry(262, 1, 2) +
         list(273, offsets, behind) + entry(277, 1, 3) + entry(278, 1, rows_per_strip) +
         list(279, counts, behind + offsets.size()) + testing::Big32(0) + offsets + counts;
}

#ifdef FOVEA_AVIF
File Avif(Size size, avifPixelFormat format, int depth, bool alpha) {
  avifImage* image = avifImageCreate(size.width, size.height, depth, format);
  avifImageAllocatePlanes(image, alpha ? AVIF_PLANES_ALL : AVIF_PLANES_YUV);
  for (int plane = 0; plane < 3; ++plane) {
    const int rows =
        plane > 0 && format == AVIF_PIXEL_FORMAT_YUV420 ? (size.height + 1) / 2 : size.height;
    std::memset(image->yuvPlanes[plane], 0, size_t{image->yuvRowBytes[plane]} * rows);
  }
  if (alpha) std::memset(image->alphaPlane, 0, size_t{image->alphaRowBytes} * size.height);
  avifEncoder* encoder = avifEncoderCreate();
  encoder->speed = AVIF_SPEED_FASTEST;
  avifRWData out = AVIF_DATA_EMPTY;
  FOVEA_CHECK(avifEncoderWrite(encoder, image, &out) == AVIF_RESULT_OK);
  const File file = FromData(out.data, out.size);
  avifRWDataFree(&out);
  avifEncoderDestroy(encoder);
  avifImageDestroy(image);
  return file;
}
#endif

File Turned(const File& jpeg) {
  const std::string_view exif("Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 32);
  return File(jpeg.begin(), jpeg.begin() + 2) +
         testing::JpegSegment(0xe1, testing::FromText(exif)) + File(jpeg.begin() + 2, jpeg.end());
}

struct Case {
  const char* name;
  File (*make)(Size);
};

const Case kCases[] = {
    {"BaselineJpeg", [](Size size) { return Jpeg(size, TJPF_RGB, TJSAMP_420, 0); }},
    {"ProgressiveJpeg",
     [](Size size) { return Jpeg(size, TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE); }},
    {"GrayProgressiveJpeg",
     [](Size size) { return Jpeg(size, TJPF_GRAY, TJSAMP_GRAY, TJFLAG_PROGRESSIVE); }},
    {"CmykJpeg", [](Size size) { return Jpeg(size, TJPF_CMYK, TJSAMP_444, 0); }},
    {"TurnedProgressiveCmykJpeg",
     [](Size size) { return Turned(Jpeg(size, TJPF_CMYK, TJSAMP_444, TJFLAG_PROGRESSIVE)); }},
    {"TurnedJpeg", [](Size size) { return Turned(Jpeg(size, TJPF_RGB, TJSAMP_420, 0)); }},
    {"OneBitPng", [](Size size) { return Png(size, 1, 0, 1); }},
    {"PalettePng", [](Size size) { return Png(size, 4, 3, 1); }},
    {"RgbPng", [](Size size) { return Png(size, 8, 2, 3); }},
    {"SixteenBitPng", [](Size size) { return Png(size, 16, 2, 3); }},
    {"SixteenBitAlphaPng", [](Size size) { return Png(size, 16, 6, 4); }},
    {"InterlacedPng", [](Size size) { return Png(size, 8, 2, 3, true); }},
    {"InterlacedSixteenBitAlphaPng", [](Size size) { return Png(size, 16, 6, 4, true); }},
    {"LossyWebp", [](Size size) { return EncodedWebp(size, 3, Webp::kLossy); }},
    {"LossyAlphaWebp", [](Size size) { return EncodedWebp(size, 4, Webp::kLossy); }},
    {"LosslessWebp", [](Size size) { return EncodedWebp(size, 3, Webp::kLossless); }},
    {"LosslessAlphaWebp", [](Size size) { return EncodedWebp(size, 4, Webp::kLossless); }},
    {"Gif", Gif},
    {"Bmp", [](Size size) { return Bmp(size, 24, false); }},
    {"BmpOfRuns", [](Size size) { return Bmp(size, 8, true); }},
    {"TiffOfStrips", [](Size size) { return Tiff(size, 16); }},
    {"TiffOfOneStrip", [](Size size) { return Tiff(size, size.height); }},
#ifdef FOVEA_AVIF
    {"Avif", [](Size size) { return Avif(size, AVIF_PIXEL_FORMAT_YUV420, 8, false); }},
    {"TenBitAlphaAvif", [](Size size) { return Avif(size, AVIF_PIXEL_FORMAT_YUV444, 10, true); }},
#endif
};

class DecodeMemory : public ::testing::TestWithParam<Case> {};

// What decoding holds at its peak, besides what a thread keeps.
int64_t Used(const File& file, const ImageInfo& info, int halvings = 0) {
  EXPECT_TRUE(DecodeImage(file, info, {.halvings = halvings}).ok());
  const int64_t before = live;
  peak = before;
  EXPECT_TRUE(DecodeImage(file, info, {.halvings = halvings}).ok());
  EXPECT_EQ(live, before);
  return peak - before;
}

TEST_P(DecodeMemory, StaysWithinWhatTheProbeSaid) {
  for (const Size size : {kLarge, kSmall, kWide, kHigh}) {
    const File file = GetParam().make(size);
    const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
    ASSERT_TRUE(info.ok()) << info.status();
    const int64_t used = Used(file, *info);
    EXPECT_LE(used, info->decode_bytes) << size.height << " x " << size.width;
    // Nor is so much reserved that nothing else fits.
    if (size.height == kLarge.height) {
      EXPECT_GE(used, info->decode_bytes / 5);
    }
  }
}

TEST_P(DecodeMemory, StaysWithinWhatIsReservedForASmallerScale) {
  const File file = GetParam().make(kLarge);
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok()) << info.status();
  if (info->format != ImageFormat::kJpeg) {
    EXPECT_EQ(HalvingsFor(*info, {.sizes = {{1, 1}}, .fast_decode = true}), 0);
    return;
  }
  EXPECT_EQ(DecodeBytes(*info, 0), info->decode_bytes);
  for (int halvings = 1; halvings <= kMaxHalvings; ++halvings) {
    EXPECT_LT(DecodeBytes(*info, halvings), DecodeBytes(*info, halvings - 1));
    EXPECT_LE(Used(file, *info, halvings), DecodeBytes(*info, halvings)) << halvings;
  }
}

TEST(DecodeMemoryOfHostileImages, Row39TablesThatAWebpAsksForAreBounded) {
  for (const uint32_t side : {20, 100, 256, 1024}) {
    const File file = testing::WebpOfManyPrefixCodes(side);
    const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
    ASSERT_TRUE(info.ok()) << info.status();
    const int64_t before = live;
    peak = before;
    EXPECT_EQ(DecodeImage(file, *info).ok(), side == 20);
    EXPECT_LE(peak - before, info->decode_bytes) << side;
  }
}

#ifdef FOVEA_AVIF
// Each cell has a context of its own.
TEST(DecodeMemoryOfGrids, Row39StaysWithinWhatTheProbeSaid) {
  constexpr uint32_t kSide = 10;
  avifImage* cell = avifImageCreate(64, 64, 8, AVIF_PIXEL_FORMAT_YUV444);
  avifImageAllocatePlanes(cell, AVIF_PLANES_YUV);
  for (int plane = 0; plane < 3; ++plane) std::memset(cell->yuvPlanes[plane], 0, 64 * 64);
  const std::vector<const avifImage*> cells(kSide * kSide, cell);
  avifEncoder* encoder = avifEncoderCreate();
  encoder->speed = AVIF_SPEED_FASTEST;
  avifRWData out = AVIF_DATA_EMPTY;
  ASSERT_EQ(
      avifEncoderAddImageGrid(encoder, kSide, kSide, cells.data(), AVIF_ADD_IMAGE_FLAG_SINGLE),
      AVIF_RESULT_OK);
  ASSERT_EQ(avifEncoderFinish(encoder, &out), AVIF_RESULT_OK);
  const File file = FromData(out.data, out.size);
  avifRWDataFree(&out);
  avifEncoderDestroy(encoder);
  avifImageDestroy(cell);
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->width, 64 * static_cast<int>(kSide));
  EXPECT_LE(Used(file, *info), info->decode_bytes);
}
#endif

TEST(DecodeMemoryOfHostileImages, Row115WhatIsDecodedOrRefusedStaysWithinWhatTheProbeSaid) {
  for (const testing::HostileFile& hostile : testing::HostileFiles()) {
    int64_t before = live;
    peak = before;
    const absl::StatusOr<ImageInfo> info = ProbeImage(hostile.file, {});
    EXPECT_LE(peak - before, 2 * limits::kMiB + hostile.probe_bytes) << hostile.name;
    if (!info.ok()) continue;
    before = live;
    peak = before;
    (void)DecodeImage(hostile.file, *info);
    EXPECT_LE(peak - before, info->decode_bytes) << hostile.name;
  }
}

void ExpectThatMissingMemoryIsNoDamage(const File& file, const ImageInfo& info) {
  ASSERT_TRUE(DecodeImage(file, info).ok());
  const int64_t kept = live_blocks;  // by the thread
  int refused = 0;
  for (int successes = 0;; ++successes) {
    failures = {.armed = true, .successes = successes};
    {
      const absl::Status status = DecodeImage(file, info).status();
      failures.armed = false;
      if (failures.happened == 0) break;
      if (!status.ok()) {  // libjpeg asks for less where it gets nothing
        ++refused;
        ASSERT_EQ(status.code(), absl::StatusCode::kUnavailable) << successes;
        ASSERT_EQ(ReasonOf(status), "server.out_of_memory") << successes;
      }
    }
    ASSERT_TRUE(DecodeImage(file, info).ok());
    ASSERT_EQ(live_blocks, kept) << successes;
  }
  EXPECT_GE(refused, 1);
}

TEST_P(DecodeMemory, MissingMemoryIsNoDamageAndLeavesNothing) {
  const File file = GetParam().make(kMiddling);
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok()) << info.status();
  std::thread([&] { ExpectThatMissingMemoryIsNoDamage(file, *info); }).join();
}

// What the budget says, the allocator says too.
TEST(WaitingToDecode, Row39KeepsNothingOfTheFile) {
  const File file = Png(kLarge, 8, 2, 3);
  const auto bytes = static_cast<int64_t>(file.size());
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok()) << info.status();
  const PreprocessSpec spec{.sizes = {{16, 16}}};
  const size_t half = file.size() / 2;
  const std::span<const std::byte> whole(file);
  const ScatteredBytes pieces({whole.first(half), whole.subspan(half)}, nullptr);
  FakeClock clock;
  MemoryBudget budget(bytes + info->decode_bytes, clock);
  // It is gathered, and then cannot be decoded.
  std::optional<MemoryBudget::Hold> other = budget.TryHold(info->decode_bytes);
  const int64_t before = live;
  absl::Status status;
  std::thread decodes([&] {
    status = DecodeAndResize(pieces, spec, {}, {.budget = budget, .clock = clock}).status();
  });
  clock.AwaitWaiters(1);
  EXPECT_LT(live - before, bytes / 2);
  other.reset();
  decodes.join();
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Row39, DecodeMemory, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea
