#include "server/transport/grpc/oip_service.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "base/status.h"
#include "server/transport/grpc/infer_call.h"
#include "server/transport/grpc/load_codec.h"
#include "server/transport/grpc/unary_answer.h"
#include "server/transport/messages/model_messages.h"

namespace fovea {
namespace {

absl::StatusOr<LoadCall> ReceiveLoad(const grpc::ByteBuffer& buffer,
                                     const std::shared_ptr<RequestMemory>& memory) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes message,
                         ReceiveMessage(buffer, limits::kMaxLoadMessageBytes, memory.get()));
  FOVEA_ASSIGN_OR_RETURN(LoadCall call, ReadLoadRequest(message, *memory));
  call.memory = memory;
  return call;
}

LogControl::Value ToLogSetting(const inference::LogSettingsRequest::SettingValue& setting) {
  if (setting.has_bool_param()) return setting.bool_param();
  if (setting.has_uint32_param()) return setting.uint32_param();
  if (setting.has_string_param()) return setting.string_param();
  return std::monostate();
}

void FillLogSetting(const LogControl::Value& value,
                    inference::LogSettingsResponse::SettingValue* setting) {
  if (const auto* truth = std::get_if<bool>(&value)) setting->set_bool_param(*truth);
  if (const auto* number = std::get_if<uint32_t>(&value)) setting->set_uint32_param(*number);
  if (const auto* text = std::get_if<std::string>(&value)) setting->set_string_param(*text);
}

}  // namespace

