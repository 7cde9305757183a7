#include "base/picture_folders.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/picture_signatures.h"
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

std::string Extension(const fs::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

std::string Printable(const std::string& name) { return absl::CHexEscape(name.substr(0, 16)); }

bool BeginsAsPicture(std::string_view bytes) {
  return std::ranges::any_of(PictureSignatures(), [bytes](const PictureSignature& signature) {
    return signature.sure && bytes.starts_with(signature.magic) &&
           bytes.substr(std::min(bytes.size(), signature.second_at)).starts_with(signature.second);
  });
}

}  // namespace

bool IsPicture(const fs::path& file) {
  const std::span<const std::string_view> extensions = PictureExtensions();
  if (std::ranges::find(extensions, Extension(file)) != extensions.end()) return true;
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return false;  // a pipe would be waited for
  std::string beginning(12, '\0');
  std::ifstream(file, std::ios::binary).read(beginning.data(), 12);
  return BeginsAsPicture(beginning);
}

void FilesLeftOut::Add(const fs::path& file) {
  const std::string extension = Extension(file);
  ++by_extension_[extension.empty() ? "without an extension" : Printable(extension)];
  ++count_;
}

std::string FilesLeftOut::Line() const {
  if (count_ == 0) return "";
  std::vector<std::pair<std::string, int64_t>> kinds(by_extension_.begin(), by_extension_.end());
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& kind) { return kind.second; });
  constexpr size_t kMostKinds = 8;
  std::string line = absl::StrCat(count_, count_ == 1 ? " file" : " files", " left out:");
  for (size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i) {
    absl::StrAppend(&line, i == 0 ? " " : ", ", kinds[i].first, " ", kinds[i].second);
  }
  return kinds.size() > kMostKinds ? line + ", ..." : line;
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

absl::StatusOr<std::vector<ClassPicture>> PicturesOfClasses(const fs::path& folder,
                                                            const std::vector<std::string>& labels,
                                                            FilesLeftOut* left_out) {
  FOVEA_ASSIGN_OR_RETURN(const std::vector<fs::path> classes, FoldersIn(folder));
  std::vector<ClassPicture> pictures;
  for (const fs::path& of_class : classes) {
    const std::string name = of_class.filename().string();
    const auto label = std::ranges::find(labels, name);
    if (label == labels.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the folder ", of_class.string(), ": there is no class ", Quoted(name)));
    }
    const auto wanted = [left_out](const fs::path& file) {
      const bool is_picture = IsPicture(file);
      if (!is_picture && left_out != nullptr) left_out->Add(file);
      return is_picture;
    };
    FOVEA_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesBelow(of_class, wanted));
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
