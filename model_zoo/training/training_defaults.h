// What a training is where neither the command line nor the model to start from says it. Of
// generated pictures of one shape the rest is as TrainingOptions and ShapeClassificationOptions
// are.
#pragma once

#include <cstdint>

namespace fovea::models::training {

inline constexpr int64_t kShapesPerEpoch = 9'600;  // generated pictures of one shape

// Generated scenes.
inline constexpr int kSceneSide = 128;
inline constexpr int64_t kScenesPerEpoch = 1'600, kValidationScenes = 400;

// Scenes and data.
inline constexpr int kDefaultEpochs = 30;
inline constexpr int64_t kDefaultBatchSize = 16;

// Detectors and segmenters.
inline constexpr double kDefaultHeadLearningRate = 2e-3;

}  // namespace fovea::models::training
