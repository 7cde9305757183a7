#include "client/cpp/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/comparison_wire.h"
#include "client/cpp/connection.h"
#include "client/cpp/experiment_wire.h"
#include "client/cpp/explanation_wire.h"
#include "client/cpp/no_connection.h"
#include "client/cpp/retry.h"
#include "client/cpp/sweep_wire.h"
#include "client/cpp/wire_types.h"
#include "proto/fovea/v1/comparison.grpc.pb.h"
#include "proto/fovea/v1/experiment.grpc.pb.h"
#include "proto/fovea/v1/vision.grpc.pb.h"
#include "proto/inference/inference.grpc.pb.h"

namespace fovea::client {
namespace {

constexpr int kMostAttempts = 5;  // gRPC's own bound

// gRPC's own, of targets (grpc/doc/naming.md).
constexpr const char* kSchemes[] = {"dns",           "ipv4",  "ipv6", "unix",
                                    "unix-abstract", "vsock", "xds",  "google-c2p"};

// HOST:PORT and [IPV6]:PORT are checked here, because gRPC would take any text for a host and look
// for it, URLs among them.
absl::Status CheckAddress(const std::string& address) {
  const std::string scheme = address.substr(0, address.find(':'));
  const bool with_path = address.find('/') != std::string::npos;
  if (with_path && std::ranges::find(kSchemes, scheme) != std::end(kSchemes)) {
    return absl::OkStatus();
  }
  const std::string url = scheme + "://";
  if (absl::StartsWith(address, url)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no server address: write HOST:PORT without '", url,
                     "', for example 127.0.0.1:8001"));
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool has_port = colon != std::string::npos && colon > 0 &&
                        absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 &&
                        port <= 65535;
  const bool bare_ipv6 = has_port && address.find(':') != colon && address[0] != '[';
  if (!has_port || bare_ipv6 || with_path) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is no server address: write HOST:PORT, for example 127.0.0.1:8001"));
  }
  return absl::OkStatus();
}

}  // namespace

struct Client::Wire {
  Wire(std::string address, const std::shared_ptr<grpc::Channel>& channel, std::string api_key)
      : connection(std::move(address), channel, std::move(api_key)),
        oip(channel),
        vision(channel),
        comparison(channel),
        experiment(channel) {}

  // Makes one call. `call` gets the context and returns gRPC's status; `what` names the call for an
  // error.
  template <typename Call>
  absl::Status Make(const char* what, const CallOptions& options, Call call) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(options.timeout));
    if (absl::Status added = AddExperimentKey(options.experiment_key, context); !added.ok()) {
      return added;
    }
    if (!connection.Begin(context)) return Stopped();
    const grpc::Status status = call(context);
    connection.End(context);
    return connection.Outcome(what, options.timeout, status, context);
  }

  template <typename Response, typename Answer, typename Request, typename Call>
  absl::StatusOr<Response> Ask(const char* what, const Request& request, const CallOptions& options,
                               Call call);

  template <typename Request, typename Call>
  absl::StatusOr<Experiment> AskForExperiment(const char* what, const Request& request,
                                              const CallOptions& options, Call call);

  Connection connection;
  inference::GRPCInferenceService::Stub oip;
  fovea::v1::VisionService::Stub vision;
  fovea::v1::ComparisonService::Stub comparison;
  fovea::v1::ExperimentService::Stub experiment;
};

Client::Client(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ConnectOptions& options) {
  if (absl::Status status = CheckAddress(address); !status.ok()) return status;
  if (options.tls_certificate.empty() != options.tls_key.empty() ||
      (options.tls_ca.empty() && !options.tls_key.empty())) {
    return absl::InvalidArgumentError(
        "a certificate needs its key, and the issuers of the server's certificate");
  }
  if (options.max_attempts < 1 || options.max_attempts > kMostAttempts) {
    return absl::InvalidArgumentError(absl::StrCat("max_attempts is ", options.max_attempts,
                                                   ": it must be in [1, ", kMostAttempts, "]"));
  }
  grpc::ChannelArguments arguments;
  const int64_t max_int = std::numeric_limits<int>::max();
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::min(options.max_message_bytes, max_int)));
  arguments.SetMaxSendMessageSize(-1);  // the server has its own limit, and says so better
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetServiceConfigJSON(ServiceConfig(options.max_attempts, options.balance));
  // A call that holds more than this is not made again: by default one picture would be too much.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, std::numeric_limits<int>::max());
  const auto credentials = options.tls_ca.empty()
                               ? grpc::InsecureChannelCredentials()
                               : grpc::SslCredentials({.pem_root_certs = options.tls_ca,
                                                       .pem_private_key = options.tls_key,
                                                       .pem_cert_chain = options.tls_certificate});
  auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  const auto deadline = DeadlineIn(options.timeout);
  for (grpc_connectivity_state state = channel->GetState(true); state != GRPC_CHANNEL_READY;
       state = channel->GetState(true)) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN ||
        !channel->WaitForStateChange(state, deadline)) {
      return Unreachable(WhyNoConnection(address));
    }
  }
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Wire>(address, channel, options.api_key)));
}

