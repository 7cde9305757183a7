#include "tests/client/fake_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/fovea/v1/vision.grpc.pb.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/imaging/encode_png.h"
#include "tests/client/fake_comparisons.h"
#include "tests/client/fake_models.h"

namespace fovea::client {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

// Up to three runs as COCO's tools write them: five bits a character, low ones first.
std::string RunLengths(std::initializer_list<int> runs) {
  std::string text;
  for (int run : runs) {
    bool more = true;
    while (more) {
      const int group = run & 0x1f;
      run >>= 5;
      more = run != 0 || (group & 0x10) != 0;  // the last one's highest bit is the sign
      text += static_cast<char>('0' + group + (more ? 0x20 : 0));
    }
  }
  return text;
}

// What a caller asked an experiment to go by; empty: nothing.
std::string ExperimentKey(const ServerContext& context) {
  const auto found = context.client_metadata().find("fovea-experiment-key");
  return found == context.client_metadata().end()
             ? std::string()
             : std::string(found->second.data(), found->second.size());
}

// Where the caller sent a key: of the experiment "night", whose arms are called like the keys.
void FillArm(const ServerContext& context, fovea::v1::Receipt* receipt) {
  const std::string key = ExperimentKey(context);
  if (key.empty()) return;
  receipt->set_experiment("night");
  receipt->set_experiment_arm(absl::StrCat("shapes/", key));
}

class FakeVision final : public fovea::v1::VisionService::Service {
 public:
  explicit FakeVision(const std::vector<FakeModel>& models) : models_(models) {}

  Status Classify(ServerContext* context, const fovea::v1::ClassifyRequest* request,
                  fovea::v1::ClassifyResponse* response) override {
    {
      std::unique_lock lock(mutex_);
      classified_.push_back(request->model_name());
      if (!request->images().empty()) classified_at_[request->images(0)].push_back(absl::Now());
      most_at_once_ = std::max(most_at_once_, ++running_);
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(20), [&] { return most_at_once_ >= company_; });
    }
    const Status status = Answer(context, *request, response);
    std::lock_guard lock(mutex_);
    --running_;
    return status;
  }

