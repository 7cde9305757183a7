#include "model_zoo/training/model_folder.h"

#include <c10/util/Exception.h>

#include <fstream>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/training/data/shapes.h"

namespace fovea::models::training {
namespace {

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  TORCH_CHECK(file.good(), "could not write ", path.string());
}

std::string SpecOf(const ModelFolder& folder) {
  std::string spec = "# ";
  spec += folder.summary;
  spec += "\nspec_version: 1\nname: \"" + folder.path.filename().string() + "\"\nbackbone: \"" +
          folder.backbone + "\"\nattention: \"" + folder.attention +
          "\"\ntask: CLASSIFICATION\nnum_classes: " + std::to_string(kNumShapes) +
          R"(
precision: FP32
# The pictures of the training were drawn square and at this size.
preprocessing {
  resize_mode: SHORTEST_EDGE
  interpolation: BILINEAR
  crop_fraction: 1.0
  mean: [0.5, 0.5, 0.5]
  std: [0.5, 0.5, 0.5]
}
max_batch_size: 16
dynamic_batching {}
)";
  return spec;
}

std::string Labels() {
  std::string labels;
  for (int i = 0; i < kNumShapes; ++i) labels += std::string(Name(static_cast<Shape>(i))) + "\n";
  return labels;
}

}  // namespace

void WriteModelFolder(const ModelFolder& folder) {
  std::filesystem::create_directories(folder.path / "1");
  WriteText(folder.path / "model.textproto", SpecOf(folder));
  WriteText(folder.path / "labels.txt", Labels());
}

}  // namespace fovea::models::training
