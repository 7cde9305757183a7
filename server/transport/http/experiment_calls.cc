#include "server/transport/http/experiment_calls.h"

#include <google/protobuf/util/json_util.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/live_experiment.h"
#include "server/transport/http/message_json.h"
#include "server/transport/messages/experiment_messages.h"

namespace fovea {
namespace {

absl::StatusOr<ExperimentPlan> ReadPlan(const PathCall& call) {
  FOVEA_ASSIGN_OR_RETURN(const nlohmann::json body,
                         ReadObject(call, limits::kMaxExperimentPlanBytes));
  v1::ExperimentPlan message;
  const auto read = google::protobuf::util::JsonStringToMessage(body.dump(), &message);
  if (!read.ok()) {
    return InvalidArgument("request.json",
                           "the body is no plan of an experiment: it has a field that is not "
                           "known, or a value of another kind than its field's");
  }
  return ReadExperimentPlan(message);
}

// Answers with what `ask` has of the server's experiments, where it has any.
template <typename Ask>
void AnswerWith(const PathCall& call, Ask ask) {
  const absl::StatusOr<LiveExperiments*> experiments = call.api().Experiments();
  if (!experiments.ok()) return call.Answer(experiments.status());
  call.Answer(ask(**experiments));
}

absl::StatusOr<std::string> Told(const absl::StatusOr<LiveExperiment>& experiment) {
  if (!experiment.ok()) return experiment.status();
  return ToJson(ToMessage(*experiment));
}

}  // namespace

namespace http_calls {

void StartExperiment(PathCall call) {
  const absl::StatusOr<LiveExperiments*> experiments = call.api().Experiments();
  if (!experiments.ok()) return call.Answer(experiments.status());
  absl::StatusOr<ExperimentPlan> plan = ReadPlan(call);
  if (!plan.ok()) return call.Answer(plan.status());
  const auto cancellation = std::make_shared<Cancellation>();
  call.exchange->OnGone([cancellation] { cancellation->Cancel(); });
  (*experiments)
      ->Start(*std::move(plan), cancellation,
              [call](absl::StatusOr<LiveExperiment> experiment) { call.Answer(Told(experiment)); });
}

void ListExperiments(PathCall call) {
  AnswerWith(call, [](const LiveExperiments& experiments) -> absl::StatusOr<std::string> {
    return ToJson(ToMessage(experiments.List()));
  });
}

void GetExperiment(PathCall call) {
  AnswerWith(call, [&](const LiveExperiments& experiments) {
    return Told(experiments.Get(call.Name(0)));
  });
}

void StopExperiment(PathCall call) {
  const auto body = ReadObject(call, limits::kMaxControlMessageBytes);
  if (!body.ok()) return call.Answer(body.status());
  AnswerWith(call,
             [&](LiveExperiments& experiments) { return Told(experiments.Stop(call.Name(0))); });
}

void DeleteExperiment(PathCall call) {
  AnswerWith(call, [&](LiveExperiments& experiments) -> absl::StatusOr<std::string> {
    FOVEA_RETURN_IF_ERROR(experiments.Delete(call.Name(0)));
    return "{}";
  });
}

}  // namespace http_calls
}  // namespace fovea
