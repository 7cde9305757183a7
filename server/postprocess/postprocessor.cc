#include "server/postprocess/postprocessor.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/postprocess/classification.h"
#include "server/postprocess/detection.h"
#include "server/postprocess/segmentation.h"
#include "server/postprocess/tensors.h"

namespace fovea {
namespace {

// The tasks that have results of their own. A new one is a line here and a file beside this one.
struct TaskEntry {
  VisionTask task;
  std::string_view results;  // "classes"
  std::string_view reason;   // of a request for them that the model cannot answer
  absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> (*make)(
      std::shared_ptr<const ModelView> model);
};

constexpr TaskEntry kTasks[] = {
    {VisionTask::kClassification, "classes", "model.no_classifier", MakeClassification},
    {VisionTask::kDetection, "detections", "model.no_detector", MakeDetection},
    {VisionTask::kSegmentation, "class maps", "model.no_segmenter", MakeSegmentation},
};

const TaskEntry* FindTask(VisionTask task) {
  for (const TaskEntry& entry : kTasks) {
    if (entry.task == task) return &entry;
  }
  return nullptr;
}

}  // namespace

int64_t RecordBytes(const ModelView& model) {
  constexpr int64_t kWithoutLabel = 192;
  return kWithoutLabel + 3 * static_cast<int64_t>(model.longest_label);
}

std::unique_ptr<const Postprocessor> Postprocessor::Create(std::shared_ptr<const ModelView> model) {
  const TaskEntry* const task = FindTask(model->task);
  TaskPart part = task == nullptr
                      ? TaskPart(Unimplemented("model.no_results", "the task gives tensors alone"))
                      : task->make(model);
  return std::unique_ptr<const Postprocessor>(new Postprocessor(std::move(model), std::move(part)));
}

absl::Status Postprocessor::Check(const RequestOptions& options) const {
  if (const auto* wanted = std::get_if<WantedTensors>(&options)) {
    return CheckWantedTensors(*wanted, *model_);
  }
  const VisionTask asked = *TaskOf(options);
  if (asked == model_->task) return task_.ok() ? (*task_)->Check(options) : task_.status();
  const TaskEntry* const entry = FindTask(asked);
  FOVEA_CHECK(entry != nullptr);  // whose options there are has results
  return FailedPrecondition(
      entry->reason, absl::StrCat("the model's task is ", std::string(VisionTaskName(model_->task)),
                                  ": it gives no ", std::string(entry->results)));
}

int64_t Postprocessor::ResultBytes(const RequestOptions& options,
                                   const PictureBounds& image) const {
  if (const auto* wanted = std::get_if<WantedTensors>(&options)) {
    return WantedTensorBytes(*wanted, *model_) +
           (task_.ok() ? (*task_)->PlacedBytes(*wanted, image) : 0);
  }
  return (*task_)->ResultBytes(options, image);
}

absl::StatusOr<Results> Postprocessor::Process(const RequestOptions& options,
                                               std::vector<OutputTensor> outputs,
                                               std::span<const ImageTransform> images,
                                               StillWanted wanted) const {
  if (const auto* asked = std::get_if<WantedTensors>(&options)) {
    if (task_.ok()) {
      FOVEA_RETURN_IF_ERROR((*task_)->PlaceInPictures(*asked, outputs, images, wanted));
    }
    return TakeWantedTensors(*asked, *model_, std::move(outputs));
  }
  return (*task_)->Process(options, std::move(outputs), images, wanted);
}

}  // namespace fovea
