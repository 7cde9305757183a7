// What a command over many images has done so far, for its end and for who watches it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/cli/console.h"

namespace fovea::client {

// What fails has a sentence on `console.err`; a terminal there shows how far the command is. Not
// thread-safe.
class ImageTally {
 public:
  // `done`: "classified". `files`: how many there are, where that is known. `console` outlives it.
  ImageTally(std::string done, std::optional<size_t> files, const Console& console)
      : done_(std::move(done)), files_(files), console_(console) {}

  // Before anything is written.
  void ClearProgress() const;
  // An image is done with.
  void Add(const std::string& path, const absl::Status& status);

  size_t succeeded() const { return succeeded_; }
  size_t failed() const { return failed_; }

  // Of `files` in all, those without a result; nothing where their number is not known.
  std::optional<size_t> Without(std::optional<size_t> files) const;
  // Where files have no result, says how many. Returns the exit code.
  ExitCode Finish(std::optional<size_t> files, bool interrupted);

 private:
  void ShowProgress() const;

  const std::string done_;
  const std::optional<size_t> files_;
  const Console& console_;
  size_t succeeded_ = 0;
  size_t failed_ = 0;
  ExitCode exit_code_ = kOk;
};

}  // namespace fovea::client
