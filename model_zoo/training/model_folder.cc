#include "model_zoo/training/model_folder.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/model_spec.h"
#include "model_zoo/folder/names.h"
#include "model_zoo/folder/weights_file.h"
#include "model_zoo/weights/pending_file.h"

namespace fovea::models::training {
namespace {

// What a training writes.
constexpr char kVersion[] = "1";

// The shortest text that is read as the same number; whole ones with a decimal.
template <typename Number>
std::string Text(Number value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  std::string shortest(text.begin(), end);
  return shortest.find_first_of(".e") == shortest.npos ? shortest + ".0" : shortest;
}

std::string Text(const std::array<float, 3>& values) {
  return "[" + Text(values[0]) + ", " + Text(values[1]) + ", " + Text(values[2]) + "]";
}

std::string HeadOf(const ModelDescription& model) {
  if (model.task == Task::kClassification) return {};
  std::string head = "head {\n  name: \"" + model.head + "\"\n";
  if (model.head_channels > 0) {
    head += "  channels: " + std::to_string(model.head_channels) + "\n";
  }
  if (model.task == Task::kDetection) {
    const DetectionOptions& options = model.detection;
    const bool torchvision = options.conventions == Conventions::kTorchvision;
    head += std::string("  conventions: ") + (torchvision ? "TORCHVISION" : "MMDETECTION") + "\n";
    head += "  score_threshold: " + Text(options.score_threshold) + "\n";
    head += "  nms_iou: " + Text(options.nms_iou) + "\n";
    if (options.detections_per_image > 0) {
      head += "  detections_per_image: " + std::to_string(options.detections_per_image) + "\n";
    }
  }
  return head + "}\n";
}

std::string VitOf(const ModelDescription& model) {
  if (!model.vit) return {};
  std::string vit = "vit {";
  const auto add = [&vit](const char* name, int64_t value) {
    if (value > 0) vit += std::string(" ") + name + ": " + std::to_string(value);
  };
  add("depth", model.vit->depth);
  add("width", model.vit->width);
  add("heads", model.vit->heads);
  add("patch_size", model.vit->patch);
  add("mlp_width", model.vit->mlp_width);
  return vit + " }\n";
}

std::string PreprocessingOf(const ModelFolder& folder) {
  std::string text;
  if (folder.preprocessing.resize_mode == ResizeMode::kFit) {
    text =
        "# In the training the longer side of a picture was as long as the input at most.\n"
        "preprocessing {\n  resize_mode: FIT\n";
  } else {
    text =
        "# The pictures of the training were square and of this size.\n"
        "preprocessing {\n  resize_mode: SHORTEST_EDGE\n";
  }
  text += std::string("  interpolation: ") +
          (folder.preprocessing.interpolation == Interpolation::kBicubic ? "BICUBIC" : "BILINEAR") +
          "\n";
  if (folder.preprocessing.resize_mode == ResizeMode::kFit) {
    const std::string side = std::to_string(folder.model.image_height);
    text += "  shorter_side: " + side + "\n  longer_side: " + side + "\n";
  } else {
    text += "  crop_fraction: " + Text(folder.preprocessing.crop_fraction) + "\n";
  }
  return text + "  mean: " + Text(folder.preprocessing.mean) +
         "\n  std: " + Text(folder.preprocessing.std) + "\n}\n";
}

void CheckOk(const std::filesystem::path& folder, const absl::Status& status) {
  TORCH_CHECK_VALUE(status.ok(), "no server would take ", folder.string(), ": ",
                    std::string(status.message()));
}

}  // namespace

std::filesystem::path FolderCalled(const std::string& out) {
  // Made absolute first: of a relative path of which nothing is there, nothing would be resolved.
  std::filesystem::path folder = std::filesystem::weakly_canonical(std::filesystem::absolute(out));
  if (!folder.has_filename()) folder = folder.parent_path();
  CheckOk(folder, CheckModelName(folder.filename().string()));
  return folder;
}

void CheckServable(const ModelFolder& folder) {
  const std::string name = folder.path.filename().string();
  CheckOk(folder.path, CheckModelName(name));
  CheckOk(folder.path, ParseModelSpec(SpecOf(folder), name).status());
  CheckOk(folder.path, LabelsText(folder.labels).status());
  CheckOk(folder.path, CheckLabelCount(folder.labels, folder.model.num_classes));
}

void CheckWritable(const std::filesystem::path& folder) {
  for (std::filesystem::path there : {folder, folder / kVersion}) {
    // A folder that is missing is made in the nearest one that is there. A link to nothing is
    // there: no folder can be made in its place.
    std::error_code none;
    while (std::filesystem::symlink_status(there, none).type() ==
           std::filesystem::file_type::not_found) {
      there = there.parent_path();
    }
    TORCH_CHECK_VALUE(std::filesystem::is_directory(there, none) &&
                          access(there.c_str(), R_OK | W_OK | X_OK) == 0,
                      "a model cannot be written to ", folder.string(), ": ", there.string(),
                      " is no folder that can be written to");
  }
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    TORCH_CHECK_VALUE(name == kVersion || !ParseVersion(name), folder.string(), " holds version ",
                      name, " of a model. A training writes version ", kVersion,
                      ", and a server would serve the other one");
  }
}

bool HoldsModel(const std::filesystem::path& folder) {
  std::error_code none;
  return std::filesystem::exists(folder / kSpecFile, none) ||
         std::filesystem::exists(folder / kVersion / kWeightsFile, none);
}

std::string SpecOf(const ModelFolder& folder) {
  const ModelDescription& model = folder.model;
  std::string spec = "# " + folder.summary;
  spec += "\nspec_version: 1\nname: \"" + folder.path.filename().string() + "\"\nbackbone: \"" +
          model.backbone + "\"\n" + VitOf(model);
  for (const std::string& attention : model.attention) {
    spec += "attention: \"" + attention + "\"\n";
  }
  if (model.window_padding == WindowPadding::kRollThenPad) {
    spec += "window_padding: ROLL_THEN_PAD\n";
  }
  spec += std::string("task: ") + NamesOf(model.task).in_description + "\n" + HeadOf(model) +
          "num_classes: " + std::to_string(model.num_classes) + "\nprecision: FP32\n";
  if (model.image_height > 0) {
    spec += "image_height: " + std::to_string(model.image_height) +
            "\nimage_width: " + std::to_string(model.image_width) + "\n";
  }
  // A detector's images keep a core busy by themselves, and each size of batch is tried when the
  // model is loaded.
  const int max_batch_size = model.task == Task::kClassification ? 16 : 4;
  return spec + PreprocessingOf(folder) + "max_batch_size: " + std::to_string(max_batch_size) +
         "\ndynamic_batching {}\n";
}

void WriteModelFolder(const ModelFolder& folder, const Backbone& trained, c10::ScalarType stored) {
  const absl::StatusOr<std::string> labels = LabelsText(folder.labels);
  CheckOk(folder.path, labels.status());
  const std::string spec = SpecOf(folder);
  const std::filesystem::path version = folder.path / kVersion;
  std::filesystem::create_directories(version);
  // All is on the disk before the first of the three has its name: a server that polls finds the
  // weights of one training with the labels of another for as short as can be.
  PendingFile spec_file(folder.path / kSpecFile), labels_file(folder.path / kLabelsFile);
  spec_file.Write(spec.data(), spec.size());
  labels_file.Write(labels->data(), labels->size());
  spec_file.Sync();
  labels_file.Sync();
  SaveWeights(version / kWeightsFile, trained, stored);
  labels_file.Commit();
  spec_file.Commit();
}

}  // namespace fovea::models::training
