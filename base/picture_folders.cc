#include "base/picture_folders.h"

#include <algorithm>
#include <cctype>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

template <typename Add>
absl::StatusOr<std::vector<fs::path>> Sorted(const fs::path& folder, const Add& add) try {
  if (!fs::is_directory(folder)) {
    return absl::NotFoundError(absl::StrCat("there is no folder ", folder.string()));
  }
  std::vector<fs::path> found;
  add(found);
  std::sort(found.begin(), found.end());
  return found;
} catch (const fs::filesystem_error& error) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot read ", folder.string(), ": ", error.code().message()));
}

// In quotes, printable and short: a hostile name can neither break a log line nor fill it.
std::string Quoted(const std::string& name) {
  constexpr size_t kMaxShown = 96;
  return absl::StrCat("'", absl::CHexEscape(name.substr(0, kMaxShown)),
                      name.size() > kMaxShown ? "...'" : "'");
}

}  // namespace

bool IsPictureName(const fs::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
}

absl::StatusOr<std::vector<fs::path>> FilesIn(const fs::path& folder, const WantedFile& wanted) {
  return Sorted(folder, [&](std::vector<fs::path>& found) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const bool is_file = !IsHidden(entry.path()) && entry.is_regular_file();
      if (is_file && wanted(entry.path())) found.push_back(entry.path());
    }
  });
}

absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder, const WantedFile& wanted) {
  return Sorted(folder, [&](std::vector<fs::path>& found) {
    fs::recursive_directory_iterator entry(folder);
    for (; entry != fs::recursive_directory_iterator(); ++entry) {
      if (IsHidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file() && wanted(entry->path())) {
        found.push_back(entry->path());
      }
    }
  });
}

absl::StatusOr<std::vector<fs::path>> FoldersIn(const fs::path& folder) {
  return Sorted(folder, [&](std::vector<fs::path>& found) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!IsHidden(entry.path()) && entry.is_directory()) found.push_back(entry.path());
    }
  });
}

absl::StatusOr<std::vector<ClassPicture>> PicturesOfClasses(
    const fs::path& folder, const std::vector<std::string>& labels) {
  FOVEA_ASSIGN_OR_RETURN(const std::vector<fs::path> classes, FoldersIn(folder));
  std::vector<ClassPicture> pictures;
  for (const fs::path& of_class : classes) {
    const std::string name = of_class.filename().string();
    const auto label = std::ranges::find(labels, name);
    if (label == labels.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the folder ", of_class.string(), ": there is no class ", Quoted(name)));
    }
    FOVEA_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesBelow(of_class, IsPictureName));
    if (files.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no picture in ", of_class.string()));
    }
    for (const fs::path& file : files) {
      pictures.push_back(
          {file, file.lexically_relative(folder).generic_string(), label - labels.begin()});
    }
  }
  if (pictures.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no folder of a class in ", folder.string()));
  }
  return pictures;
}

}  // namespace fovea
