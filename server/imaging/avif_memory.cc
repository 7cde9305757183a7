#include "server/imaging/avif_memory.h"

#include <avif/avif.h>
#include <dav1d/dav1d.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "server/imaging/avif_decoder.h"

namespace fovea {
namespace {

thread_local AvifMemory* current = nullptr;

constexpr size_t kFrameAlignment = DAV1D_PICTURE_ALIGNMENT;

int AllocateFrame(Dav1dPicture* picture, void* cookie) {
  auto& memory = *static_cast<AvifMemory*>(cookie);
  const Dav1dPictureParameters& frame = picture->p;
  const auto padded = [](int64_t side) { return (side + 127) / 128 * 128; };
  // Rows whose distance is a power of two would compete for the same cache lines.
  const auto stride = [](int64_t row) {
    return row % 1024 == 0 ? row + static_cast<int64_t>(kFrameAlignment) : row;
  };
  const int64_t width = padded(frame.w), height = padded(frame.h);
  const int64_t row = frame.bpc > 8 ? 2 * width : width;
  const bool has_chroma = frame.layout != DAV1D_PIXEL_LAYOUT_I400;
  const int64_t chroma_row = frame.layout == DAV1D_PIXEL_LAYOUT_I444 ? row : row / 2;
  const int64_t chroma_height = frame.layout == DAV1D_PIXEL_LAYOUT_I420 ? height / 2 : height;
  const int64_t luma_bytes = stride(row) * height;
  const int64_t chroma_bytes = has_chroma ? stride(chroma_row) * chroma_height : 0;
  const int64_t charged = luma_bytes + 2 * chroma_bytes + width * height;  // and its tables
  if (!memory.TakeFrame(int64_t{frame.w} * frame.h, charged)) return DAV1D_ERR(EINVAL);
  // The planes follow the number of bytes charged, which ReleaseFrame reads.
  const int64_t size = luma_bytes + 2 * chroma_bytes + 2 * static_cast<int64_t>(kFrameAlignment);
  auto* planes = static_cast<uint8_t*>(std::aligned_alloc(kFrameAlignment, size));
  if (planes == nullptr) {
    memory.GiveBack(charged);
    return DAV1D_ERR(ENOMEM);
  }
  std::memcpy(planes, &charged, sizeof(charged));
  picture->allocator_data = planes;
  planes += kFrameAlignment;
  picture->data[0] = planes;
  picture->data[1] = has_chroma ? planes + luma_bytes : nullptr;
  picture->data[2] = has_chroma ? planes + luma_bytes + chroma_bytes : nullptr;
  picture->stride[0] = stride(row);
  picture->stride[1] = has_chroma ? stride(chroma_row) : 0;
  return 0;
}

void ReleaseFrame(Dav1dPicture* picture, void* cookie) {
  int64_t charged;
  std::memcpy(&charged, picture->allocator_data, sizeof(charged));
  static_cast<AvifMemory*>(cookie)->GiveBack(charged);
  std::free(picture->allocator_data);
}

}  // namespace

AvifMemory::AvifMemory(int64_t most_bytes, int64_t most_pixels)
    : bytes_left_(most_bytes), pixels_left_(most_pixels) {
  FOVEA_CHECK(current == nullptr);
  current = this;
}

AvifMemory::~AvifMemory() {
  current = nullptr;
  for (const auto& [block, bytes] : blocks_) std::free(block);
}

AvifMemory* AvifMemory::Current() { return current; }

void* AvifMemory::Allocate(size_t size) {
  const auto bytes = static_cast<int64_t>(size);
  if (bytes < 0 || !Take(bytes)) throw AvifMemoryExceeded();
  void* const block = std::malloc(size);
  if (block != nullptr) {
    try {
      blocks_.emplace(block, bytes);
      return block;
    } catch (const std::bad_alloc&) {
      std::free(block);
    }
  }
  GiveBack(bytes);
  throw std::bad_alloc();
}

void AvifMemory::Free(void* block) {
  const auto found = blocks_.find(block);
  if (found != blocks_.end()) {
    GiveBack(found->second);
    blocks_.erase(found);
  }
  std::free(block);
}

bool AvifMemory::Take(int64_t bytes) {
  if (bytes > bytes_left_) return false;
  bytes_left_ -= bytes;
  return true;
}

bool AvifMemory::TakeFrame(int64_t pixels, int64_t bytes) {
  pixels_left_ -= pixels;
  return pixels_left_ >= 0 && Take(bytes);
}

}  // namespace fovea

// These replace libavif's allocation functions: that of libavif 0.11 ends the process when it gets
// no memory. libavif exports the symbols, so the executable's definitions take precedence.
extern "C" void* avifAlloc(size_t size) {
  fovea::AvifMemory* const memory = fovea::AvifMemory::Current();
  if (memory != nullptr) return memory->Allocate(size);
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

extern "C" void avifFree(void* block) {
  fovea::AvifMemory* const memory = fovea::AvifMemory::Current();
  memory != nullptr ? memory->Free(block) : std::free(block);
}

// Silences dav1d, which would write to stderr about each damaged file, and bounds its memory.
// libavif can do neither, but starts from dav1d's default settings, which are overridden in the
// same way, once for each context that it opens.
extern "C" void dav1d_default_settings(Dav1dSettings* settings) {
  using Settings = void (*)(Dav1dSettings*);
  static const auto original =
      reinterpret_cast<Settings>(dlsym(RTLD_NEXT, "dav1d_default_settings"));
  original(settings);
  settings->logger = {};
  fovea::AvifMemory* const memory = fovea::AvifMemory::Current();
  if (memory == nullptr) return;
  if (!memory->Take(fovea::kAvifContextBytes)) throw fovea::AvifMemoryExceeded();
  settings->allocator = {.cookie = memory,
                         .alloc_picture_callback = fovea::AllocateFrame,
                         .release_picture_callback = fovea::ReleaseFrame};
}
