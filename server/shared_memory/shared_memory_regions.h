// The parts of shared memory that callers have registered (Triton's system_shared_memory
// extension).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/mutex.h"
#include "server/core/tensor.h"
#include "server/shared_memory/shared_memory_object.h"

namespace fovea {

// What a caller registers: bytes [offset, offset + byte_size) of an object.
struct SharedMemoryRegionInfo {
  std::string name;
  std::string key;  // shm_open's name of the object
  uint64_t offset = 0;
  uint64_t byte_size = 0;

  bool operator==(const SharedMemoryRegionInfo&) const = default;
};

// Thread-safe. States: open, closed. Offsets count from the region's begin.
class SharedMemoryRegion {
 public:
  SharedMemoryRegion(SharedMemoryRegionInfo info, std::unique_ptr<SharedMemoryObject> object);

  const SharedMemoryRegionInfo& info() const { return info_; }
  // The bytes lie inside the region. INVALID_ARGUMENT shared_memory.unregistered: it is closed;
  // SharedMemoryObject's errors.
  absl::Status Read(uint64_t offset, std::span<std::byte> to);
  absl::Status Write(uint64_t offset, std::string_view bytes);
  // Waits for what is being read or written: as long as a tensor takes to be copied. Nothing is
  // afterwards.
  void Close();

 private:
  class Use;

  const SharedMemoryRegionInfo info_;
  const std::unique_ptr<SharedMemoryObject> object_;
  Mutex mutex_;
  CondVar idle_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int users_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A tensor's place in a region. Copies share the region, which may close meanwhile.
class SharedMemoryPlace {
 public:
  SharedMemoryPlace(std::shared_ptr<SharedMemoryRegion> region, uint64_t offset, uint64_t byte_size)
      : region_(std::move(region)), offset_(offset), byte_size_(byte_size) {}

  uint64_t byte_size() const { return byte_size_; }
  // As the region's; no more than byte_size() bytes.
  absl::Status Read(std::span<std::byte> to) const { return region_->Read(offset_, to); }
  // `at` is inside of the place.
  absl::Status Write(uint64_t at, std::string_view bytes) const {
    return region_->Write(offset_ + at, bytes);
  }

 private:
  std::shared_ptr<SharedMemoryRegion> region_;
  uint64_t offset_;
  uint64_t byte_size_;
};

struct SharedMemoryOptions {
  // Each keeps a file descriptor open. Raise it with the process's limit of them.
  size_t max_regions = limits::kMaxSharedMemoryRegions;
};

// Thread-safe. A region takes a file descriptor and no memory: what requests copy is counted with
// them.
class SharedMemoryRegions {
 public:
  explicit SharedMemoryRegions(OpenSharedMemory open, SharedMemoryOptions options = {})
      : open_(std::move(open)), options_(options) {}

  // Opens the object at once. INVALID_ARGUMENT: the name is none (shared_memory.name), the key is
  // none, belongs to a program's own use or names no object (shared_memory.key), the bytes are none
  // or not all inside the object (shared_memory.range); ALREADY_EXISTS shared_memory.name_taken;
  // RESOURCE_EXHAUSTED shared_memory.too_many; `open`'s errors.
  absl::Status Register(SharedMemoryRegionInfo region);
  // Afterwards the server neither reads nor writes the region: requests that have still to write
  // there fail. `name` empty: all of them. One that is not registered is none.
  void Unregister(const std::string& name);
  // In the order of their names. `name` empty: all of them; NOT_FOUND shared_memory.name_unknown.
  absl::StatusOr<std::vector<SharedMemoryRegionInfo>> Status(const std::string& name) const;

  // Where a tensor lies. INVALID_ARGUMENT: its region is not registered
  // (shared_memory.not_registered), or it is not inside of it (shared_memory.range).
  absl::StatusOr<SharedMemoryPlace> Find(const SharedMemorySpan& span) const;

 private:
  using Regions = std::map<std::string, std::shared_ptr<SharedMemoryRegion>>;
  absl::Status CheckRoom(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenSharedMemory open_;
  const SharedMemoryOptions options_;
  mutable Mutex mutex_;
  Regions regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