OipService::Unary* OipService::ServerLive(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      context_, Method("ServerLive"), call, message, answer, [](const auto&, auto* response) {
        response->set_live(true);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ServerReady(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      context_, Method("ServerReady"), call, message, answer, [this](const auto&, auto* response) {
        response->set_ready(api_.serving());
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelReady(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      context_, Method("ModelReady"), call, message, answer,
      [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const bool ready,
                               api_.ModelReady(request.name(), request.version()));
        response->set_ready(ready);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ServerMetadata(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      context_, Method("ServerMetadata"), call, message, answer,
      [this](const auto&, auto* response) {
        FillServerMetadata(api_.Metadata(), response);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelMetadata(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      context_, Method("ModelMetadata"), call, message, answer,
      [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto model, api_.FindModel(request.name(), request.version()));
        FillMetadata(*model, response);
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelInfer(Call* call, const Buffer* message, Buffer* answer) {
  return StartInferCall(context_, kModelInfer, call, message, answer);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* OipService::ModelStreamInfer(
    Call* call) {
  return streams_.Start(context_, kModelStreamInfer, call);
}

OipService::Unary* OipService::ModelConfig(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      context_, Method("ModelConfig"), call, message, answer,
      [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto model, api_.FindModel(request.name(), request.version()));
        FillConfig(*model, response->mutable_config());
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::ModelStatistics(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      context_, Method("ModelStatistics"), call, message, answer,
      [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto models,
                               api_.Statistics(request.name(), request.version()));
        for (const auto& model : models) FillStatistics(model, response->add_model_stats());
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::RepositoryIndex(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerLater<inference::RepositoryIndexRequest, ServerApi::RepositoryIndex>(
      context_, Method("RepositoryIndex"), call, message, answer,
      [](const inference::RepositoryIndexRequest& request) {
        return IndexCall{.repository_name = request.repository_name(),
                         .ready_only = request.ready()};
      },
      [this](IndexCall asked, auto caller) {
        api_.ListRepository(std::move(asked), std::move(caller));
      },
      [](const std::vector<IndexEntry>& entries) {
        inference::RepositoryIndexResponse response;
        for (const IndexEntry& entry : entries) FillIndexEntry(entry, response.add_models());
        return response;
      });
}

OipService::Unary* OipService::RepositoryModelLoad(Call* call, const Buffer* message,
                                                   Buffer* answer) {
  return AnswerReceived<absl::Status>(
      context_, Method("RepositoryModelLoad"), call, message, answer, ReceiveLoad,
      [this](LoadCall asked, auto caller) { api_.LoadModel(std::move(asked), std::move(caller)); },
      [] { return inference::RepositoryModelLoadResponse(); });
}

OipService::Unary* OipService::RepositoryModelUnload(Call* call, const Buffer* message,
                                                     Buffer* answer) {
  return AnswerLater<inference::RepositoryModelUnloadRequest, absl::Status>(
      context_, Method("RepositoryModelUnload"), call, message, answer,
      [](const inference::RepositoryModelUnloadRequest& request) {
        return UnloadCall{.repository_name = request.repository_name(),
                          .model_name = request.model_name()};
      },
      [this](UnloadCall asked, auto caller) {
        api_.UnloadModel(std::move(asked), std::move(caller));
      },
      [] { return inference::RepositoryModelUnloadResponse(); });
}

// Generic clients ask for the status and unregister everything before they start, whether they use
// it or not.

OipService::Unary* OipService::SystemSharedMemoryStatus(Call* call, const Buffer* message,
                                                        Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryStatusRequest,
                      inference::SystemSharedMemoryStatusResponse>(
      context_, Method("SystemSharedMemoryStatus"), call, message, answer,
      [this](const auto& request, auto* response) {
        FOVEA_ASSIGN_OR_RETURN(const auto regions, api_.SharedMemoryStatus(request.name()));
        for (const auto& region : regions) {
          FillRegion(region, &(*response->mutable_regions())[region.name]);
        }
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::SystemSharedMemoryRegister(Call* call, const Buffer* message,
                                                          Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryRegisterRequest,
                      inference::SystemSharedMemoryRegisterResponse>(
      context_, Method("SystemSharedMemoryRegister"), call, message, answer,
      [this](const auto& request, auto*) {
        return api_.RegisterSharedMemory({.name = request.name(),
                                          .key = request.key(),
                                          .offset = request.offset(),
                                          .byte_size = request.byte_size()});
      });
}

OipService::Unary* OipService::SystemSharedMemoryUnregister(Call* call, const Buffer* message,
                                                            Buffer* answer) {
  return AnswerAtOnce<inference::SystemSharedMemoryUnregisterRequest,
                      inference::SystemSharedMemoryUnregisterResponse>(
      context_, Method("SystemSharedMemoryUnregister"), call, message, answer,
      [this](const auto& request, auto*) {
        api_.UnregisterSharedMemory(request.name());
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::CudaSharedMemoryStatus(Call* call, const Buffer* message,
                                                      Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryStatusRequest,
                      inference::CudaSharedMemoryStatusResponse>(
      context_, Method("CudaSharedMemoryStatus"), call, message, answer,
      [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::CudaSharedMemoryRegister(Call* call, const Buffer* message,
                                                        Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryRegisterRequest,
                      inference::CudaSharedMemoryRegisterResponse>(
      context_, Method("CudaSharedMemoryRegister"), call, message, answer,
      [](const auto&, auto*) { return ServerApi::RegisterCudaSharedMemory(); });
}

OipService::Unary* OipService::CudaSharedMemoryUnregister(Call* call, const Buffer* message,
                                                          Buffer* answer) {
  return AnswerAtOnce<inference::CudaSharedMemoryUnregisterRequest,
                      inference::CudaSharedMemoryUnregisterResponse>(
      context_, Method("CudaSharedMemoryUnregister"), call, message, answer,
      [](const auto&, auto*) { return absl::OkStatus(); });
}

OipService::Unary* OipService::TraceSetting(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::TraceSettingRequest, inference::TraceSettingResponse>(
      context_, Method("TraceSetting"), call, message, answer,
      [this](const auto& request, auto* response, const Caller& caller) {
        TraceControl::Values changes;
        for (const auto& [name, setting] : request.settings()) {
          changes[name].assign(setting.value().begin(), setting.value().end());
        }
        FOVEA_ASSIGN_OR_RETURN(const TraceControl::Values settings,
                               api_.ChangeTraceSettings(request.model_name(), changes, caller));
        for (const auto& [name, values] : settings) {
          auto& setting = (*response->mutable_settings())[name];
          for (const std::string& value : values) setting.add_value(value);
        }
        return absl::OkStatus();
      });
}

OipService::Unary* OipService::LogSettings(Call* call, const Buffer* message, Buffer* answer) {
  return AnswerAtOnce<inference::LogSettingsRequest, inference::LogSettingsResponse>(
      context_, Method("LogSettings"), call, message, answer,
      [this](const auto& request, auto* response, const Caller& caller) {
        LogControl::Values changes;
        for (const auto& [name, setting] : request.settings()) {
          changes[name] = ToLogSetting(setting);
        }
        FOVEA_ASSIGN_OR_RETURN(const LogControl::Values settings,
                               api_.ChangeLogSettings(changes, caller));
        for (const auto& [name, value] : settings) {
          FillLogSetting(value, &(*response->mutable_settings())[name]);
        }
        return absl::OkStatus();
      });
}

}  // namespace fovea