// `call` is the stub's. Every image has a result.
template <typename Response, typename Answer, typename Request, typename Call>
absl::StatusOr<Response> Client::Wire::Ask(const char* what, const Request& request,
                                           const CallOptions& options, Call call) {
  const auto message = ToWire(request);
  Answer answer;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = Make(what, options, [&](grpc::ClientContext& context) {
    return (vision.*call)(&context, message, &answer);
  });
  const auto end = std::chrono::steady_clock::now();
  if (!status.ok()) return status;
  if (answer.results_size() != message.images_size()) {
    return absl::InternalError(absl::StrCat("the server answered ", answer.results_size(),
                                            " results to ", message.images_size(), " images"));
  }
  absl::StatusOr<Response> response = FromWire(std::move(answer));
  if (response.ok()) response->round_trip = absl::FromChrono(end - start);
  return response;
}

absl::StatusOr<ClassifyResponse> Client::Classify(const ClassifyRequest& request,
                                                  const CallOptions& options) {
  return wire_->Ask<ClassifyResponse, fovea::v1::ClassifyResponse>(
      "fovea.v1.VisionService.Classify", request, options,
      &fovea::v1::VisionService::Stub::Classify);
}

absl::StatusOr<DetectResponse> Client::Detect(const DetectRequest& request,
                                              const CallOptions& options) {
  return wire_->Ask<DetectResponse, fovea::v1::DetectResponse>(
      "fovea.v1.VisionService.Detect", request, options, &fovea::v1::VisionService::Stub::Detect);
}

absl::StatusOr<SegmentResponse> Client::Segment(const SegmentRequest& request,
                                                const CallOptions& options) {
  auto response = wire_->Ask<SegmentResponse, fovea::v1::SegmentResponse>(
      "fovea.v1.VisionService.Segment", request, options, &fovea::v1::VisionService::Stub::Segment);
  if (response.ok() && request.confidence) {
    for (const ImageSegmentation& image : response->images) {
      if (image.confidence.empty()) return absl::InternalError("the server gave no confidence");
    }
  }
  return response;
}

absl::StatusOr<std::unique_ptr<ImageStream>> Client::StreamImages(const StreamOptions& options) {
  return ImageStream::Open(wire_->connection, options);
}

absl::StatusOr<Comparison> Client::Compare(
    const CompareRequest& request, const std::function<void(const MeasuringProgress&)>& progress,
    const CallOptions& options) {
  const fovea::v1::CompareRequest message = ToWire(request);
  std::optional<fovea::v1::Comparison> outcome;
  const absl::Status status =
      wire_->Make("fovea.v1.ComparisonService.Compare", options, [&](grpc::ClientContext& context) {
        const auto stream = wire_->comparison.Compare(&context, message);
        fovea::v1::CompareResponse response;
        while (stream->Read(&response)) {
          if (response.has_comparison()) outcome = std::move(*response.mutable_comparison());
          if (response.has_progress() && progress) progress(FromWire(response.progress()));
        }
        return stream->Finish();
      });
  if (!status.ok()) return status;
  if (!outcome) return absl::InternalError("the server ended without a comparison");
  return FromWire(*outcome);
}

absl::StatusOr<fovea::client::Sweep> Client::Sweep(
    const SweepRequest& request, const std::function<void(const MeasuringProgress&)>& progress,
    const CallOptions& options) {
  const fovea::v1::SweepRequest message = ToWire(request);
  std::optional<fovea::v1::Sweep> outcome;
  const absl::Status status =
      wire_->Make("fovea.v1.ComparisonService.Sweep", options, [&](grpc::ClientContext& context) {
        const auto stream = wire_->comparison.Sweep(&context, message);
        fovea::v1::SweepResponse response;
        while (stream->Read(&response)) {
          if (response.has_sweep()) outcome = std::move(*response.mutable_sweep());
          if (response.has_progress() && progress) progress(FromWire(response.progress()));
        }
        return stream->Finish();
      });
  if (!status.ok()) return status;
  if (!outcome) return absl::InternalError("the server ended without a sweep");
  return FromWire(*outcome);
}

