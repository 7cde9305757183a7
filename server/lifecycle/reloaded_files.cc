#include "server/lifecycle/reloaded_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"

namespace fovea {

absl::StatusOr<std::string> ReadOperatorFile(const std::string& path) {
  const auto refused = [&path](const char* why) {
    return InvalidArgument("server.file", absl::StrCat(path, ": ", why));
  };
  // Not waiting, as for a pipe that nobody writes to.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return refused(strerrordesc_np(errno));
  std::string text;
  for (;;) {
    char part[4096];
    const ssize_t bytes = read(file.get(), part, sizeof(part));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return refused(strerrordesc_np(errno));
    if (bytes == 0) return text;
    text.append(part, static_cast<size_t>(bytes));
    if (text.size() > limits::kMaxSecretFileBytes) return refused("it is too long");
  }
}

ReloadedFiles::~ReloadedFiles() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status ReloadedFiles::Add(FileGroup group) {
  Texts texts = Read(group);
  FOVEA_RETURN_IF_ERROR(texts.status());
  if (const absl::Status taken = group.take(*texts); !taken.ok()) {
    return MakeError(taken.code(), ReasonOf(taken),
                     absl::StrCat(group.what, ": ", std::string(taken.message())));
  }
  groups_.push_back({.group = std::move(group), .tried = texts, .seen = texts});
  return absl::OkStatus();
}

absl::Status ReloadedFiles::Start() {
  if (groups_.empty()) return absl::OkStatus();
  return StartThreads([this] { thread_ = std::thread([this] { Watch(); }); });
}

ReloadedFiles::Texts ReloadedFiles::Read(const FileGroup& group) const {
  std::vector<std::string> texts;
  for (const std::string& path : group.paths) {
    FOVEA_ASSIGN_OR_RETURN(texts.emplace_back(), read_(path));
  }
  return texts;
}

void ReloadedFiles::Watch() {
  for (;;) {
    {
      const Nanos next = clock_.Now() + period_;
      MutexLock lock(mutex_);
      while (!ending_ && clock_.Now() < next) clock_.WaitUntil(changed_, mutex_, next);
      if (ending_) return;
    }
    for (Known& known : groups_) Look(known);
  }
}

void ReloadedFiles::Look(Known& known) const {
  Texts now = Read(known.group);
  const bool settled = now == known.seen;
  known.seen = std::move(now);
  if (!settled || known.seen == known.tried) return;
  known.tried = known.seen;
  const std::string& what = known.group.what;
  const absl::Status taken = known.seen.ok() ? known.group.take(*known.seen) : known.seen.status();
  if (taken.ok()) {
    Log(LogLevel::kInfo, absl::StrCat(what, ": loaded again"));
  } else {
    Log(LogLevel::kError, absl::StrCat(what, ": not loaded again (what was there before stays): ",
                                       std::string(taken.message())));
  }
  count_(known.group.label, taken.ok());
}

}  // namespace fovea
