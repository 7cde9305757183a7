#include "tests/server/transport/server_testing.h"

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "server/transport/grpc_status.h"

namespace fovea {
namespace {

InferenceResponse Echo(const InferenceRequest& request) {
  InferenceResponse response;
  response.model_name = request.model_name;
  response.model_version = "1";
  response.id = request.id;
  response.attention = "self/dense";
  for (const InputTensor& input : request.inputs) {
    OutputTensor output{input.name, input.type, input.shape, std::string(input.data.size(), '\0')};
    input.data.CopyTo(0, output.data.size(), output.data.data());
    response.outputs.push_back(std::move(output));
  }
  if (request.top_k > 0) response.classes = {{{7, "seven", 0.5f, 2.f}}};
  response.receipt.stages = request.stages;
  response.receipt.batch_size = 1;
  return response;
}

std::shared_ptr<const ModelView> Model() {
  auto model = std::make_shared<ModelView>();
  model->name = "vit";
  model->version = "1";
  model->served_versions = {"1"};
  model->attention = "self/dense";
  model->task = "classification";
  model->inputs = {{"pixel_values", DataType::kFp32, {-1, 3, 224, 224}}};
  model->outputs = {{"logits", DataType::kFp32, {-1, 1000}}};
  model->accepted_inputs = model->inputs;
  model->properties = {{"fovea.inputs", "pixel_values,image,image_rgb"}};
  model->labels = std::make_shared<const std::vector<std::string>>(1, "tench");
  model->max_batch_size = 16;
  model->preferred_batch_sizes = {4, 8};
  model->max_queue_delay_us = 500;
  model->default_timeout_us = 1'000'000;
  model->max_queue_size = 64;
  model->priority_levels = 3;
  model->default_priority_level = 2;
  model->instances = 2;
  return model;
}

}  // namespace

void FakeInference::Held::Answer() {
  const StageTimes stages = request->stages;
  done(Echo(*request), stages);
}

void FakeInference::Held::Fail(const absl::Status& status) { done(status, request->stages); }

void FakeInference::Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) {
  Held held{std::move(request), std::move(done)};
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = status_;
    if (hold_) {
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

size_t FakeInference::held() const {
  MutexLock lock(mutex_);
  return held_.size();
}

void FakeInference::FailWith(absl::Status status) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
}

FakeCatalog::FakeCatalog() : model_(Model()) {}

absl::StatusOr<std::shared_ptr<const ModelView>> FakeCatalog::Find(std::string_view name,
                                                                   std::string_view version) const {
  if (name == "bad/name") return InvalidArgument("model.bad_name", "no model can have this name");
  MutexLock lock(mutex_);
  if (name != "vit" || !(version.empty() || version == "1") || !loaded_) {
    return NotFound("model.not_found", "no such model is loaded");
  }
  return model_;
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
  for (const auto& listener : listeners) listener("vit", "1", true);
  return absl::OkStatus();
}

absl::Status FakeCatalog::Unload(std::string_view name) {
  if (name != "vit") return NotFound("model.not_found", "no such model is loaded");
  std::vector<ReadinessListener> listeners;
  {
    MutexLock lock(mutex_);
    loaded_ = false;
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener("vit", "1", false);
  return absl::OkStatus();
}

void FakeCatalog::OnReadinessChange(ReadinessListener listener) {
  listener("vit", "1", true);
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

void RecordingObserver::OnRequestDone(const AnsweredRequest& request) {
  MutexLock lock(mutex_);
  requests_.push_back(request);
}

std::vector<AnsweredRequest> RecordingObserver::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void GrpcServerTest::Start(const GrpcServerOptions& options) {
  server_.reset();
  auto server =
      GrpcServer::Create(options, inference_, catalog_, catalog_, &observer_, SteadyClock());
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  server_->SetServing(true);
  channel_ = NewChannel();
  stub_ = inference::GRPCInferenceService::NewStub(channel_);
  vision_ = v1::VisionService::NewStub(channel_);
  health_ = grpc::health::v1::Health::NewStub(channel_);
}

std::shared_ptr<grpc::Channel> GrpcServerTest::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Not the connection of another test's channel to the same port.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status GrpcServerTest::CallRaw(const std::string& method, const std::string& message,
                                     std::string* answer, grpc::ClientContext* context) {
  grpc::ClientContext own_context;
  grpc::Slice slice(message);
  grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel_);
  auto call =
      stub.PrepareUnaryCall(context != nullptr ? context : &own_context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (answer != nullptr && response.Dump(&slices).ok()) {
    answer->clear();
    for (const grpc::Slice& piece : slices) {
      answer->append(reinterpret_cast<const char*>(piece.begin()), piece.size());
    }
  }
  return status;
}

int64_t ResidentBytes() {
  malloc_trim(0);  // freed memory that malloc keeps for later is not held
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string ReasonTold(const grpc::ClientContext& context) {
  const auto& trailer = context.GetServerTrailingMetadata();
  const auto reason = trailer.find(kReasonMetadata);
  return reason == trailer.end() ? "" : std::string(reason->second.data(), reason->second.size());
}

inference::ModelInferRequest SmallRequest(const std::string& id) {
  inference::ModelInferRequest request;
  request.set_model_name("vit");
  request.set_id(id);
  auto* input = request.add_inputs();
  input->set_name("pixel_values");
  input->set_datatype("FP32");
  input->add_shape(2);
  request.add_raw_input_contents("12345678");
  return request;
}

}  // namespace fovea
