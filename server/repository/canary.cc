#include "server/repository/canary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/input_names.h"
#include "server/core/mutex.h"

namespace fovea {
namespace {

// How often a stop is looked for while an answer is waited for.
constexpr Nanos kLookForStop = 100 * kMillisecond;

absl::Status Failed(std::string_view text) {
  return FailedPrecondition("canary.failed",
                            absl::StrCat("the canary's answer is wrong: ", std::string(text)));
}

bool IsTensor(const CanarySpec& spec) { return spec.input.ends_with(".f32"); }

std::string OutputName(const CanarySpec& spec, const ModelView& model) {
  if (!spec.output_name.empty()) return spec.output_name;
  return model.task == VisionTask::kDetection ? "boxes" : "logits";
}

RequestOptions OptionsOf(const CanarySpec& spec, const ModelView& model) {
  if (!spec.output_file.empty()) return WantedTensors{.outputs = {{OutputName(spec, model)}}};
  switch (model.task) {
    case VisionTask::kDetection:
      return DetectOptions{.max_detections = 1};
    case VisionTask::kSegmentation:
      return SegmentOptions{.format = MapFormat::kRunLengths};
    case VisionTask::kClassification:
      break;
  }
  return ClassifyOptions{.top_k = 1};
}

RequestInput InputOf(const Canary& canary, const ModelView& model) {
  // The files outlive the request: they go with the bytes.
  const auto bytes = std::as_bytes(std::span(canary.files->input));
  ScatteredBytes data(bytes, canary.files);
  if (!IsTensor(canary.spec)) return ImageFiles{.files = {std::move(data)}};
  const ImageSize size = model.sizes.empty() ? ImageSize{} : model.sizes.front();
  NamedTensors tensors(1);
  tensors[0] = {.name = std::string(kPixelValuesInput),
                .type = DataType::kFp32,
                .shape = {1, 3, size.height, size.width},
                .data = std::move(data)};
  return tensors;
}

// Whether a class is the one that is meant, by label or by number.
absl::Status CheckClass(const CanarySpec& spec, const std::string& label, int index) {
  if (spec.top_class == label || spec.top_class == absl::StrCat(index)) return absl::OkStatus();
  return Failed(absl::StrCat("class ", index, label.empty() ? "" : absl::StrCat(" (", label, ")"),
                             " comes first, and ", spec.top_class, " is expected"));
}

absl::Status CheckNumbers(const CanarySpec& spec, const std::string& expected,
                          const OutputTensor& output) {
  if (output.type != DataType::kFp32) {
    return Failed(absl::StrCat(output.name, " is ", std::string(DataTypeName(output.type)),
                               ", and only FP32 can be expected"));
  }
  if (output.data.size() != expected.size()) {
    return Failed(absl::StrCat(output.name, " has ", output.data.size() / sizeof(float),
                               " numbers, and ", spec.output_file, " has ",
                               expected.size() / sizeof(float)));
  }
  for (size_t i = 0; i < expected.size() / sizeof(float); ++i) {
    float is, wanted;
    std::memcpy(&is, output.data.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&wanted, expected.data() + i * sizeof(float), sizeof(float));
    const double allowed =
        spec.absolute_tolerance + spec.relative_tolerance * std::fabs(double{wanted});
    // (A NaN on either side is never within.)
    if (std::fabs(double{is} - double{wanted}) <= allowed) continue;
    return Failed(absl::StrCat(output.name, " number ", i, " is ", is, ", and ", wanted,
                               " is expected, within ", allowed));
  }
  return absl::OkStatus();
}

// What the callback of a request and the thread that waits for it share.
struct Answer {
  Mutex mutex;
  CondVar answered;
  std::optional<absl::StatusOr<InferenceResponse>> response ABSL_GUARDED_BY(mutex);
};

// Errors that are the moment's: the queue is full, memory is short, the deadline hopeless, the
// version being retired.
bool OfTheMoment(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

absl::StatusOr<Canary> ReadCanaryOf(const ModelFolderContents& model,
                                    const VersionFolderContents& version) {
  FOVEA_CHECK(model.spec.canary && version.canary);
  auto files = std::make_shared<CanaryFiles>();
  FOVEA_RETURN_IF_ERROR(OrOutOfMemory([&]() -> absl::Status {
    FOVEA_ASSIGN_OR_RETURN(*files, ReadCanary(*version.canary));
    return absl::OkStatus();
  }));
  return Canary{*model.spec.canary, std::move(files)};
}

absl::Status CheckCanaryAnswer(const Canary& canary, const ModelView& model,
                               const InferenceResponse& response) {
  const CanarySpec& spec = canary.spec;
  if (const auto* tensors = std::get_if<TensorResults>(&response.results)) {
    const std::string name = OutputName(spec, model);
    const auto output = std::ranges::find(*tensors, name, &OutputTensor::name);
    if (output == tensors->end()) return Failed(absl::StrCat("there is no output ", name));
    return CheckNumbers(spec, canary.files->expected, *output);
  }
  if (const auto* classes = std::get_if<ClassifyResults>(&response.results)) {
    if (classes->empty() || classes->front().empty()) return Failed("there is no class");
    const ClassScore& first = classes->front().front();
    return CheckClass(spec, first.label, first.index);
  }
  if (const auto* found = std::get_if<DetectResults>(&response.results)) {
    if (found->empty() || found->front().detections.empty()) return Failed("nothing is found");
    const Detection& best = found->front().detections.front();
    return CheckClass(spec, best.label, best.class_index);
  }
  const auto& maps = std::get<SegmentResults>(response.results);
  if (maps.empty() || maps.front().classes.empty()) return Failed("there is no class");
  const ClassArea& largest = maps.front().classes.front();
  return CheckClass(spec, largest.label, largest.class_index);
}

absl::Status AskCanary(std::shared_ptr<const ServingModel> model, const Canary& canary,
                       Clock& clock, const Cancellation& stop) {
  const std::shared_ptr<const ModelView> view = model->view();
  const Nanos until = clock.Now() + limits::kMaxCanarySeconds * kSecond;
  auto request = std::make_unique<InferenceRequest>();
  request->model_name = view->name;
  request->model_version = view->version;
  request->id = "canary";
  request->input = InputOf(canary, *view);
  request->options = OptionsOf(canary.spec, *view);
  request->priority = static_cast<uint64_t>(view->priority_levels);  // the last one
  request->deadline = until;
  request->stages = StageTimes(clock.Now());
  const CancellationPtr cancellation = request->cancellation;
  const auto answer = std::make_shared<Answer>();
  ServingModel::Infer(std::move(model), std::move(request),
                      [answer](absl::StatusOr<InferenceResponse> response, StageTimes) {
                        MutexLock lock(answer->mutex);
                        answer->response.emplace(std::move(response));
                        answer->answered.NotifyAll();
                      });
  {
    MutexLock lock(answer->mutex);
    while (!answer->response && !stop.Cancelled() && clock.Now() < until) {
      clock.WaitUntil(answer->answered, answer->mutex, clock.Now() + kLookForStop);
    }
    if (answer->response) {
      const absl::StatusOr<InferenceResponse>& response = *answer->response;
      if (response.ok()) return CheckCanaryAnswer(canary, *view, *response);
      if (!OfTheMoment(response.status())) return Failed(std::string(response.status().message()));
      return Unavailable("canary.not_answered",
                         absl::StrCat("the canary could not be answered: ",
                                      std::string(response.status().message())));
    }
  }
  cancellation->Cancel();
  return Unavailable("canary.not_answered", "the canary was not answered in time");
}

}  // namespace fovea
