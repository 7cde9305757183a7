// Learns to find objects.
#pragma once

#include <cstdint>
#include <memory>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/losses/anchor_loss.h"
#include "model_zoo/training/losses/region_losses.h"
#include "model_zoo/training/tasks/sample_batches.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

struct DetectionTrainingOptions {
  SampleBatchOptions samples;
  AnchorLossOptions anchors;  // RetinaNet
  RegionOptions regions;      // Mask R-CNN
  bool bf16 = false;
};

// Of a backbone with a detector behind it. Measures training_loss and its parts: class_loss and
// box_loss, before them objectness_loss and proposal_loss where there are proposals, behind them
// mask_loss where there are masks. validation_box_ap50 (AveragePrecision); with masks also
// validation_mask_iou, the mean IoU of the masks of the objects that were found, each within the
// box that was found, at the mask's resolution; epochs are compared by the sum of the two.
// `backbone` has to outlive it. Throws c10::ValueError where the head cannot be trained, the data
// has no masks for it, or the head tells another number of classes apart.
//
// The head tells the labels apart and, in front of them, its background_classes().
std::unique_ptr<TrainingTask> MakeDetectionTask(Backbone& backbone, SampleSources sources,
                                                const DetectionTrainingOptions& options);

// True if the backbone's head learns masks of objects.
bool LearnsMasks(const Backbone& backbone);

}  // namespace fovea::models::training
