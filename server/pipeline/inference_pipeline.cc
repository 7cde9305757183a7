#include "server/pipeline/inference_pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/admission/request_rules.h"
#include "server/pipeline/decode_images.h"
#include "server/pipeline/image_by_image.h"

namespace fovea {
namespace {

// The caller's priority as the queue's, where 0 is first. Like Triton's: 0, and levels that the
// model does not have, stand for the model's default.
int QueuePriority(uint64_t priority, const ModelView& model) {
  if (model.priority_levels == 0) return 0;
  const bool known = priority >= 1 && priority <= static_cast<uint64_t>(model.priority_levels);
  return (known ? static_cast<int>(priority) : model.default_priority_level) - 1;
}

// Where images without a deadline stand in the line to be decoded: as in the queues behind it.
Nanos OrderOf(const InferenceRequest& request) {
  if (request.deadline != kNever) return request.deadline;
  return request.stages.start() + kDefaultDeadlineUs * kMicrosecond;
}

// The size that images will run at; nothing where their first bytes do not tell.
std::optional<size_t> ForeseenSize(const ImagesToDecode& images, const PreprocessSpec& spec) {
  const std::optional<ImageSize>& first = images.sizes.front();
  if (!first) return std::nullopt;
  return PlanResize(first->height, first->width, spec).size;
}

// Of the largest of the callers' images, or, where none is to be decoded, of the model's.
PictureBounds BoundsOf(const std::optional<ImagesToDecode>& images, const ImageSize& input) {
  if (!images) return {input.height * input.width, std::max(input.height, input.width)};
  PictureBounds most{1, 1};
  for (const std::optional<ImageSize>& size : images->sizes) {
    // What its first bytes do not tell is at most what decoding takes.
    most.pixels =
        std::max(most.pixels, size ? std::min(size->height * size->width, limits::kMaxImagePixels)
                                   : limits::kMaxImagePixels);
    most.side =
        std::max(most.side, size ? std::max(size->height, size->width) : limits::kMaxImageSide);
  }
  return most;
}

// How the model saw each image of a task.
std::vector<ImageTransform> TransformsOf(const InferenceTask& task, const ImageSize& input) {
  std::vector<ImageTransform> transforms;
  for (int i = 0; i < task.images(); ++i) transforms.push_back(task.transform(i, input));
  return transforms;
}

// An error where nobody waits for the request's results any more.
absl::Status CheckStillWanted(const InferenceRequest& request, Clock& clock) {
  if (request.cancellation->Cancelled()) {
    return Cancelled("request.cancelled", "the caller cancelled the request");
  }
  if (request.deadline != kNever && clock.Now() >= request.deadline) {
    return DeadlineExceeded("request.deadline_passed",
                            "the deadline passed while the results were made");
  }
  return absl::OkStatus();
}

// Numbers to what the caller asked for.
absl::StatusOr<InferenceResponse> MakeResponse(InferenceTask& task, const ServedModel& served,
                                               Clock& clock, TaskResult result) {
  const InferenceRequest& request = task.request();
  const ModelView& model = *served.view();
  InferenceResponse response;
  response.model_name = model.name;
  response.model_version = model.version;
  response.id = request.id;
  response.attention = model.attention;
  response.untrained = model.untrained;
  response.receipt.batch_size = result.batch_size;
  response.receipt.batch_peak_bytes = result.batch_peak_bytes;
  const ImageSize& input = model.sizes[task.shape_key()];
  const std::vector<ImageTransform> transforms = TransformsOf(task, input);
  response.receipt.padding = PaddingOf(transforms, input.height, input.width);
  if (result.finish) {
    FOVEA_ASSIGN_OR_RETURN(result.outputs, std::move(result.finish)());
  }
  FOVEA_ASSIGN_OR_RETURN(
      response.results,
      served.postprocessor().Process(request.options, std::move(result.outputs), transforms,
                                     [&] { return CheckStillWanted(request, clock); }));
  return response;
}

// A request that its model has run, until it is answered.
struct Ran {
  const ServedModel& model;
  std::shared_ptr<const ServingModel> handle;
  Clock& clock;
  InferenceCallback done;
  std::unique_ptr<InferenceTask> task;