absl::StatusOr<Explanation> Client::Explain(const ExplainRequest& request,
                                            const CallOptions& options) {
  const fovea::v1::ExplainRequest message = ToWire(request);
  fovea::v1::Explanation answer;
  const absl::Status status =
      wire_->Make("fovea.v1.ComparisonService.Explain", options, [&](grpc::ClientContext& context) {
        return wire_->comparison.Explain(&context, message, &answer);
      });
  if (!status.ok()) return status;
  return FromWire(std::move(answer));
}

// `call` is the stub's.
template <typename Request, typename Call>
absl::StatusOr<Experiment> Client::Wire::AskForExperiment(const char* what, const Request& request,
                                                          const CallOptions& options, Call call) {
  fovea::v1::Experiment answer;
  const absl::Status status = Make(what, options, [&](grpc::ClientContext& context) {
    return (experiment.*call)(&context, request, &answer);
  });
  if (!status.ok()) return status;
  return FromWire(answer);
}

absl::StatusOr<Experiment> Client::StartExperiment(const ExperimentPlan& plan,
                                                   const CallOptions& options) {
  fovea::v1::StartExperimentRequest request;
  *request.mutable_plan() = ToWire(plan);
  return wire_->AskForExperiment("fovea.v1.ExperimentService.StartExperiment", request, options,
                                 &fovea::v1::ExperimentService::Stub::StartExperiment);
}

absl::StatusOr<Experiment> Client::GetExperiment(const std::string& name,
                                                 const CallOptions& options) {
  fovea::v1::GetExperimentRequest request;
  request.set_name(name);
  return wire_->AskForExperiment("fovea.v1.ExperimentService.GetExperiment", request, options,
                                 &fovea::v1::ExperimentService::Stub::GetExperiment);
}

absl::StatusOr<std::vector<Experiment>> Client::ListExperiments(const CallOptions& options) {
  fovea::v1::ListExperimentsResponse answer;
  const absl::Status status = wire_->Make(
      "fovea.v1.ExperimentService.ListExperiments", options, [&](grpc::ClientContext& context) {
        return wire_->experiment.ListExperiments(&context, {}, &answer);
      });
  if (!status.ok()) return status;
  std::vector<Experiment> experiments;
  for (const auto& message : answer.experiments()) {
    absl::StatusOr<Experiment> experiment = FromWire(message);
    if (!experiment.ok()) return experiment.status();
    experiments.push_back(*std::move(experiment));
  }
  return experiments;
}

absl::StatusOr<Experiment> Client::StopExperiment(const std::string& name,
                                                  const CallOptions& options) {
  fovea::v1::StopExperimentRequest request;
  request.set_name(name);
  return wire_->AskForExperiment("fovea.v1.ExperimentService.StopExperiment", request, options,
                                 &fovea::v1::ExperimentService::Stub::StopExperiment);
}

absl::Status Client::DeleteExperiment(const std::string& name, const CallOptions& options) {
  fovea::v1::DeleteExperimentRequest request;
  request.set_name(name);
  fovea::v1::DeleteExperimentResponse response;
  return wire_->Make("fovea.v1.ExperimentService.DeleteExperiment", options,
                     [&](grpc::ClientContext& context) {
                       return wire_->experiment.DeleteExperiment(&context, request, &response);
                     });
}

absl::StatusOr<InferResponse> Client::Infer(const InferRequest& request,
                                            const CallOptions& options) {
  const inference::ModelInferRequest message = ToWire(request);
  inference::ModelInferResponse answer;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = wire_->Make("ModelInfer", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ModelInfer(&context, message, &answer);
  });
  const auto end = std::chrono::steady_clock::now();
  if (!status.ok()) return status;
  absl::StatusOr<InferResponse> response = FromWire(std::move(answer));
  if (response.ok()) response->round_trip = absl::FromChrono(end - start);
  return response;
}

void Client::Stop() { wire_->connection.Stop(); }

