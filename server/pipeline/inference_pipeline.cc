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

void Include(int64_t height, int64_t width, PictureBounds* most) {
  most->pixels = std::max(most->pixels, height * width);
  most->side = std::max({most->side, height, width});
}

// Bounds of the largest of the caller's images or, if none is to be decoded, of the model's input.
// Leaves out images whose first bytes do not tell their size, or tell one that is too large: they
// are counted once they are decoded, or refused for their own fault.
PictureBounds ForeseenBounds(const std::optional<ImagesToDecode>& images, const ImageSize& input,
                             int64_t max_pixels) {
  if (!images) return {input.height * input.width, std::max(input.height, input.width)};
  PictureBounds most{1, 1};
  for (const std::optional<ImageSize>& size : images->sizes) {
    if (size && size->height * size->width <= max_pixels &&
        std::max(size->height, size->width) <= limits::kMaxImageSide) {
      Include(size->height, size->width, &most);
    }
  }
  return most;
}

PictureBounds BoundsOf(const DecodedPixels& pixels) {
  PictureBounds most{1, 1};
  for (const ResizedImage& image : pixels.images) {
    Include(image.transform.source_height, image.transform.source_width, &most);
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
  int64_t memory = 0;  // taken for the pixels and the answer

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

// Takes memory for the model's input and for an answer on pictures of at most `bounds`, beyond what
// the request has taken for them already.
absl::Status TakeMemory(const PictureBounds& bounds, bool decoded, Admitted& admitted) {
  InferenceRequest& request = *admitted.request;
  const int64_t result_bytes = admitted.model.postprocessor().ResultBytes(request.options, bounds);
  const int64_t bytes =
      admitted.input.images * MemoryPerImage(*admitted.model.view(), decoded, result_bytes);
  if (bytes <= admitted.memory) return absl::OkStatus();
  FOVEA_RETURN_IF_ERROR(request.TakeMemory(bytes - admitted.memory));
  admitted.memory = bytes;
  return absl::OkStatus();
}

// Everything else that can be refused at once; afterwards the request has its place in the queue.
absl::Status Admit(Admitted& admitted) {
  InferenceRequest& request = *admitted.request;
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
  FOVEA_RETURN_IF_ERROR(TakeMemory(
      ForeseenBounds(admitted.images, model.sizes[admitted.size.shape_key], model.max_image_pixels),
      admitted.images.has_value(), admitted));
  if (admitted.input.kind == InputKind::kPixelValues) {
    request.non_finite_input = !IsFinite(admitted.input.tensor->data);
    if (request.non_finite_input && !model.allow_non_finite) {
      return InvalidArgument("request.non_finite",
                             "pixel_values holds a number that is NaN or infinite, which the "
                             "model's allow_non_finite does not let in");
    }
  }
  return absl::OkStatus();
}

// Checks what needs the sizes of all images, which are known once the files have been decoded and
// turned upright.
absl::Status AdmitDecoded(const DecodedPixels& pixels, Admitted& admitted) {
  admitted.size.shape_key = pixels.images.front().size;
  FOVEA_RETURN_IF_ERROR(CheckDeviceBytes(*admitted.model.view(), admitted.size.shape_key));
  return TakeMemory(BoundsOf(pixels), /*decoded=*/true, admitted);
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
                 const absl::Status fits = AdmitDecoded(*images.pixels, *admitted);
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
