// Data sets in formats of other tools, which are not read.
#pragma once

#include <filesystem>
#include <string>

namespace fovea::models::training {

// Names the tool whose format the files in `folder` and below are of, and says what to do; empty
// where it knows none. Looks at the names of some thousand files, and at how some of them begin: it
// may be wrong, and is a hint for people.
std::string FormatOfOtherTool(const std::filesystem::path& folder);

// Returns whether the file seems to hold COCO's lists, by its first and last bytes.
bool LooksLikeCoco(const std::filesystem::path& file);

}  // namespace fovea::models::training
