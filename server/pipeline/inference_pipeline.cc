#include "server/pipeline/inference_pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/admission/request_rules.h"
#include "server/pipeline/decode_images.h"

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

// Which batches it can be in: images are made of the model's own size.
BatchSize SizeOf(const AcceptedInput& input) {
  return {.images = input.images, .shape_key = input.size.value_or(0)};
}

// How the model saw each image of a task.
std::vector<ImageTransform> TransformsOf(const InferenceTask& task, const ModelView& model) {
  if (const auto* decoded = std::get_if<DecodedPixels>(&task.pixels())) return decoded->transforms;
  const ImageSize& size = model.sizes[task.shape_key()];
  return std::vector<ImageTransform>(task.images(),
                                     ImageTransform::Identity(size.height, size.width));
}

// Numbers to what the caller asked for.
absl::StatusOr<InferenceResponse> MakeResponse(InferenceTask& task, const ServedModel& served,
                                               TaskResult result) {
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
  FOVEA_ASSIGN_OR_RETURN(response.results,
                         served.postprocessor().Process(request.options, std::move(result.outputs),
                                                        TransformsOf(task, model)));
  return response;
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
  int priority = 0;                      // as the queue's
  std::optional<ImagesToDecode> images;  // where the input is to be decoded or resized
  std::optional<Reservation> place;

  void Fail(absl::Status status) { done(std::move(status), request->stages); }
};

// Everything that can be refused at once; afterwards the request has its place in the queue.
absl::Status Admit(Admitted& admitted) {
  const InferenceRequest& request = *admitted.request;
  const ModelView& model = *admitted.model.view();
  FOVEA_ASSIGN_OR_RETURN(admitted.input, CheckRequest(request, model));
  FOVEA_RETURN_IF_ERROR(admitted.model.postprocessor().Check(request.options));
  admitted.priority = QueuePriority(request.priority, model);
  const BatchSize size = SizeOf(admitted.input);
  TaskOutline outline{.images = size.images,
                      .shape_key = size.shape_key,
                      .priority = admitted.priority,
                      .deadline = request.deadline};
  if (!admitted.input.size.has_value()) {
    admitted.images.emplace(admitted.input);
    admitted.input.files = {};  // they are there now; each list of pieces costs memory
    outline.ready_at = admitted.model.imaging_line().Forecast(admitted.priority, OrderOf(request),
                                                              admitted.images->work);
  }
  // The place is taken before anything is read or decoded: a full queue refuses at once.
  FOVEA_ASSIGN_OR_RETURN(admitted.place, admitted.model.queue().Reserve(outline));
  const int64_t result_bytes = admitted.model.postprocessor().ResultBytes(request.options);
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
                 done = std::move(admitted->done), &clock = admitted->clock](
                    std::unique_ptr<InferenceTask> task, absl::StatusOr<TaskResult> result) {
    InferenceRequest& request = task->request();
    if (!result.ok()) {
      request.stages.EndStage(Stage::kQueue, clock.Now());
      done(result.status(), request.stages);
      return;
    }
    auto response = OrOutOfMemory([&]() -> absl::StatusOr<InferenceResponse> {
      return MakeResponse(*task, model, *std::move(result));
    });
    request.stages.EndStage(Stage::kPostprocess, clock.Now());
    if (response.ok()) response->receipt.stages = request.stages;
    done(std::move(response), request.stages);
  };
  ModelQueue::Enqueue(
      *std::move(admitted->place),
      std::make_unique<InferenceTask>(std::move(admitted->request), std::move(pixels),
                                      SizeOf(admitted->input), priority, std::move(finish)));
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
                      : request.deadline - model.queue().LeastRunTime(SizeOf(admitted->input))};
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
  if (absl::Status status = OrOutOfMemory([&] { return Admit(*admitted); }); !status.ok()) {
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
