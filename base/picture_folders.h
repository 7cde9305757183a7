// Folders of pictures as users bring them: to train on, and to quantise by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea {

// Of a file that holds a picture: .jpg, .jpeg, .png or .webp in any case.
bool IsPictureName(const std::filesystem::path& file);

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
// picture; NOT_FOUND: there is no folder of a class.
absl::StatusOr<std::vector<ClassPicture>> PicturesOfClasses(const std::filesystem::path& folder,
                                                            const std::vector<std::string>& labels);

}  // namespace fovea
