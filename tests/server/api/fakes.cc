#include "tests/server/api/fakes.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace fovea {
namespace {

InferenceResponse Echo(const InferenceRequest& request) {
  InferenceResponse response;
  response.model_name = request.model_name;
  response.model_version = "1";
  response.id = request.id;
  response.attention = "dense";
  if (std::holds_alternative<ClassifyOptions>(request.options)) {
    response.results = ClassifyResults{{{7, "seven", 0.5f, 2.f}}};
  } else if (std::holds_alternative<DetectOptions>(request.options)) {
    response.results = DetectResults{{.detections = {{.score = 0.5f, .class_index = 7}}}};
  } else if (std::holds_alternative<SegmentOptions>(request.options)) {
    SegmentResults maps;
    for (const ScatteredBytes& file : std::get<ImageFiles>(request.input).files) {
      std::string& png = maps.emplace_back().class_map_png;
      png.resize(file.size());
      file.CopyTo(0, png.size(), png.data());
    }
    response.results = std::move(maps);
  } else {
    TensorResults outputs;
    for (const InputTensor& input : std::get<NamedTensors>(request.input)) {
      OutputTensor& output = outputs.emplace_back(input.name, input.type, input.shape,
                                                  std::string(input.data.size(), '\0'));
      input.data.CopyTo(0, output.data.size(), output.data.data());
    }
    response.results = std::move(outputs);
  }
  response.receipt.stages = request.stages;
  response.receipt.batch_size = 1;
  response.receipt.device_times =
      DeviceTimes{.h2d = 11 * kMillisecond, .kernels = 12 * kMillisecond, .d2h = 13 * kMillisecond};
  return response;
}

std::shared_ptr<const ModelView> Model() {
  auto model = std::make_shared<ModelView>();
  model->name = "vit";
  model->version = "1";
  model->served_versions = {"1"};
  model->attention = "dense";
  model->task = VisionTask::kClassification;
  model->inputs = {{"pixel_values", DataType::kFp32, {-1, 3, 224, 224}}};
  model->outputs = {{"logits", DataType::kFp32, {-1, 1000}}};
  model->accepted_inputs = model->inputs;
  model->properties = {{"fovea.inputs", "pixel_values,image,image_rgb"}};
  model->labels = std::make_shared<const std::vector<std::string>>(1, "tench");
  model->max_batch_size = 16;
  model->preferred_batch_sizes = {4, 8};
  model->max_queue_delay_us = 500;
  model->default_queue_policy = {.default_timeout_us = 1'000'000, .max_queue_size = 64};
  model->priority_queue_policy[1] = {.allow_timeout_override = false};
  model->priority_queue_policy[3] = {.timeout_action = TimeoutAction::kDelay,
                                     .default_timeout_us = 2'000};
  model->priority_levels = 3;
  model->default_priority_level = 2;
  model->instances = 2;
  model->rate_limiter_priority = 4;
  model->device = "CPU";
  return model;
}

class FakeModel final : public ServingModel {
 public:
  explicit FakeModel(FakeInference& inference) : inference_(inference), view_(Model()) {}
  const std::shared_ptr<const ModelView>& view() const override { return view_; }
  void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) const override {}

 private:
  void Take(std::shared_ptr<const ServingModel>, std::unique_ptr<InferenceRequest> request,
            InferenceCallback done) const override {
    inference_.Infer(std::move(request), std::move(done));
  }

  FakeInference& inference_;
  const std::shared_ptr<const ModelView> view_;
};

}  // namespace

void FakeInference::Held::Answer() {
  const StageTimes stages = request->stages;
  std::exchange(done, nullptr)(Echo(*request), stages);
}

void FakeInference::Held::Fail(const absl::Status& status) {
  std::exchange(done, nullptr)(status, request->stages);
}

void FakeInference::Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) {
  Held held{std::move(request), std::move(done)};
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const absl::Status taken = held.request->TakeMemory(bytes_);
    status = taken.ok() ? status_ : taken;
    if (hold_ && taken.ok()) {
      held_.push_back(std::move(held));
      changed_.NotifyAll();
      return;
    }
  }
  if (status.ok()) {
    held.Answer();
  } else {
    held.Fail(status);
  }
}

void FakeInference::Hold() {
  MutexLock lock(mutex_);
  hold_ = true;
}

FakeInference::Held FakeInference::Take() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  MutexLock lock(mutex_);
  while (held_.empty()) {
    FOVEA_CHECK(std::chrono::steady_clock::now() < end);  // no request came
    changed_.WaitUntil(mutex_, end);
  }
  Held held = std::move(held_.front());
  held_.pop_front();
  return held;
}

void FakeInference::TakeMemory(int64_t bytes) {
  MutexLock lock(mutex_);
  bytes_ = bytes;
}

size_t FakeInference::held() const {
  MutexLock lock(mutex_);
  return held_.size();
}

void FakeInference::FailWith(absl::Status status) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
}