  void Fail(Stage stage, absl::Status status) {
    StageTimes& stages = task->request().stages;
    stages.EndStage(stage, clock.Now());
    done(std::move(status), stages);
  }
  // Whether there is a result.
  bool Answer(TaskResult result) {
    StageTimes& stages = task->request().stages;
    auto response = OrOutOfMemory([&]() -> absl::StatusOr<InferenceResponse> {
      return MakeResponse(*task, model, clock, std::move(result));
    });
    stages.EndStage(Stage::kPostprocess, clock.Now());
    const bool ok = response.ok();
    if (ok) response->receipt.stages = stages;
    done(std::move(response), stages);
    return ok;
  }
};

// With what the time grows that making its results takes: with the pixels of its pictures, or with
// their number where no pixel of them is looked at. Masks of the one would else be taken for what
// suppressing boxes of another takes.
int64_t ResultsAmount(const Ran& ran) {
  if (!ran.model.postprocessor().TakesLong(ran.task->request().options)) return ran.task->images();
  int64_t pixels = 0;
  const ImageSize& input = ran.model.view()->sizes[ran.task->shape_key()];
  for (const ImageTransform& seen : TransformsOf(*ran.task, input)) {
    pixels += seen.source_height * seen.source_width;
  }
  return pixels;
}

// What is left to do for a task alone waits for a thread of imaging's: the model's own goes on with
// the next batch.
void FinishElsewhere(Ran ran, TaskResult result) {
  ImagingLine& line = ran.model.imaging_line();
  const InferenceRequest& request = ran.task->request();
  ImagingTask task{.outline = {.work = {ImageKind::kResults, ResultsAmount(ran)},
                               .priority = ran.task->priority(),
                               .order = OrderOf(request)},
                   .cancellation = request.cancellation,
                   .deadline = request.deadline};
  task.run = [ran = std::move(ran), result = std::move(result)](const absl::Status& turn) mutable {
    if (!turn.ok()) {
      ran.Fail(Stage::kQueue, turn);
      return false;
    }
    ran.task->request().stages.EndStage(Stage::kQueue, ran.clock.Now());
    return ran.Answer(std::move(result));
  };
  line.SubmitLast(std::move(task));
}

// A request with its model, its place in the queue and its caller, until it is in line.
struct Admitted {
  const ServedModel& model;
  std::shared_ptr<const ServingModel> handle;
  std::unique_ptr<InferenceRequest> request;
  ImagingPool& imaging;
  Clock& clock;
  InferenceCallback done;
  AcceptedInput input;
  BatchSize size = {};                   // of its batch, as far as it is known
  int priority = 0;                      // as the queue's
  std::optional<ImagesToDecode> images;  // where the input is to be decoded or resized
  std::optional<Reservation> place;

