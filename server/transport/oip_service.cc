#include "server/transport/oip_service.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/core/server_stopping.h"
#include "server/transport/control_message.h"
#include "server/transport/infer_call.h"
#include "server/transport/model_messages.h"
#include "server/transport/unary_answer.h"

namespace fovea {
namespace {

// What is true of this server, in Triton's words (its extensions of the protocol). Absent:
// sequences, shared memory, traces and logs, which it does not have, and binary_tensor_data, which
// is about HTTP.
constexpr const char* kExtensions[] = {"classification", "model_configuration", "model_repository",
                                       "schedule_policy", "statistics"};

absl::Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return Unimplemented("repository.name", "repositories cannot be chosen by name");
}

// The only parameter of a load that is known: "config", JSON of a ModelConfig.
absl::StatusOr<std::string> ConfigOverride(const inference::RepositoryModelLoadRequest& request) {
  std::string config;
  for (const auto& [key, value] : request.parameters()) {
    if (absl::StartsWith(key, "file:")) {
      return Unimplemented("repository.file_override",
                           "models are loaded from the repository, not from the caller's files");
    }
    if (key != "config" || !value.has_string_param()) {
      return InvalidArgument("repository.parameter",
                             absl::StrCat("unknown load parameter ", InQuotes(key)));
    }
    config = value.string_param();
  }
  return config;
}

absl::Status NoSharedMemory() {
  return Unimplemented("request.shared_memory", "shared memory is not supported by this server");
}

}  // namespace

OipService::OipService(TransportContext& context, std::string server_version)
    : context_(context),
      server_version_(std::move(server_version)),
      loads_(limits::kRepositoryCallThreads, limits::kMaxPendingLoads),
      unloads_(limits::kRepositoryCallThreads, limits::kMaxPendingLoads),
      listings_(1, limits::kMaxPendingIndexes) {}

void OipService::GiveUpListings() { listings_.calls.GiveUp(ServerStopping()); }

