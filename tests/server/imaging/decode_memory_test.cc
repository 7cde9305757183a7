// ImageInfo::decode_bytes is what the memory budget goes by: it must hold for what the libraries
// allocate, too; and where they get no memory, that is what the caller is told. This program
// replaces the C allocator by one that counts, and fails when told to.
#include <gtest/gtest.h>
#include <malloc.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "base/check.h"
#include "server/core/testing/fake_clock.h"
#include "server/imaging/decode.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/preprocess.h"
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
  // A thread of its own: TurboJPEG's decompressor, which a thread keeps, has seen nothing else.
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
