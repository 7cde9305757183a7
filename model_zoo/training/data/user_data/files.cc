#include "model_zoo/training/data/user_data/files.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/limits.h"
#include "model_zoo/quoted.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

void CheckFolder(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw DataError("there is no folder " + folder.string());
}

template <typename Do>
std::vector<fs::path> Sorted(const fs::path& folder, const Do& add) {
  CheckFolder(folder);
  std::vector<fs::path> found;
  add(found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<fs::path> FilesIn(const fs::path& folder, const Wanted& wanted) {
  return Sorted(folder, [&](std::vector<fs::path>& found) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const bool is_file = !IsHidden(entry.path()) && entry.is_regular_file();
      if (is_file && wanted(entry.path())) found.push_back(entry.path());
    }
  });
}

std::vector<fs::path> FilesBelow(const fs::path& folder, const Wanted& wanted) {
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

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  return Sorted(folder, [&](std::vector<fs::path>& found) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!IsHidden(entry.path()) && entry.is_directory()) found.push_back(entry.path());
    }
  });
}

std::vector<std::string> LinesOf(const fs::path& file) {
  const auto refuse = [&file](const std::string& why) {
    throw DataError("the labels " + file.string() + ": " + why);
  };
  if (!fs::is_regular_file(file)) refuse("there is no such file");
  if (fs::file_size(file) > static_cast<uintmax_t>(limits::kMaxLabelsBytes)) {
    refuse("the file is too large");
  }
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.empty()) refuse("there is no label");
  std::set<std::string> seen;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) refuse("line " + std::to_string(i + 1) + " is empty");
    if (!seen.insert(lines[i]).second) refuse("two labels are " + Quoted(lines[i]));
  }
  return lines;
}

}  // namespace fovea::models::training
