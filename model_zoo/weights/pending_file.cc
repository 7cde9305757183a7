#include "model_zoo/weights/pending_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace fovea::models {

PendingFile::PendingFile(std::filesystem::path target)
    : target_(std::move(target)), pending_(target_.string() + ".partial") {
  fd_ = ::open(pending_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  TORCH_CHECK(fd_ >= 0, target_.string(), " cannot be created: ", std::strerror(errno));
}

PendingFile::~PendingFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(pending_.c_str());
}

void PendingFile::Write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(fd_, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    TORCH_CHECK(put >= 0, target_.string(), " cannot be written: ", std::strerror(errno));
    from += put;
    bytes -= static_cast<size_t>(put);
  }
}

void PendingFile::Sync() {
  TORCH_CHECK(::fsync(fd_) == 0, target_.string(), " cannot be written: ", std::strerror(errno));
}

void PendingFile::Commit() {
  Sync();
  TORCH_CHECK(std::rename(pending_.c_str(), target_.c_str()) == 0, target_.string(),
              " cannot be written: ", std::strerror(errno));
  ::close(fd_);
  fd_ = -1;
  // The new name, too. Where the file system cannot, the file has it all the same.
  const int folder = ::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace fovea::models
