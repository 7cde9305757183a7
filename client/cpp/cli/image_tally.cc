#include "client/cpp/cli/image_tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace fovea::client {

void ImageTally::Add(const std::string& path, const absl::Status& status) {
  if (status.ok()) {
    ++succeeded_;
  } else {
    ++failed_;
    exit_code_ = std::max(exit_code_, Report(console_, status, path));
  }
  ShowProgress();
}

std::optional<size_t> ImageTally::Without(std::optional<size_t> files) const {
  if (!files) return std::nullopt;
  return *files - succeeded_ - failed_;
}

ExitCode ImageTally::Finish(std::optional<size_t> files, bool interrupted) {
  if (interrupted) exit_code_ = kInterrupted;
  const std::optional<size_t> without_result = Without(files);
  if (interrupted || without_result != 0) {
    console_.err << "fovea: " << (interrupted ? "interrupted" : "given up") << ": " << succeeded_
                 << " " << done_ << ", " << failed_ << " failed, "
                 << (without_result ? absl::StrCat(*without_result) : "the rest of the list")
                 << " not sent or without an answer\n";
  }
  return exit_code_;
}

void ImageTally::ShowProgress() const {
  if (!console_.progress) return;
  console_.err << succeeded_ << " " << done_ << ", " << failed_ << " failed";
  if (files_) console_.err << " of " << *files_;
  console_.err << std::flush;
}

void ImageTally::ClearProgress() const {
  if (console_.progress) console_.err << "\r\033[K" << std::flush;
}

}  // namespace fovea::client
