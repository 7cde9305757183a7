// Folders and text files of a user's data.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace fovea::models::training {

// The files of a folder whose name is wanted, sorted by name; hidden ones are not. Throws DataError
// where there is no such folder.
std::vector<std::filesystem::path> FilesIn(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& wanted);
// Its folders, sorted by name, hidden ones left out.
std::vector<std::filesystem::path> FoldersIn(const std::filesystem::path& folder);

// A label in each line, empty lines at the end left out. Throws DataError where there is none, an
// empty one between others, two equal ones, or more than limits::kMaxLabelsBytes.
std::vector<std::string> LinesOf(const std::filesystem::path& file);

}  // namespace fovea::models::training
