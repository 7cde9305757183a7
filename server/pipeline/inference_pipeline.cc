#include "server/pipeline/inference_pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/admission/request_rules.h"
#include "server/pipeline/answer_task.h"
#include "server/pipeline/decode_images.h"
#include "server/pipeline/draw_results.h"
#include "server/pipeline/image_by_image.h"
#include "server/pipeline/imaging_order.h"

namespace fovea {
namespace {

// The size that images will run at; nothing where their first bytes do not tell.
std::optional<size_t> ForeseenSize(const ImagesToDecode& images, const PreprocessSpec& spec) {
  const std::optional<ImageSize>& first = images.sizes.front();
  if (!first) return std::nullopt;
  return PlanResize(first->height, first->width, spec).size;
}

// Of the largest of the callers' images, or, where none is to be decoded, of the model's.
PictureBounds BoundsOf(const std::optional<ImagesToDecode>& images, const ImageSize& input,
                       int64_t max_pixels) {
  if (!images) return {input.height * input.width, std::max(input.height, input.width)};
  PictureBounds most{1, 1};
  for (const std::optional<ImageSize>& size : images->sizes) {
    // What its first bytes do not tell is at most what decoding takes.
    most.pixels =
        std::max(most.pixels, size ? std::min(size->height * size->width, max_pixels) : max_pixels);
    most.side =
        std::max(most.side, size ? std::max(size->height, size->width) : limits::kMaxImageSide);
  }
  return most;
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
  int priority = 0;                      // as the queue's: 0 is first
  std::optional<ImagesToDecode> images;  // where the input is to be decoded or resized
  std::optional<Reservation> place;

  void Fail(absl::Status status) {
    model.CountImaging(*request, status);
    done(std::move(status), request->stages);
  }
};

absl::Status Check(Admitted& admitted) {
  InferenceRequest& request = *admitted.request;
  if (request.draw) FOVEA_RETURN_IF_ERROR(AskForDrawing(*admitted.model.view(), &request));
  FOVEA_ASSIGN_OR_RETURN(admitted.input, CheckRequest(request, *admitted.model.view()));
  return admitted.model.postprocessor().Check(request.options);
}

// Everything else that can be refused at once; afterwards the request has its place in the queue.
absl::Status Admit(Admitted& admitted) {
  const InferenceRequest& request = *admitted.request;
  const ModelView& model = *admitted.model.view();
  admitted.priority = model.LevelOf(request.priority) - 1;
  std::optional<size_t> size = admitted.input.size;
  TaskOutline outline{
      .images = admitted.input.images, .priority = admitted.priority, .deadline = request.deadline};
  outline.idle_only = request.idle_only;
  if (!admitted.input.size.has_value()) {
    admitted.images.emplace(admitted.input, admitted.model.preprocessing());
    admitted.input.files = {};  // they are there now; each list of pieces costs memory
    size = ForeseenSize(*admitted.images, admitted.model.preprocessing());
    outline.ready_at = admitted.model.imaging_line().Forecast(
        admitted.priority, ImagingOrder(request), admitted.images->work);
  }
  admitted.size = {.images = admitted.input.images, .shape_key = size.value_or(0)};
  outline.shape_key = admitted.size.shape_key;
  if (size) FOVEA_RETURN_IF_ERROR(CheckDeviceBytes(model, *size));  // or once it is decoded
  // The place is taken before anything is read or decoded: a full queue refuses at once.
  FOVEA_ASSIGN_OR_RETURN(admitted.place, admitted.model.queue().Reserve(outline));
  const int64_t result_bytes = admitted.model.postprocessor().ResultBytes(
      request.options,
      BoundsOf(admitted.images, model.sizes[admitted.size.shape_key], model.max_image_pixels));
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
    AnswerTask(model, std::move(handle), clock, std::move(done), std::move(task),
               std::move(result));
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
      .order = ImagingOrder(request),
      .deadline = request.deadline,
      .ready_by = request.deadline == kNever
                      ? kNever
                      : request.deadline - model.queue().LeastRunTime(admitted->size)};
  ImagesToDecode images = *std::move(admitted->images);
  DecodeImages(std::move(images), model.preprocessing(), ImagingOptionsOf(*model.view()),
               request.cancellation, order, model.imaging_line(), imaging, clock,
               [admitted = std::move(admitted)](DecodedImages images) mutable {
                 StageTimes& stages = admitted->request->stages;
                 admitted->request->imaging_thread_time = images.thread_time;
                 if (images.began != kNever) {
                   stages.EndStage(Stage::kQueue, images.began);
                   stages.EndImaging(images.ended, images.decode, images.first_decoded,
                                     images.last_decoded);
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
