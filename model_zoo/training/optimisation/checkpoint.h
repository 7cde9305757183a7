// A training on disk, as it stands between two steps.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/training/optimisation/trainer.h"
#include "model_zoo/weights/safetensors_writer.h"

namespace fovea::models::training {

// All of a training but its tensors.
struct TrainingState {
  int64_t step = 0;                  // done
  std::vector<Measure> sums;         // of the epoch that has begun, over its steps
  std::vector<EpochReport> reports;  // of the epochs that are done
  int best_epoch = 0;                // 0: none yet
  double best_score = 0;
  double seconds = 0;
};

// A folder that holds the last checkpoint, in a folder of its own ("step-120"). A checkpoint is
// written beside the one before, synced, and then renamed: whenever the process is killed, a whole
// one is there.
class CheckpointFolder {
 public:
  CheckpointFolder(std::filesystem::path folder, std::string identity)
      : folder_(std::move(folder)), identity_(std::move(identity)) {}

  // `tensors`: FP32. Throws c10::Error where the disk does not take it.
  void Write(const TrainingState& state, const std::vector<NamedTensor>& tensors) const;

  // The last one; none where there is none. Fills `tensors`, whose names and shapes are those of
  // the training that wrote it. Throws c10::ValueError where that was another training.
  std::optional<TrainingState> Read(const std::vector<NamedTensor>& tensors) const;

  // All checkpoints in it, and the folder where nothing else is there; a link to a folder stays.
  void Remove() const;

 private:
  const std::filesystem::path folder_;
  const std::string identity_;
};

}  // namespace fovea::models::training
