// Names of files, as they stand on a command line or in a list, and their contents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/picture_folders.h"

namespace fovea::client {

struct NamedFile {
  std::string path;
  absl::Status status;  // not OK: `path` stands for no file, and why
};

// What the names of a command line stand for:
//   - a pattern (*, ?, [...]) that a shell has left: its matches, in alphabetical order. The name
//     of what exists is never a pattern;
//   - a folder: the pictures in it and in the folders below (IsPicture), in alphabetical order.
//     Hidden ones are left out, and links to folders are not followed. `left_out` counts the rest;
//   - any other name: itself. ReadFile reports the one that does not exist.
std::vector<NamedFile> ExpandFiles(const std::vector<std::string>& names, FilesLeftOut* left_out);

// Bytes from a descriptor, for a thread that must not wait for ever: from a pipe, for example.
class Input {
 public:
  // "-": standard input. `stop`: a descriptor that ends every wait when it becomes readable, or -1.
  // INVALID_ARGUMENT: cannot be opened.
  static absl::StatusOr<Input> Open(const std::string& path, int stop);
  ~Input();
  Input(Input&& other);

  // Up to `size` bytes; none at the end. INVALID_ARGUMENT: cannot be read; CANCELLED: `stop`.
  absl::StatusOr<size_t> Read(char* buffer, size_t size);

 private:
  Input(int descriptor, int stop) : descriptor_(descriptor), stop_(stop) {}
  int descriptor_;
  int stop_;
};

// The contents; at most 64 MiB, which is more than a server takes as an image. "-": what standard
// input holds. `stop` as above. Errors are a clause for behind the file's name.
absl::StatusOr<std::string> ReadFile(const std::string& path, int stop = -1);

// INVALID_ARGUMENT: it cannot be written; the message names it and says why.
absl::Status WriteFile(const std::string& path, const std::string& bytes);

// The files of a command line one by one: those that its names stand for, then those of a list.
// Names alone are held, and of the list one line at a time.
class FileList {
 public:
  // `list`: a file with a name on each line, taken as it stands; "-": standard input; empty: none.
  static absl::StatusOr<FileList> Open(const std::vector<std::string>& names,
                                       const std::string& list, int stop);

  // None at the end, and at `stop`.
  std::optional<NamedFile> Next();

  // How many there are in all; none as long as the list has not been read to its end.
  std::optional<size_t> size() const;

  // Which files of the folders are not among them; empty where all are.
  const std::string& left_out() const { return left_out_; }

 private:
  explicit FileList(std::vector<NamedFile> files) : files_(std::move(files)) {}
  // The next line of the list that is not empty.
  std::optional<NamedFile> NextLine();

  std::vector<NamedFile> files_;
  std::optional<Input> list_;  // none: there is no more of it
  bool list_ended_ = true;
  std::string left_out_;
  std::string unread_;  // what came with the last line
  size_t given_ = 0;
};

}  // namespace fovea::client
