#include "server/pipeline/unserved_model.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "server/pipeline/model_options.h"
#include "server/pipeline/model_view.h"

namespace fovea {
namespace {

class UnservedModel final : public Servable {
 public:
  explicit UnservedModel(ModelView view)
      : view_(std::make_shared<const ModelView>(std::move(view))) {}

  const std::shared_ptr<const ModelView>& view() const override { return view_; }
  void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) const override {}

 private:
  void Take(std::shared_ptr<const ServingModel>, std::unique_ptr<InferenceRequest>,
            InferenceCallback) const override {
    FOVEA_CHECK(false);  // nobody has a way to it
  }

  const std::shared_ptr<const ModelView> view_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Servable>> BuildUnservedModel(
    const VersionToLoad& model, const ServedModel::Environment& environment) {
  FOVEA_ASSIGN_OR_RETURN(const LaneArrangement arrangement, ArrangementOf(model, environment));
  FOVEA_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<LaneDevice>> devices,
                         DevicesOf(arrangement, environment));
  FOVEA_ASSIGN_OR_RETURN(
      const models::ModelInfo info,
      BatchExecutor::TryLoad(ExecutorOptions(model, arrangement, environment), *devices.front()));
  FOVEA_RETURN_IF_ERROR(CheckPreprocessSpec(
      ImagingSpec(info, model.spec.preprocessing.AppliedTo(info.preprocessing))));
  return std::make_shared<UnservedModel>(DescribeServedModel(model, info, devices.front()->name()));
}

}  // namespace fovea
