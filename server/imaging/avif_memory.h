// Bounds on the memory that libavif and dav1d take for one file. Only for probe_avif.cc and
// decode_avif.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "absl/container/flat_hash_map.h"

namespace fovea {

// Thrown through libavif where a file would take more than it may.
struct AvifMemoryExceeded : std::runtime_error {
  AvifMemoryExceeded() : std::runtime_error("libavif would take more memory than it may") {}
};

// While this is there, what libavif allocates on this thread and the frames of its dav1d contexts
// are charged to it, and what libavif has not freed by its end is freed then: exceptions pass
// through libavif, which is C. One a thread at a time; libavif's decoders on the thread end before
// it.
class AvifMemory {
 public:
  // `most_bytes`: held at once, each frame counted as the probe counts it. `most_pixels`: of all
  // frames together. dav1d decodes every frame up to the first that is shown, and the probe cannot
  // count them all: libavif may join the AV1 data from pieces anywhere in the file.
  AvifMemory(int64_t most_bytes, int64_t most_pixels);
  ~AvifMemory();
  AvifMemory(const AvifMemory&) = delete;
  AvifMemory& operator=(const AvifMemory&) = delete;

  // This thread's; null: there is none.
  static AvifMemory* Current();

  // Throws AvifMemoryExceeded, std::bad_alloc.
  void* Allocate(size_t size);
  void Free(void* memory);
  // False, and nothing is charged, where there is no room left.
  bool Take(int64_t bytes);
  bool TakeFrame(int64_t pixels, int64_t bytes);
  void GiveBack(int64_t bytes) { bytes_left_ += bytes; }

 private:
  int64_t bytes_left_;
  int64_t pixels_left_;
  absl::flat_hash_map<void*, int64_t> blocks_;  // of libavif, with their bytes
};

}  // namespace fovea
