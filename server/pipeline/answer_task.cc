#include "server/pipeline/answer_task.h"

#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/pipeline/draw_results.h"
#include "server/pipeline/imaging_order.h"
#include "server/pipeline/run_log_context.h"

namespace fovea {
namespace {

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
  response.non_finite_input = request.non_finite_input;
  response.receipt.batch_size = result.batch_size;
  response.receipt.batch_threads = result.batch_threads;
  response.receipt.batch_peak_bytes = result.batch_peak_bytes;
  response.receipt.device_times = result.device_times;
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
  if (request.draw) {
    const ImagingResources resources{.budget = served.imaging_line().budget(),
                                     .clock = clock,
                                     .until = request.deadline,
                                     .rank = {task.priority(), ImagingOrder(request)},
                                     .cancellation = request.cancellation};
    FOVEA_ASSIGN_OR_RETURN(
        response.drawing,
        DrawResults(task.request(), response.results, ImagingOptionsOf(*served.view()), resources));
  }
  return response;
}

// A request that its model has run, until it is answered.
struct FinishedRun {
  const ServedModel& model;
  std::shared_ptr<const ServingModel> handle;
  Clock& clock;
  InferenceCallback done;
  std::unique_ptr<InferenceTask> task;

  void Fail(Stage stage, absl::Status status) {
    StageTimes& stages = task->request().stages;
    stages.EndStage(stage, clock.Now());
    model.CountImaging(task->request(), status);
    done(std::move(status), stages);
  }
  // Whether there is a result. `on_imaging_thread`: this is one.
  bool Answer(TaskResult result, bool on_imaging_thread) {
    StageTimes& stages = task->request().stages;
    auto response = OrOutOfMemory([&]() -> absl::StatusOr<InferenceResponse> {
      return MakeResponse(*task, model, clock, std::move(result));
    });
    stages.EndStage(Stage::kPostprocess, clock.Now());
    if (on_imaging_thread) task->request().imaging_thread_time += stages[Stage::kPostprocess];
    model.CountImaging(task->request(), response.status());
    const bool ok = response.ok();
    if (ok) response->receipt.stages = stages;
    done(std::move(response), stages);
    return ok;
  }
};

// The amount of work in making its results: the pixels of its picture that is drawn over, the
// numbers that are computed for the pixels of its pictures, or the number of its pictures where no
// pixel is looked at. In one unit for both, masks would tell how long the suppression of boxes
// takes.
int64_t ResultsAmount(const FinishedRun& ran) {
  const Postprocessor& postprocessor = ran.model.postprocessor();
  const RequestOptions& options = ran.task->request().options;
  const bool draw = ran.task->request().draw;
  if (!postprocessor.TakesLong(options) && !draw) return ran.task->images();
  int64_t pixels = 0;
  const ImageSize& input = ran.model.view()->sizes[ran.task->shape_key()];
  for (const ImageTransform& seen : TransformsOf(*ran.task, input)) {
    pixels += seen.source_height * seen.source_width;
  }
  return draw ? pixels : pixels * postprocessor.NumbersPerPixel(options);
}

// What is left to do for a task alone waits for a thread of imaging's: the model's own goes on with
// the next batch.
void FinishElsewhere(FinishedRun ran, TaskResult result) {
  ImagingLine& line = ran.model.imaging_line();
  const InferenceRequest& request = ran.task->request();
  const ImageKind kind = request.draw ? ImageKind::kDrawing : ImageKind::kResults;
  ImagingTask task{.outline = {.work = {kind, ResultsAmount(ran)},
                               .priority = ran.task->priority(),
                               .order = ImagingOrder(request),
                               .split_from = request.split_from},
                   .cancellation = request.cancellation,
                   .deadline = request.deadline};
  task.run = [ran = std::move(ran), result = std::move(result)](const absl::Status& turn) mutable {
    if (!turn.ok()) {
      ran.Fail(Stage::kQueue, turn);
      return false;
    }
    ran.task->request().stages.EndStage(Stage::kQueue, ran.clock.Now());
    const RunLogContext context(*ran.model.view(), ran.task->request());
    return ran.Answer(std::move(result), /*on_imaging_thread=*/true);
  };
  line.SubmitLast(std::move(task));
}

}  // namespace

void AnswerTask(const ServedModel& model, std::shared_ptr<const ServingModel> handle, Clock& clock,
                InferenceCallback done, std::unique_ptr<InferenceTask> task,
                absl::StatusOr<TaskResult> result) {
  FinishedRun ran{model, std::move(handle), clock, std::move(done), std::move(task)};
  if (!result.ok()) {
    ran.Fail(Stage::kQueue, result.status());
  } else if (result->finish || ran.task->request().draw ||
             model.postprocessor().TakesLong(ran.task->request().options)) {
    FinishElsewhere(std::move(ran), *std::move(result));
  } else {
    ran.Answer(*std::move(result), /*on_imaging_thread=*/false);
  }
}

}  // namespace fovea
