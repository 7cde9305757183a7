// Folders and text files of a user's data.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace fovea::models::training {

// Each sorted by name, without what begins with a dot. They throw DataError where there is no such
// folder.
//
// The files of a folder whose name is wanted; FilesBelow: those of its folders, too.
using Wanted = std::function<bool(const std::filesystem::path&)>;
std::vector<std::filesystem::path> FilesIn(const std::filesystem::path& folder,
                                           const Wanted& wanted);
std::vector<std::filesystem::path> FilesBelow(const std::filesystem::path& folder,
                                              const Wanted& wanted);
// Its folders.
std::vector<std::filesystem::path> FoldersIn(const std::filesystem::path& folder);

// A label in each line, empty lines at the end left out. Throws DataError where there is none, an
// empty one between others, two equal ones, or more than limits::kMaxLabelsBytes.
std::vector<std::string> LinesOf(const std::filesystem::path& file);

}  // namespace fovea::models::training