  void Fail(absl::Status status) { done(std::move(status), request->stages); }
};

absl::Status Check(Admitted& admitted) {
  const InferenceRequest& request = *admitted.request;
  FOVEA_ASSIGN_OR_RETURN(admitted.input, CheckRequest(request, *admitted.model.view()));
  return admitted.model.postprocessor().Check(request.options);
}

// Everything else that can be refused at once; afterwards the request has its place in the queue.
absl::Status Admit(Admitted& admitted) {
  const InferenceRequest& request = *admitted.request;
  const ModelView& model = *admitted.model.view();
  admitted.priority = QueuePriority(request.priority, model);
  std::optional<size_t> size = admitted.input.size;
  TaskOutline outline{
      .images = admitted.input.images, .priority = admitted.priority, .deadline = request.deadline};
  if (!admitted.input.size.has_value()) {
    admitted.images.emplace(admitted.input);
    admitted.input.files = {};  // they are there now; each list of pieces costs memory
    size = ForeseenSize(*admitted.images, admitted.model.preprocessing());
    outline.ready_at = admitted.model.imaging_line().Forecast(admitted.priority, OrderOf(request),
                                                              admitted.images->work);
  }
  admitted.size = {.images = admitted.input.images, .shape_key = size.value_or(0)};
  outline.shape_key = admitted.size.shape_key;
  if (size) FOVEA_RETURN_IF_ERROR(CheckDeviceBytes(model, *size));  // or once it is decoded
  // The place is taken before anything is read or decoded: a full queue refuses at once.
  FOVEA_ASSIGN_OR_RETURN(admitted.place, admitted.model.queue().Reserve(outline));
  const int64_t result_bytes = admitted.model.postprocessor().ResultBytes(
      request.options, BoundsOf(admitted.images, model.sizes[admitted.size.shape_key]));
  FOVEA_RETURN_IF_ERROR(admitted.request->TakeMemory(
      admitted.input.images * MemoryPerImage(model, admitted.images.has_value(), result_bytes)));
  if (admitted.input.kind == InputKind::kPixelValues && !model.allow_non_finite) {
    FOVEA_RETURN_IF_ERROR(CheckFinite(admitted.input.tensor->data));
  }
  return absl::OkStatus();
}

void PutInLine(std::unique_ptr<Admitted> admitted, PixelSource pixels) {
  const Ticket ticket = admitted->place->ticket();
  const CancellationPtr cancellation = admitted->request->cancellation;
  const int priority = admitted->priority;
  auto finish = [&model = admitted->model, handle = std::move(admitted->handle),
                 done = std::move(admitted->done),
                 &clock = admitted->clock](std::unique_ptr<InferenceTask> task,
                                           absl::StatusOr<TaskResult> result) mutable {
    Ran ran{model, std::move(handle), clock, std::move(done), std::move(task)};
    if (!result.ok()) {
      ran.Fail(Stage::kQueue, result.status());
    } else if (result->finish || model.postprocessor().TakesLong(ran.task->request().options)) {
      FinishElsewhere(std::move(ran), *std::move(result));
    } else {
      ran.Answer(*std::move(result));
    }
  };
  ModelQueue::Enqueue(
      *std::move(admitted->place),
      std::make_unique<InferenceTask>(std::move(admitted->request), std::move(pixels),
                                      admitted->size, priority, std::move(finish)));
  // After the task is in line: a cancellation before that is seen when the task's turn comes.
  cancellation->OnCancel([ticket] { ticket.NotifyCancelled(); });
}

void DecodeThenPutInLine(std::unique_ptr<Admitted> admitted) {
  const InferenceRequest& request = *admitted->request;
  const ServedModel& model = admitted->model;
  ImagingPool& imaging = admitted->imaging;
  Clock& clock = admitted->clock;
  const DecodeOrder order{
      .priority = admitted->priority,
      .order = OrderOf(request),
      .deadline = request.deadline,
      .ready_by = request.deadline == kNever
                      ? kNever
                      : request.deadline - model.queue().LeastRunTime(admitted->size)};
  ImagesToDecode images = *std::move(admitted->images);
  DecodeImages(std::move(images), model.preprocessing(), ImagingOptions(), request.cancellation,
               order, model.imaging_line(), imaging, clock,
               [admitted = std::move(admitted)](DecodedImages images) mutable {
                 StageTimes& stages = admitted->request->stages;
                 if (images.began != kNever) {
                   stages.EndStage(Stage::kQueue, images.began);
                   stages.EndStage(Stage::kPreprocess, images.ended);
                   stages.Reattribute(Stage::kPreprocess, Stage::kDecode, images.decode);
                 }
                 if (!images.pixels.ok()) {
                   admitted->Fail(images.pixels.status());
                   return;
                 }
                 // Now it is known: the file is whole, and upright.
                 admitted->size.shape_key = images.pixels->images.front().size;
                 const absl::Status fits =
                     CheckDeviceBytes(*admitted->model.view(), admitted->size.shape_key);
                 if (!fits.ok()) {
                   admitted->Fail(fits);
                   return;
                 }
                 PutInLine(std::move(admitted), *std::move(images.pixels));
               });
}

}  // namespace

void RunThroughStages(const ServedModel& model, std::shared_ptr<const ServingModel> handle,
                      std::unique_ptr<InferenceRequest> request, ImagingPool& imaging, Clock& clock,
                      InferenceCallback done) {
  auto admitted = std::make_unique<Admitted>(model, std::move(handle), std::move(request), imaging,
                                             clock, std::move(done));
  // A message in many pieces, or many images: lists of them are made.
  absl::Status status = OrOutOfMemory([&] { return Check(*admitted); });
  if (status.ok() && GoesImageByImage(admitted->input, *model.view())) {
    RunImageByImage(std::move(admitted->request), admitted->input, std::move(admitted->done),
                    [&, handle = admitted->handle](std::unique_ptr<InferenceRequest> one,
                                                   InferenceCallback one_done) {
                      RunThroughStages(model, handle, std::move(one), imaging, clock,
                                       std::move(one_done));
                    });
    return;
  }
  if (status.ok()) status = OrOutOfMemory([&] { return Admit(*admitted); });
  if (!status.ok()) {
    admitted->Fail(std::move(status));
    return;
  }
  if (admitted->images.has_value()) {
    DecodeThenPutInLine(std::move(admitted));
    return;
  }
  const bool normalised = admitted->input.kind == InputKind::kPixelValues;
  ReceivedPixels pixels{admitted->input.tensor->data, normalised};
  PutInLine(std::move(admitted), std::move(pixels));
}

}  // namespace fovea
