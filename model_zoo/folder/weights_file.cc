#include "model_zoo/folder/weights_file.h"

#include <array>
#include <filesystem>
#include <vector>

#include "base/status.h"
#include "model_zoo/quoted.h"

namespace fovea {
namespace {

// What other tools save models as: a folder that holds one of these is told so, instead of that a
// file is missing.
constexpr std::array<std::string_view, 14> kForeignExtensions = {
    ".pt",   ".pth",    ".pt2", ".bin", ".ckpt", ".pkl",  ".pickle",
    ".onnx", ".tflite", ".h5",  ".npz", ".zip",  ".gguf", ".msgpack"};

// The header's length (uint64) and its first character.
constexpr size_t kStartBytes = 9;

absl::Status UnsupportedFormat(std::string_view path, std::string_view what) {
  return FailedPrecondition("weights.unsupported_format",
                            "unsupported weight format: " + std::string(path) + " is " +
                                std::string(what) + "; only safetensors is read");
}

absl::Status CheckFormat(std::string_view path, std::string_view start) {
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    return UnsupportedFormat(path, "a zip archive (a pickled or scripted PyTorch model?)");
  }
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return UnsupportedFormat(path, "a pickle");
  }
  if (start.size() < kStartBytes || start[kStartBytes - 1] != '{') {
    return UnsupportedFormat(path, "not a safetensors file");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightsFile> FindWeights(const RepositoryFs& fs, std::string_view model,
                                        int64_t version) {
  const std::string in_model = std::to_string(version) + "/";
  const std::string folder = std::string(model) + "/" + std::to_string(version);
  WeightsFile weights{.fs = &fs,
                      .path = folder + "/" + std::string(kWeightsFile),
                      .shown = in_model + std::string(kWeightsFile)};
  const absl::StatusOr<std::unique_ptr<RepositoryFile>> file = fs.Open(weights.path);
  if (file.ok()) {
    FOVEA_ASSIGN_OR_RETURN(weights.identity, (*file)->Identity());
    return weights;
  }
  if (file.status().code() != absl::StatusCode::kNotFound) return file.status();

  FOVEA_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, fs.List(folder));
  for (const FolderEntry& entry : entries) {
    const std::string extension = std::filesystem::path(entry.name).extension().string();
    for (const std::string_view foreign : kForeignExtensions) {
      if (extension == foreign) {
        return UnsupportedFormat(models::Quoted(in_model + entry.name), "a " + extension + " file");
      }
    }
  }
  return FailedPrecondition("weights.missing", weights.shown + " does not exist");
}

absl::StatusOr<std::unique_ptr<RepositoryFile>> OpenWeights(const WeightsFile& weights) {
  FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<RepositoryFile> file, weights.fs->Open(weights.path));
  FOVEA_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
  if (identity != weights.identity) {
    return Unavailable("repository.changed", weights.shown + " is being changed");
  }
  FOVEA_ASSIGN_OR_RETURN(const std::string start, file->Read(0, kStartBytes));
  FOVEA_RETURN_IF_ERROR(CheckFormat(weights.shown, start));
  return file;
}

}  // namespace fovea
