// Folders of pictures as users bring them: to train on, and to quantise by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea {

// True for a file that holds a picture: by its extension in any case, or by its first bytes
// (base/picture_signatures.h). A file that cannot be opened goes by its extension.
bool IsPicture(const std::filesystem::path& file);

// Files of a folder that are not used, for a line that says so.
class FilesLeftOut {
 public:
  void Add(const std::filesystem::path& file);
  // "24 files left out: .heic 6, .txt 18"; empty where there are none.
  std::string Line() const;

 private:
  std::map<std::string, int64_t> by_extension_;
  int64_t count_ = 0;
};

// Each sorted by name, without what begins with a dot. NOT_FOUND: there is no such folder.
// FAILED_PRECONDITION: it cannot be read.
//
// The files of a folder whose name is wanted; FilesBelow: those of its folders, too.
using WantedFile = std::function<bool(const std::filesystem::path&)>;
absl::StatusOr<std::vector<std::filesystem::path>> FilesIn(const std::filesystem::path& folder,
                                                           const WantedFile& wanted);
absl::StatusOr<std::vector<std::filesystem::path>> FilesBelow(const std::filesystem::path& folder,
                                                              const WantedFile& wanted);
// Its folders.
absl::StatusOr<std::vector<std::filesystem::path>> FoldersIn(const std::filesystem::path& folder);

struct ClassPicture {
  std::filesystem::path file;
  std::string name;  // with the class: "cat/1.jpg"
  int64_t class_index = 0;
};

// The pictures of a folder for each class, called as one of `labels`, which need not all be there;
// those in folders below count as well. INVALID_ARGUMENT: a folder is called otherwise, or holds no
// picture; NOT_FOUND: there is no folder of a class. `left_out`: the other files; may be null.
absl::StatusOr<std::vector<ClassPicture>> PicturesOfClasses(const std::filesystem::path& folder,
                                                            const std::vector<std::string>& labels,
                                                            FilesLeftOut* left_out = nullptr);

}  // namespace fovea