FakeCatalog::FakeCatalog(FakeInference& inference)
    : model_(std::make_shared<FakeModel>(inference)) {}

absl::StatusOr<std::shared_ptr<const ServingModel>> FakeCatalog::Acquire(
    std::string_view name, std::string_view version) const {
  if (name == "bad/name") return InvalidArgument("model.bad_name", "no model can have this name");
  MutexLock lock(mutex_);
  if (name != "vit" || !(version.empty() || version == "1") || !loaded_) {
    return NotFound("model.not_found", "no such model is loaded");
  }
  return model_;
}

absl::StatusOr<std::shared_ptr<const ModelView>> FakeCatalog::Find(std::string_view name,
                                                                   std::string_view version) const {
  FOVEA_ASSIGN_OR_RETURN(const auto model, Acquire(name, version));
  return model->view();
}

std::vector<IndexEntry> FakeCatalog::Index() const {
  MutexLock lock(mutex_);
  ++indexes_begun_;
  while (index_blocked_) changed_.Wait(mutex_);
  return {{"broken", "", ModelState::kUnavailable, "its weights are missing"},
          {"swin", "2", ModelState::kLoading, ""},
          {"vit", "1", loaded_ ? ModelState::kReady : ModelState::kUnavailable, ""},
          {"vit", "2", ModelState::kUnloading, ""}};
}

absl::Status FakeCatalog::Load(std::string_view name, std::string_view config_override) {
  std::vector<ReadinessListener> listeners;
  {
    MutexLock lock(mutex_);
    ++loads_begun_;
    while (blocked_) changed_.Wait(mutex_);
    if (name != "vit") return NotFound("model.not_found", "the repository has no such model");
    loaded_ = true;
    config_ = config_override;
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener("vit", "1", Readiness::kReady);
  return absl::OkStatus();
}

absl::Status FakeCatalog::LoadFiles(std::string_view name, std::string_view config_override,
                                    std::vector<SentFile> files,
                                    absl::FunctionRef<void()> written) {
  {
    MutexLock lock(mutex_);
    files_ = std::move(files);
  }
  written();
  return Load(name, config_override);
}

absl::Status FakeCatalog::Unload(std::string_view name) {
  if (name != "vit") return NotFound("model.not_found", "no such model is loaded");
  std::vector<ReadinessListener> listeners;
  {
    MutexLock lock(mutex_);
    loaded_ = false;
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener("vit", "1", Readiness::kGone);
  return absl::OkStatus();
}

void FakeCatalog::OnReadinessChange(ReadinessListener listener) {
  listener("vit", "1", Readiness::kReady);
  MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
}

absl::StatusOr<std::vector<ModelStatistics>> FakeCatalog::Statistics(
    std::string_view name, std::string_view version) const {
  // As the counters do, which know no rule of names.
  if (!name.empty() && !Find(name, version).ok()) {
    return NotFound("model.not_found", "no such model is loaded");
  }
  ModelStatistics statistics;
  statistics.name = "vit";
  statistics.version = "1";
  statistics.last_inference_ms = 123;
  statistics.inference_count = 9;
  statistics.execution_count = 4;
  statistics.success = {3, 300};
  statistics.fail = {1, 10};
  statistics.queue = {3, 30};
  statistics.compute_input = {3, 31};
  statistics.compute_infer = {3, 32};
  statistics.compute_output = {3, 33};
  statistics.batches[4] = {{1, 2}, {1, 3}, {1, 4}};
  statistics.memory_bytes = {{"weights", 1000}, {"activations_peak", 24}};
  return std::vector<ModelStatistics>{statistics};
}

std::string FakeCatalog::last_config() const {
  MutexLock lock(mutex_);
  return config_;
}

std::vector<SentFile> FakeCatalog::last_files() const {
  MutexLock lock(mutex_);
  return files_;
}

void FakeCatalog::BlockLoads() {
  MutexLock lock(mutex_);
  blocked_ = true;
}

void FakeCatalog::UnblockLoads() {
  MutexLock lock(mutex_);
  blocked_ = false;
  changed_.NotifyAll();
}

int FakeCatalog::loads_begun() const {
  MutexLock lock(mutex_);
  return loads_begun_;
}

void FakeCatalog::BlockIndex() {
  MutexLock lock(mutex_);
  index_blocked_ = true;
}

void FakeCatalog::UnblockIndex() {
  MutexLock lock(mutex_);
  index_blocked_ = false;
  changed_.NotifyAll();
}

int FakeCatalog::indexes_begun() const {
  MutexLock lock(mutex_);
  return indexes_begun_;
}

void RecordingObserver::OnRequestArrived() {
  MutexLock lock(mutex_);
  ++arrived_;
}

int RecordingObserver::arrived() const {
  MutexLock lock(mutex_);
  return arrived_;
}

void RecordingObserver::OnRequestDone(const AnsweredRequest& request) {
  MutexLock lock(mutex_);
  requests_.push_back(request);
}

std::vector<AnsweredRequest> RecordingObserver::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

}  // namespace fovea
