#include "server/shared_memory/shared_memory_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "server/core/files_for_callers.h"

namespace fovea {
namespace {

absl::Status ObjectTooSmall() {
  return InvalidArgument("shared_memory.object_too_small",
                         "the shared memory object is shorter than what was registered of it");
}

absl::Status NoSuchObject() {
  return InvalidArgument("shared_memory.key",
                         "the key names no shared memory object that the server may use");
}

absl::Status NoFiles() {
  return ResourceExhausted("shared_memory.no_files",
                           "the server has no file descriptor left for shared memory");
}

class PosixSharedMemory final : public SharedMemoryObject {
 public:
  explicit PosixSharedMemory(FileDescriptor file) : file_(std::move(file)) {}

  absl::StatusOr<uint64_t> SizeBytes() const override {
    struct stat facts;
    if (fstat(file_.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return NoSuchObject();
    return static_cast<uint64_t>(facts.st_size);
  }

  absl::Status Read(uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got = pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Internal("shared_memory.read", "the shared memory could not be read");
      if (got == 0) return ObjectTooSmall();
      offset += static_cast<uint64_t>(got);
      to = to.subspan(static_cast<size_t>(got));
    }
    return absl::OkStatus();
  }

  absl::Status Write(uint64_t offset, std::string_view bytes) override {
    // A write past the end would make the object longer.
    FOVEA_ASSIGN_OR_RETURN(const uint64_t size, SizeBytes());
    if (offset > size || bytes.size() > size - offset) return ObjectTooSmall();
    while (!bytes.empty()) {
      const ssize_t put =
          pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == ENOSPC) {
        return ResourceExhausted("shared_memory.full", "no memory is left for shared memory");
      }
      if (put <= 0) return Internal("shared_memory.write", "the shared memory cannot be written");
      offset += static_cast<uint64_t>(put);
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return absl::OkStatus();
  }

 private:
  const FileDescriptor file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemoryObject>> OpenPosixSharedMemory(const std::string& key) {
  FileDescriptor file(shm_open(key.c_str(), O_RDWR, 0));  // follows no link, waits for nobody
  if (file.get() < 0 && (errno == EMFILE || errno == ENFILE)) {
    return NoFiles();
  }
  if (file.get() < 0) return NoSuchObject();
  if (file.get() >= FilesForCallers()) return NoFiles();
  return std::make_unique<PosixSharedMemory>(std::move(file));
}

}  // namespace fovea