  // The model's boxes for each image, of the classes and scores that are asked for. "nowhere ...":
  // the first one's left side is NaN.
  Status Detect(ServerContext* context, const fovea::v1::DetectRequest* request,
                fovea::v1::DetectResponse* response) override {
    const FakeModel* model = Find(models_, request->model_name());
    if (model == nullptr) return NoSuchModel(request->model_name());
    response->set_model_name(model->name);
    response->set_model_version(model->version);
    response->set_attention(model->attention);
    response->set_untrained(model->untrained);
    for (const std::string& image : request->images()) {
      if (absl::StartsWith(image, "bad")) {
        context->AddTrailingMetadata("fovea-reason", "image.unknown_format");
        return {StatusCode::INVALID_ARGUMENT, "the image is no JPEG, PNG or WebP file"};
      }
      auto* result = response->add_results();
      result->set_image_height(240);
      result->set_image_width(320);
      const auto& wanted = request->classes();
      for (const FakeModel::Class& one : model->classes) {
        if (one.confidence < request->score_threshold()) continue;
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), one.label) == wanted.end()) {
          continue;
        }
        if (request->max_detections() > 0 &&
            result->detections_size() == request->max_detections()) {
          break;
        }
        auto* found = result->add_detections();
        const bool nowhere = absl::StartsWith(image, "nowhere") && result->detections_size() == 1;
        found->mutable_box()->set_left(nowhere ? std::numeric_limits<float>::quiet_NaN() : 10.5f);
        found->mutable_box()->set_top(20);
        found->mutable_box()->set_right(static_cast<float>(110 + one.index));
        found->mutable_box()->set_bottom(70);
        found->set_score(one.confidence);
        found->set_class_index(one.index);
        found->set_label(one.label);
        if (request->mask_format() == fovea::v1::DetectRequest::RUN_LENGTHS) {
          found->mutable_mask()->set_run_lengths(model->mask_runs);
          found->mutable_mask()->set_pixels(2);
        }
      }
    }
    response->mutable_receipt()->set_padding(0.25);
    FillArm(*context, response->mutable_receipt());
    return Status::OK;
  }

  // The first column of the model's first class, the rest of its second. "holes ...": a map that
  // leaves pixels out. "nowhere ...": a class more, which has no pixel. "unsure ...": none of the
  // confidence that is asked for.
  Status Segment(ServerContext*, const fovea::v1::SegmentRequest* request,
                 fovea::v1::SegmentResponse* response) override {
    const FakeModel* model = Find(models_, request->model_name());
    if (model == nullptr) return NoSuchModel(request->model_name());
    response->set_model_name(model->name);
    for (const std::string& image : request->images()) {
      auto* result = response->add_results();
      const int height = model->picture_height, rest = height * (model->picture_width - 1);
      result->set_image_height(height);
      result->set_image_width(model->picture_width);
      const std::string run_lengths[] = {
          absl::StartsWith(image, "holes") ? "015" : RunLengths({0, height, rest}),
          RunLengths({height, rest})};
      for (const int i : {1, 0}) {
        auto* area = result->add_classes();
        area->set_class_index(model->classes[i].index);
        area->set_label(model->classes[i].label);
        area->set_pixels(i == 0 ? height : rest);
        area->set_run_lengths(run_lengths[i]);
      }
      if (absl::StartsWith(image, "nowhere")) {
        auto* area = result->add_classes();
        area->set_class_index(model->classes[1].index);
        area->set_run_lengths(RunLengths({height + rest}));
      }
      if (request->confidence() && !absl::StartsWith(image, "unsure")) {
        const int rows = absl::StartsWith(image, "cropped") ? height - 1 : height;
        std::vector<uint8_t> levels(rows * model->picture_width);
        for (size_t pixel = 0; pixel < levels.size(); ++pixel) {
          levels[pixel] = static_cast<uint8_t>(40 * pixel);
        }
        result->set_confidence_png(*EncodeGreyPng(levels, {rows, model->picture_width}));
      }
    }
    return Status::OK;
  }

  // Each request as its own call answers it: at once, or as they come: backwards, when all are
  // there.
  Status StreamImages(ServerContext* context,
                      grpc::ServerReaderWriter<fovea::v1::StreamImagesResponse,
                                               fovea::v1::StreamImagesRequest>* stream) override {
    std::vector<fovea::v1::StreamImagesResponse> answers;
    bool at_once = true;
    fovea::v1::StreamImagesRequest request;
    for (uint64_t number = 0; stream->Read(&request); ++number) {
      if (number == 0) at_once = request.order() != fovea::v1::StreamImagesRequest::AS_THEY_COME;
      fovea::v1::StreamImagesResponse answer = Streamed(context, request);
      answer.set_number(number);
      if (at_once) {
        stream->Write(answer);
      } else {
        answers.push_back(std::move(answer));
      }
    }
    for (; !answers.empty(); answers.pop_back()) stream->Write(answers.back());
    return context->IsCancelled() ? Status(StatusCode::CANCELLED, "cancelled") : Status::OK;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> classified_;
  std::map<std::string, std::vector<absl::Time>> classified_at_;  // by image
  std::map<std::string, size_t> flaky_;                           // by model
  int running_ = 0, most_at_once_ = 0, company_ = 0;

 private:
  fovea::v1::StreamImagesResponse Streamed(ServerContext* context,
                                           const fovea::v1::StreamImagesRequest& request) {
    fovea::v1::StreamImagesResponse answer;
    Status status;
    if (request.has_classify()) {
      answer.set_id(request.classify().id());
      status = Classify(context, &request.classify(), answer.mutable_classify());
    } else if (request.has_detect()) {
      answer.set_id(request.detect().id());
      status = Detect(context, &request.detect(), answer.mutable_detect());
    } else {
      answer.set_id(request.segment().id());
      status = Segment(context, &request.segment(), answer.mutable_segment());
    }
    if (!status.ok()) {
      answer.mutable_error()->set_code(status.error_code());
      answer.mutable_error()->set_message(status.error_message());
      if (status.error_code() == StatusCode::INVALID_ARGUMENT) {
        answer.mutable_error()->set_reason("image.unknown_format");
      }
    }
    if (request.timeout_us() == 1) {  // too short for anything
      answer.mutable_error()->set_code(StatusCode::DEADLINE_EXCEEDED);
    }
    return answer;
  }

  Status Answer(ServerContext* context, const fovea::v1::ClassifyRequest& request,
                fovea::v1::ClassifyResponse* response) {
    const FakeModel* model = Find(models_, request.model_name());
    if (model == nullptr) return NoSuchModel(request.model_name());
    response->set_model_name(model->name);
    response->set_model_version(model->version);
    response->set_id(request.id());
    response->set_attention(model->attention);
    response->set_untrained(model->untrained);
    for (const std::string& image : request.images()) {
      if (absl::StartsWith(image, "bad")) {
        context->AddTrailingMetadata("fovea-reason", "image.unknown_format");
        return {StatusCode::INVALID_ARGUMENT, "the image is no JPEG, PNG or WebP file"};
      }
      if (absl::StartsWith(image, "flaky")) {
        std::lock_guard lock(mutex_);
        if (++flaky_[model->name] <= 2) return {StatusCode::UNAVAILABLE, "the queue is full"};
      }
      if (absl::StartsWith(image, "busy")) return {StatusCode::UNAVAILABLE, "the queue is full"};
      if (absl::StartsWith(image, "slow")) {
        while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return {StatusCode::CANCELLED, "cancelled"};
      }
      auto* result = response->add_results();
      const size_t wanted = request.top_k() == 0 ? 5 : request.top_k();
      for (size_t i = 0; i < std::min(wanted, model->classes.size()); ++i) {
        auto* score = result->add_classes();
        score->set_index(model->classes[i].index);
        score->set_label(model->classes[i].label);
        score->set_confidence(model->classes[i].confidence);
        score->set_logit(4 * model->classes[i].confidence);
      }
    }
    auto* receipt = response->mutable_receipt();
    FillArm(*context, receipt);
    receipt->set_receive_ns(10'000);
    receipt->set_decode_ns(400'000);
    receipt->set_preprocess_ns(300'000);
    receipt->set_queue_ns(20'000);
    receipt->set_compute_ns(model->compute_ns);
    receipt->set_postprocess_ns(6'000);
    receipt->set_encode_ns(14'000);
    receipt->set_batch_size(model->batch_size);
    receipt->set_batch_threads(2);
    receipt->set_batch_peak_bytes(model->peak_bytes);
    return Status::OK;
  }

  const std::vector<FakeModel>& models_;
};

class FakeInference final : public inference::GRPCInferenceService::Service {
 public:
  explicit FakeInference(std::vector<FakeModel>& models) : models_(models) {}

  Status ServerLive(ServerContext*, const inference::ServerLiveRequest*,
                    inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return Status::OK;
  }

  Status ServerReady(ServerContext*, const inference::ServerReadyRequest*,
                     inference::ServerReadyResponse* response) override {
    response->set_ready(
        std::ranges::any_of(models_, [](const auto& model) { return model.state == "READY"; }));
    return Status::OK;
  }

  Status ModelReady(ServerContext*, const inference::ModelReadyRequest* request,
                    inference::ModelReadyResponse* response) override {
    response->set_ready(Find(models_, request->name()) != nullptr);
    return Status::OK;
  }

  Status RepositoryIndex(ServerContext*, const inference::RepositoryIndexRequest*,
                         inference::RepositoryIndexResponse* response) override {
    for (const FakeModel& model : models_) {
      auto* entry = response->add_models();
      entry->set_name(model.name);
      entry->set_version(model.version);
      entry->set_state(model.state);
      entry->set_reason(model.reason);
    }
    return Status::OK;
  }

  Status ModelMetadata(ServerContext*, const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override {
    const FakeModel* model = Find(models_, request->name());
    if (model == nullptr) return NoSuchModel(request->name());
    response->set_name(model->name);
    response->add_versions(model->version);
    auto* input = response->add_inputs();
    input->set_name("pixel_values");
    input->set_datatype("FP32");
    for (int64_t side : {-1, 3, 64, 64}) input->add_shape(side);
    auto* output = response->add_outputs();
    output->set_name("logits");
    output->set_datatype("FP32");
    output->add_shape(-1);
    output->add_shape(static_cast<int64_t>(model->classes.size()));
    if (!model->mask_runs.empty()) response->add_outputs()->set_name("masks");
    auto& properties = *response->mutable_properties();
    properties["fovea.task"] = model->task;
    properties["fovea.attention"] = model->attention;
    properties["fovea.backbone"] = "vit_demo_patch8_64";
    properties["fovea.precision"] = "FP32";
    if (model->untrained) properties["fovea.untrained"] = "true";
    return Status::OK;
  }

  // The sums of each input's bytes.
  Status ModelInfer(ServerContext* context, const inference::ModelInferRequest* request,
                    inference::ModelInferResponse* response) override {
    const FakeModel* model = Find(models_, request->model_name());
    if (model == nullptr) return NoSuchModel(request->model_name());
    response->set_model_name(model->name);
    response->set_model_version(model->version);
    response->set_id(request->id());
    for (int i = 0; i < request->inputs_size(); ++i) {
      auto* output = response->add_outputs();
      output->set_name("echo_of_" + request->inputs(i).name());
      output->set_datatype(request->inputs(i).datatype());
      *output->mutable_shape() = request->inputs(i).shape();
      response->add_raw_output_contents(request->raw_input_contents(i));
    }
    auto& parameters = *response->mutable_parameters();
    for (const char* stage :
         {"receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"}) {
      parameters[absl::StrCat("fovea.", stage, "_ns")].set_int64_param(1'000'000);
    }
    parameters["fovea.batch_size"].set_int64_param(4);
    parameters["fovea.batch_threads"].set_int64_param(1);
    parameters["fovea.batch_peak_bytes"].set_int64_param(1 << 20);
    fovea::v1::Receipt arm;
    FillArm(*context, &arm);
    if (!arm.experiment().empty()) {
      parameters["fovea.experiment"].set_string_param(arm.experiment());
      parameters["fovea.experiment_arm"].set_string_param(arm.experiment_arm());
    }
    return Status::OK;
  }

  Status ModelStatistics(ServerContext*, const inference::ModelStatisticsRequest* request,
                         inference::ModelStatisticsResponse* response) override {
    if (!request->name().empty() && Find(models_, request->name()) == nullptr) {
      return NoSuchModel(request->name());
    }
    for (const FakeModel& model : models_) {
      if (!request->name().empty() && model.name != request->name()) continue;
      auto* row = response->add_model_stats();
      row->set_name(model.name);
      row->set_version(model.version);
      row->set_inference_count(120);
      row->set_execution_count(48);
      auto* sums = row->mutable_inference_stats();
      sums->mutable_success()->set_count(100);
      sums->mutable_success()->set_ns(1'000'000'000);
      sums->mutable_fail()->set_count(2);
      sums->mutable_queue()->set_count(100);
      sums->mutable_queue()->set_ns(50'000'000);
      sums->mutable_compute_infer()->set_count(100);
      sums->mutable_compute_infer()->set_ns(800'000'000);
      auto* memory = row->add_memory_usage();
      memory->set_type("CPU");
      memory->set_byte_size(22 << 20);
    }
    return Status::OK;
  }

  Status RepositoryModelLoad(ServerContext*, const inference::RepositoryModelLoadRequest* request,
                             inference::RepositoryModelLoadResponse*) override {
    {
      std::lock_guard lock(mutex_);
      loaded_.push_back(request->model_name());
    }
    if (request->model_name() == "busy") return {StatusCode::UNAVAILABLE, "not now"};
    if (request->model_name() == "broken") {
      return {StatusCode::FAILED_PRECONDITION, "the weights lack 'head.bias'"};
    }
    return Status::OK;
  }

  Status RepositoryModelUnload(ServerContext*,
                               const inference::RepositoryModelUnloadRequest* request,
                               inference::RepositoryModelUnloadResponse*) override {
    return Find(models_, request->model_name()) ? Status::OK : NoSuchModel(request->model_name());
  }

  std::mutex mutex_;
  std::vector<std::string> loaded_;

 private:
  std::vector<FakeModel>& models_;
};

}  // namespace

struct FakeServer::Services {
  std::vector<FakeModel> models;
  FakeComparisons comparisons{models};
  FakeVision vision{models};
  FakeInference inference{models};
  std::unique_ptr<grpc::Server> server;
};

FakeServer::FakeServer(std::initializer_list<FakeModel> models) : services_(new Services) {
  services_->models = models;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&services_->vision);
  builder.RegisterService(&services_->inference);
  builder.RegisterService(&services_->comparisons);
  services_->server = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() { Stop(); }

std::vector<std::string> FakeServer::classified() const {
  std::lock_guard lock(services_->vision.mutex_);
  return services_->vision.classified_;
}

std::map<std::string, std::vector<absl::Time>> FakeServer::classified_at() const {
  std::lock_guard lock(services_->vision.mutex_);
  return services_->vision.classified_at_;
}

std::vector<fovea::v1::CompareRequest> FakeServer::compared() const {
  return services_->comparisons.compared();
}

std::vector<fovea::v1::SweepRequest> FakeServer::swept() const {
  return services_->comparisons.swept();
}

std::vector<std::string> FakeServer::loaded() const {
  std::lock_guard lock(services_->inference.mutex_);
  return services_->inference.loaded_;
}

int FakeServer::most_at_once() const {
  std::lock_guard lock(services_->vision.mutex_);
  return services_->vision.most_at_once_;
}

void FakeServer::WaitForCompany(int calls) {
  std::lock_guard lock(services_->vision.mutex_);
  services_->vision.company_ = calls;
}

void FakeServer::Stop() {
  services_->server->Shutdown(std::chrono::system_clock::now());
  services_->server->Wait();
}

}  // namespace fovea::client
