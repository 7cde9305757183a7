#pragma once

#include <unistd.h>

#include <utility>

namespace fovea {

// Closes its file when it goes. Move-only; not thread-safe.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  // Swaps: `other` closes what this had.
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }  // -1: none
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace fovea