OipService::Unary* OipService::ServerLive(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      context_.memory, call, message, answer, [](const auto&, auto* response) {
        response->set_live(true);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ServerReady(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      context_.memory, call, message, answer, [this](const auto&, auto* response) {
        response->set_ready(context_.serving);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelReady(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      context_.memory, call, message, answer, [this](const auto& request, auto* response) {
        const absl::Status found =
            context_.catalog.Find(request.name(), request.version()).status();
        response->set_ready(found.ok());
        // That a model is unknown or still loading is an answer; that it can have no such name is a
        // mistake.
        return absl::IsInvalidArgument(found) ? found : absl::OkStatus();
      });
}

OipService::Unary* OipService::ServerMetadata(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      context_.memory, call, message, answer, [this](const auto&, auto* response) {
        response->set_name("fovea");
        response->set_version(server_version_);
        for (const char* extension : kExtensions) response->add_extensions(extension);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelMetadata(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      context_.memory, call, message, answer, [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto model,
                               context_.catalog.Find(request.name(), request.version()));
        FillMetadata(*model, response);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelInfer(Call* call, const Buffer* message, Buffer* answer) {
  return StartInferCall(context_, kModelInfer, call, message, answer);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* OipService::ModelStreamInfer(
    Call* call) {
  return streams_.Start(context_, call);
}

OipService::Unary* OipService::ModelConfig(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      context_.memory, call, message, answer, [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto model,
                               context_.catalog.Find(request.name(), request.version()));
        FillConfig(*model, response->mutable_config());
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelStatistics(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      context_.memory, call, message, answer, [this](const auto& request, auto* response) {
        // The catalog knows which names no model can have; the counters know which have counted.
        if (!request.name().empty()) {
          const absl::Status found =
              context_.catalog.Find(request.name(), request.version()).status();
          if (absl::IsInvalidArgument(found)) return found;
        }
        FOVEA_ASSIGN_OR_RETURN(const auto models,
                               context_.statistics.Statistics(request.name(), request.version()));
        for (const auto& model : models) FillStatistics(model, response->add_model_stats());
        return absl::OkStatus();
      });
}

template <typename Request, typename Response, typename Handle>
OipService::Unary* OipService::AnswerDeferred(Deferred& deferred, Call* call, const Buffer* message,
                                              Buffer* answer, Handle handle, int64_t max_bytes) {
  auto* reactor = new UnaryCall(context_.memory, call, answer);
  Request request;
  const absl::Status readable = OrOutOfMemory([&] {
    return max_bytes <= limits::kMaxControlMessageBytes
               ? ReadControlMessage(*message, &request)
               : ReadLongControlMessage(*message, max_bytes, reactor->memory(), &request);
  });
  ReleaseMessage(message);
  if (!readable.ok()) {
    reactor->Fail(readable);
    return reactor;
  }
  const std::optional<uint64_t> number = deferred.calls.Add(reactor);
  if (!number) return reactor;
  const bool taken =
      deferred.threads.Run([this, &deferred, number, handle, request = std::move(request)] {
        if (!deferred.calls.Awaited(*number)) return;
        Response response;
        absl::Status status = OrOutOfMemory([&]() -> absl::Status {
          return context_.gate.closed() ? ServerStopping() : handle(request, &response);
        });
        deferred.calls.Answer(*number, std::move(status), response);
      });
  if (!taken) {
    deferred.calls.Answer(
        *number, Unavailable("repository.busy", "too many calls wait for the model repository"),
        Response());
  }
  return reactor;
}

OipService::Unary* OipService::RepositoryIndex(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerDeferred<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      listings_, call, message, answer,
      [this](const inference::RepositoryIndexRequest& request, auto* response) {
        FOVEA_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
        for (const IndexEntry& entry : context_.catalog.Index()) {
          if (request.ready() && entry.state != ModelState::kReady) continue;
          FillIndexEntry(entry, response->add_models());
        }
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::RepositoryModelLoad(Call* call, const Buffer* message,
                                                   Buffer* answer) {
  return AnswerDeferred<inference::RepositoryModelLoadRequest,
                        inference::RepositoryModelLoadResponse>(
      loads_, call, message, answer,
      [this](const inference::RepositoryModelLoadRequest& request, auto*) {
        FOVEA_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
        FOVEA_ASSIGN_OR_RETURN(const std::string config, ConfigOverride(request));
        return context_.catalog.Load(request.model_name(), config);
      },
      limits::kMaxLoadMessageBytes);
}

OipService::Unary* OipService::RepositoryModelUnload(Call* call, const Buffer* message,
                                                     Buffer* answer) {
  return AnswerDeferred<inference::RepositoryModelUnloadRequest,
                        inference::RepositoryModelUnloadResponse>(
      unloads_, call, message, answer,
      [this](const inference::RepositoryModelUnloadRequest& request, auto*) {
        FOVEA_RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
        return context_.catalog.Unload(request.model_name());
      });
}

// Generic clients ask for the status and unregister everything before they start, whether they use
// it or not.

OipService::Unary* OipService::SystemSharedMemoryStatus(Call* call, const Buffer* message,
                                                        Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryStatusRequest,
                      inference::SystemSharedMemoryStatusResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::SystemSharedMemoryRegister(Call* call, const Buffer* message,
                                                          Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryRegisterRequest,
                      inference::SystemSharedMemoryRegisterResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return NoSharedMemory(); });
}

OipService::Unary* OipService::SystemSharedMemoryUnregister(Call* call, const Buffer* message,
                                                            Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryUnregisterRequest,
                      inference::SystemSharedMemoryUnregisterResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::CudaSharedMemoryStatus(Call* call, const Buffer* message,
                                                      Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryStatusRequest,
                      inference::CudaSharedMemoryStatusResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::CudaSharedMemoryRegister(Call* call, const Buffer* message,
                                                        Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryRegisterRequest,
                      inference::CudaSharedMemoryRegisterResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return NoSharedMemory(); });
}

OipService::Unary* OipService::CudaSharedMemoryUnregister(Call* call, const Buffer* message,
                                                          Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryUnregisterRequest,
                      inference::CudaSharedMemoryUnregisterResponse>(
      context_.memory, call, message, answer, [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::TraceSetting(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::TraceSettingRequest, inference::TraceSettingResponse>(
      context_.memory, call, message, answer,
      [](const auto& request, auto* response) -> absl::Status {
        if (!request.settings().empty()) {
          return Unimplemented("server.trace_settings", "traces are not supported by this server");
        }
        (*response->mutable_settings())["trace_level"].add_value("OFF");
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::LogSettings(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::LogSettingsRequest, inference::LogSettingsResponse>(
      context_.memory, call, message, answer, [](const auto& request, auto*) -> absl::Status {
        if (request.settings().empty()) return absl::OkStatus();
        return Unimplemented("server.log_settings",
                             "log settings are given when the server is started");
      });
}

}  // namespace fovea
