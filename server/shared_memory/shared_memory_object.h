// A POSIX shared memory object, as another process has made it. It is read and written by copy and
// never mapped: a mapping of an object that its owner shortens ends the process that looks at it
// (docs/decisions/shared-memory-is-copied-never-mapped.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fovea {

// Thread-safe. Its owner may write to it, shorten it or unlink it at any time.
class SharedMemoryObject {
 public:
  virtual ~SharedMemoryObject() = default;

  virtual absl::StatusOr<uint64_t> SizeBytes() const = 0;
  // Fills `to`. What others write meanwhile may be in it or not. INVALID_ARGUMENT
  // shared_memory.object_too_small: the object ends before.
  virtual absl::Status Read(uint64_t offset, std::span<std::byte> to) const = 0;
  // INVALID_ARGUMENT as above: it makes no object longer (but where its owner shortens it at this
  // very moment); RESOURCE_EXHAUSTED shared_memory.full: the machine has no memory for these bytes.
  virtual absl::Status Write(uint64_t offset, std::string_view bytes) = 0;
};

using OpenSharedMemory =
    std::function<absl::StatusOr<std::unique_ptr<SharedMemoryObject>>(const std::string& key)>;

// The object of shm_open's name `key`, for reading and writing. INVALID_ARGUMENT shared_memory.key:
// there is none that this process may read and write (which of the two is not told);
// RESOURCE_EXHAUSTED shared_memory.no_files: FilesForCallers() are in use.
absl::StatusOr<std::unique_ptr<SharedMemoryObject>> OpenPosixSharedMemory(const std::string& key);

}  // namespace fovea
