// Between a weight file and a backbone's parameters.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/weights/safetensors.h"

namespace fovea::models {

// Fills every parameter and buffer of a backbone in its trainable state, casting F16 and BF16, and
// the input scales of linear layers that the file has (Linear::SetInputScales). A
// tensor that was trained for another input size is brought into shape by its layer
// (Layer::Resized). One that is missing, one that the backbone neither knows nor ignores, and one
// that stays of another shape are c10::ValueErrors that name it.
void LoadWeights(const SafetensorsFile& file, Backbone& backbone);

// Which tensors of a file fitted, by their names: those of the file, or of the backbone for
// `fresh`.
struct FittedWeights {
  std::vector<std::string> kept;
  std::vector<std::string>
      fresh;  // what the backbone has and the file has not, or of another shape
  std::vector<std::string> dropped;  // what the file has besides
};

// Fills what the file has for the backbone, and leaves the rest as it is: another head, another
// number of classes, another attention. Between a backbone and one with a head the backbone's
// tensors count as the same.
FittedWeights LoadFittingWeights(const SafetensorsFile& file, Backbone& backbone);

// Fills those of a plan that follow from the input size, as LoadWeights does; the file has gone
// through that for the model itself.
void LoadSizedWeights(const SafetensorsFile& file, Backbone& plan);

// Writes the parameters, buffers and input scales under their published names. `metadata` is text
// for people; the format's own key "format" is set to "pt", which other readers of published
// checkpoints expect.
void SaveWeights(const std::filesystem::path& path, const Backbone& backbone, c10::ScalarType dtype,
                 std::map<std::string, std::string> metadata = {});

}  // namespace fovea::models
