// Walks a request through the stages behind the transport: admission, imaging, the scheduler, the
// executor, postprocessing. See ARCHITECTURE.md, "Life of a request".
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/core/inference_service.h"
#include "server/imaging/imaging_pool.h"
#include "server/imaging/preprocess.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// Thread-safe. Outlived by what it was given.
class InferencePipeline final : public InferenceService {
 public:
  // A handle to a ready model, which stays loaded while the handle lives. See ModelCatalog::Find
  // for the errors.
  using FindModel = std::function<absl::StatusOr<std::shared_ptr<const ServedModel>>(
      std::string_view name, std::string_view version)>;

  InferencePipeline(FindModel find_model, ImagingPool& imaging, Clock& clock)
      : find_model_(std::move(find_model)), imaging_(imaging), clock_(clock) {}

  void Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) override;

 private:
  struct Admitted;  // a request with its model, its place in the queue and its caller
  // Everything that can be refused at once; afterwards the request has its place in the queue.
  absl::Status Admit(Admitted& admitted);
  void DecodeThenPutInLine(std::unique_ptr<Admitted> admitted);
  void PutInLine(std::unique_ptr<Admitted> admitted, PixelSource pixels);

  const FindModel find_model_;
  ImagingPool& imaging_;
  Clock& clock_;
  const ImagingOptions imaging_options_;
};

}  // namespace fovea
