#include "server/transport/grpc/experiment_service.h"

#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/live_experiment.h"
#include "server/transport/grpc/unary_answer.h"
#include "server/transport/messages/experiment_messages.h"

namespace fovea {
namespace {

// A plan is longer than other messages without tensors: it names up to eight attentions.
absl::StatusOr<ExperimentPlan> ReadPlan(const grpc::ByteBuffer& buffer) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                         ReceiveMessage(buffer, limits::kMaxExperimentPlanBytes));
  v1::StartExperimentRequest message;
  if (!ParseControlMessage(bytes, &message)) return MalformedMessage();
  return ReadExperimentPlan(message.plan());
}

}  // namespace

grpc::ServerUnaryReactor* ExperimentService::StartExperiment(grpc::CallbackServerContext* call,
                                                             const grpc::ByteBuffer* message,
                                                             grpc::ByteBuffer* answer) {
  auto* reactor = new UnaryCall(context_, Method("StartExperiment"), call, answer);
  LiveExperiments* experiments = nullptr;
  ExperimentPlan plan;
  const absl::Status readable = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(reactor->Admit());
    FOVEA_ASSIGN_OR_RETURN(plan, ReadPlan(*message));
    FOVEA_ASSIGN_OR_RETURN(experiments, context_.api.Experiments());
    return absl::OkStatus();
  });
  ReleaseMessage(message);
  if (!readable.ok()) {
    reactor->Fail(readable);
    return reactor;
  }
  experiments->Start(std::move(plan), reactor->cancellation(),
                     [reactor](absl::StatusOr<LiveExperiment> experiment) {
                       if (!experiment.ok()) return reactor->Fail(experiment.status());
                       reactor->AnswerWith([&] { return ToMessage(*experiment); });
                     });
  return reactor;
}

grpc::ServerUnaryReactor* ExperimentService::GetExperiment(grpc::CallbackServerContext* call,
                                                           const grpc::ByteBuffer* message,
                                                           grpc::ByteBuffer* answer) {
  return AnswerAtOnce<v1::GetExperimentRequest, v1::Experiment>(
      context_, Method("GetExperiment"), call, message, answer,
      [this](const v1::GetExperimentRequest& request, v1::Experiment* response) -> absl::Status {
        FOVEA_ASSIGN_OR_RETURN(LiveExperiments * experiments, context_.api.Experiments());
        FOVEA_ASSIGN_OR_RETURN(const LiveExperiment experiment, experiments->Get(request.name()));
        *response = ToMessage(experiment);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ExperimentService::ListExperiments(grpc::CallbackServerContext* call,
                                                             const grpc::ByteBuffer* message,
                                                             grpc::ByteBuffer* answer) {
  return AnswerAtOnce<v1::ListExperimentsRequest, v1::ListExperimentsResponse>(
      context_, Method("ListExperiments"), call, message, answer,
      [this](const v1::ListExperimentsRequest&,
             v1::ListExperimentsResponse* response) -> absl::Status {
        FOVEA_ASSIGN_OR_RETURN(LiveExperiments * experiments, context_.api.Experiments());
        *response = ToMessage(experiments->List());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ExperimentService::StopExperiment(grpc::CallbackServerContext* call,
                                                            const grpc::ByteBuffer* message,
                                                            grpc::ByteBuffer* answer) {
  return AnswerAtOnce<v1::StopExperimentRequest, v1::Experiment>(
      context_, Method("StopExperiment"), call, message, answer,
      [this](const v1::StopExperimentRequest& request, v1::Experiment* response) -> absl::Status {
        FOVEA_ASSIGN_OR_RETURN(LiveExperiments * experiments, context_.api.Experiments());
        FOVEA_ASSIGN_OR_RETURN(const LiveExperiment experiment, experiments->Stop(request.name()));
        *response = ToMessage(experiment);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ExperimentService::DeleteExperiment(grpc::CallbackServerContext* call,
                                                              const grpc::ByteBuffer* message,
                                                              grpc::ByteBuffer* answer) {
  return AnswerAtOnce<v1::DeleteExperimentRequest, v1::DeleteExperimentResponse>(
      context_, Method("DeleteExperiment"), call, message, answer,
      [this](const v1::DeleteExperimentRequest& request,
             v1::DeleteExperimentResponse*) -> absl::Status {
        FOVEA_ASSIGN_OR_RETURN(LiveExperiments * experiments, context_.api.Experiments());
        return experiments->Delete(request.name());
      });
}

}  // namespace fovea
