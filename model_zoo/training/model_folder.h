// Writes what a server can serve, beside the weights: model.textproto and labels.txt.
#pragma once

#include <filesystem>
#include <string>

namespace fovea::models::training {

struct ModelFolder {
  std::filesystem::path path;  // its last part is the model's name
  std::string summary;         // a line for people
  std::string backbone;
  std::string attention;
};

// Creates the folders and replaces the files that are there. Throws c10::Error.
void WriteModelFolder(const ModelFolder& folder);

}  // namespace fovea::models::training
