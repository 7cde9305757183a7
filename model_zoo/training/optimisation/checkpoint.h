// A training on disk, as it stands between two steps.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
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

// Returns whether `folder` holds a checkpoint to go on with.
bool HoldsCheckpoint(const std::filesystem::path& folder);

// A folder that holds the last checkpoint, in a folder of its own ("step-120"). A checkpoint is
// written beside the one before, synced, and then renamed: whenever the process is killed, a whole
// one is there.
//
// It is one training's: the folder is made and locked, and gone again where nothing is left in it;
// a link to a folder stays.
class CheckpointFolder {
 public:
  // `identity`: the training's options and data, a fact a line. Read refuses a checkpoint of
  // another identity. Throws c10::ValueError where another training has the folder, c10::Error
  // where it cannot be made or locked.
  CheckpointFolder(std::filesystem::path folder, std::string identity);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // `tensors`: FP32. Throws c10::Error where the disk does not take it.
  void Write(const TrainingState& state, const std::vector<NamedTensor>& tensors) const;

  // The last one; none where there is none. Fills `tensors`, whose names and shapes are those of
  // the training that wrote it. Throws c10::ValueError where that was another training.
  std::optional<TrainingState> Read(const std::vector<NamedTensor>& tensors) const;

  // All checkpoints in it.
  void Remove() const;

 private:
  const std::filesystem::path folder_;
  const std::string identity_;
  FileDescriptor lock_;
};

}  // namespace fovea::models::training
