// A file that is written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>

namespace fovea::models {

// Written beside its target, as TARGET.partial, and removed again unless it is committed. Its
// functions throw c10::Error, which names the target.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void Write(const void* data, size_t bytes);
  // What was written is on the disk.
  void Sync();
  // Syncs, and takes the target's name: a reader sees the old file or the whole new one.
  void Commit();

 private:
  const std::filesystem::path target_, pending_;
  int fd_ = -1;
};

}  // namespace fovea::models