absl::StatusOr<std::vector<ModelInfo>> Client::Index(const CallOptions& options) {
  inference::RepositoryIndexResponse index;
  absl::Status status = wire_->Make("RepositoryIndex", options, [&](grpc::ClientContext& context) {
    return wire_->oip.RepositoryIndex(&context, {}, &index);
  });
  if (!status.ok()) return status;
  std::vector<ModelInfo> models;
  for (const auto& entry : index.models()) {
    ModelInfo model;
    model.name = entry.name();
    model.version = entry.version();
    model.state = entry.state();
    model.reason = entry.reason();
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<std::vector<ModelInfo>> Client::Models(const CallOptions& options) {
  auto models = Index(options);
  if (!models.ok()) return models.status();
  for (ModelInfo& model : *models) {
    if (model.ready()) {
      absl::StatusOr<ModelInfo> ready = Model({model.name, model.version}, options);
      if (ready.ok()) {
        model = *std::move(ready);
      } else if (absl::IsNotFound(ready.status()) || absl::IsUnavailable(ready.status())) {
        // Unloaded since the index was made, unless the server is gone.
        if (IsUnreachable(ready.status())) return ready.status();
        model.state = "UNAVAILABLE";
        model.reason = std::string(ready.status().message());
      } else {
        return ready.status();
      }
    }
  }
  return models;
}

absl::StatusOr<ModelInfo> Client::Model(const ModelId& model, const CallOptions& options) {
  inference::ModelMetadataRequest request;
  request.set_name(model.name);
  request.set_version(model.version);
  inference::ModelMetadataResponse metadata;
  absl::Status status = wire_->Make("ModelMetadata", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ModelMetadata(&context, request, &metadata);
  });
  if (!status.ok()) return status;
  ModelInfo info;
  info.name = model.name;
  info.version = model.version;
  if (info.version.empty() && metadata.versions_size() > 0) {
    info.version = metadata.versions(metadata.versions_size() - 1);
  }
  info.state = "READY";
  AddMetadata(metadata, info);
  return info;
}

absl::Status Client::Load(const std::string& model, const std::string& config,
                          const CallOptions& options) {
  inference::RepositoryModelLoadRequest request;
  request.set_model_name(model);
  if (!config.empty()) (*request.mutable_parameters())["config"].set_string_param(config);
  inference::RepositoryModelLoadResponse response;
  return wire_->Make("RepositoryModelLoad", options, [&](grpc::ClientContext& context) {
    return wire_->oip.RepositoryModelLoad(&context, request, &response);
  });
}

absl::Status Client::Unload(const std::string& model, const CallOptions& options) {
  inference::RepositoryModelUnloadRequest request;
  request.set_model_name(model);
  inference::RepositoryModelUnloadResponse response;
  return wire_->Make("RepositoryModelUnload", options, [&](grpc::ClientContext& context) {
    return wire_->oip.RepositoryModelUnload(&context, request, &response);
  });
}

absl::StatusOr<std::vector<ModelStatistics>> Client::Statistics(const ModelId& model,
                                                                const CallOptions& options) {
  inference::ModelStatisticsRequest request;
  request.set_name(model.name);
  request.set_version(model.version);
  inference::ModelStatisticsResponse response;
  absl::Status status = wire_->Make("ModelStatistics", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ModelStatistics(&context, request, &response);
  });
  if (!status.ok()) return status;
  std::vector<ModelStatistics> statistics;
  for (const auto& message : response.model_stats()) statistics.push_back(FromWire(message));
  return statistics;
}

absl::StatusOr<ServerHealth> Client::Health(const CallOptions& options) {
  inference::ServerLiveResponse live;
  inference::ServerReadyResponse ready;
  absl::Status status = wire_->Make("ServerLive", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ServerLive(&context, {}, &live);
  });
  if (!status.ok()) return status;
  status = wire_->Make("ServerReady", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ServerReady(&context, {}, &ready);
  });
  if (!status.ok()) return status;
  return ServerHealth{live.live(), ready.ready()};
}

absl::StatusOr<bool> Client::Ready(const ModelId& model, const CallOptions& options) {
  inference::ModelReadyRequest request;
  request.set_name(model.name);
  request.set_version(model.version);
  inference::ModelReadyResponse response;
  absl::Status status = wire_->Make("ModelReady", options, [&](grpc::ClientContext& context) {
    return wire_->oip.ModelReady(&context, request, &response);
  });
  if (!status.ok()) return status;
  return response.ready();
}

}  // namespace fovea::client
