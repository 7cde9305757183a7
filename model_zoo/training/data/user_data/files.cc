#include "model_zoo/training/data/user_data/files.h"

#include <fstream>
#include <set>

#include "base/limits.h"
#include "model_zoo/quoted.h"

namespace fovea::models::training {

namespace fs = std::filesystem;

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
