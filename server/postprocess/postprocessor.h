// From a model's outputs to what a caller asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/image_transform.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/postprocess/still_wanted.h"

namespace fovea {

// The largest of a request's pictures.
struct PictureBounds {
  int64_t pixels = 0;
  int64_t side = 0;  // the longest, in pixels
};

// That one record of a result with its label takes at most: an element of a list, the same as a
// message, and the message encoded.
int64_t RecordBytes(const ModelView& model);

// What one task makes of a model's outputs. Thread-safe. `options` are always of its task.
class TaskPostprocessor {
 public:
  virtual ~TaskPostprocessor() = default;

  // Whether the model gives what they ask for; INVALID_ARGUMENT where not.
  virtual absl::Status Check(const RequestOptions& /*options*/) const { return absl::OkStatus(); }
  // Of the results of one image at most, in memory and as a message, and of what making them takes.
  virtual int64_t ResultBytes(const RequestOptions& options, const PictureBounds& image) const = 0;
  // `outputs`: one for each output of the model, [images, ...]. `images`: how the model saw each
  // image. Where that takes long, it asks `wanted`, and PlaceInPictures does.
  virtual absl::StatusOr<Results> Process(const RequestOptions& options,
                                          std::vector<OutputTensor> outputs,
                                          std::span<const ImageTransform> images,
                                          StillWanted wanted) const = 0;
  // Whether Process, or PlaceInPictures, takes so long that others are not to wait for it.
  virtual bool TakesLong(const RequestOptions& /*options*/) const { return false; }
  // Where it does: numbers that are computed for each pixel of the pictures.
  virtual int64_t NumbersPerPixel(const RequestOptions& /*options*/) const { return 1; }
  // Of tensors, what `outputs` tell in pixels of the model's input they tell in pixels of the
  // callers' pictures from here on.
  virtual absl::Status PlaceInPictures(const WantedTensors& /*asked*/,
                                       std::vector<OutputTensor>& /*outputs*/,
                                       std::span<const ImageTransform> /*images*/,
                                       StillWanted /*wanted*/) const {
    return absl::OkStatus();
  }
  // Of one image, what that takes.
  virtual int64_t PlacedBytes(const WantedTensors& /*wanted*/,
                              const PictureBounds& /*image*/) const {
    return 0;
  }
};

// Of one loaded version: tensors as they are, or its task's results. Thread-safe.
class Postprocessor {
 public:
  // Made when the model is loaded, from what its view tells: task, outputs, classes, labels.
  static std::unique_ptr<const Postprocessor> Create(std::shared_ptr<const ModelView> model);

  // Whether the model gives what `options` ask for. INVALID_ARGUMENT: an unknown output or class,
  // or classes of an output that is not FP32; FAILED_PRECONDITION: results of another task than the
  // model's, or the task's results of a model without the outputs for them.
  absl::Status Check(const RequestOptions& options) const;
  // As TaskPostprocessor's, for `options` that pass Check.
  int64_t ResultBytes(const RequestOptions& options, const PictureBounds& image) const;
  absl::StatusOr<Results> Process(const RequestOptions& options, std::vector<OutputTensor> outputs,
                                  std::span<const ImageTransform> images,
                                  StillWanted wanted = AlwaysWanted) const;
  bool TakesLong(const RequestOptions& options) const {
    return task_.ok() && (*task_)->TakesLong(options);
  }
  int64_t NumbersPerPixel(const RequestOptions& options) const {
    return task_.ok() ? (*task_)->NumbersPerPixel(options) : 1;
  }

 private:
  using TaskPart = absl::StatusOr<std::unique_ptr<const TaskPostprocessor>>;
  Postprocessor(std::shared_ptr<const ModelView> model, TaskPart task)
      : model_(std::move(model)), task_(std::move(task)) {}

  const std::shared_ptr<const ModelView> model_;
  const TaskPart task_;  // an error: the model gives tensors alone
};

}  // namespace fovea
