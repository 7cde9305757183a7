// A served model, loaded once more to be explained: not prepared, so that its attention maps can be
// had, and differentiated. In plain data, without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/compare/held_lane.h"
#include "server/compare/variant_source.h"
#include "server/core/explanation.h"
#include "server/core/image_size.h"
#include "server/core/resized_image.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// What a query or a class gives to each patch, of each head: [heads, rows, columns].
struct PatchMap {
  std::string layer;  // empty: of all layers together
  int64_t heads = 1, rows = 0, columns = 0;
  std::vector<float> values;

  // Of one head; none: the mean over all of them.
  std::vector<float> Head(std::optional<int64_t> head) const;
};

struct ExplainedPass {
  std::vector<PatchMap> maps;  // of each layer that has weights
  std::optional<PatchMap> rollout, attribution, gradient_rollout;
  std::vector<MeasuredLayer> measures;
  std::optional<int> target_class;
  double probability = 0;
};

// Not thread-safe.
class ExplainedModel {
 public:
  // Loads on the calling thread, on the CPU and in FP32 whatever serves. `size` is one of
  // `of`'s. Errors as OpenVariantSource's; FAILED_PRECONDITION: the model and the attention do
  // not go together; UNAVAILABLE: out of memory.
  static absl::StatusOr<std::unique_ptr<ExplainedModel>> Load(const SourceModel& of,
                                                              const std::string& attention,
                                                              const ImageSize& size,
                                                              CancellationPtr cancellation);
  ~ExplainedModel();

  const std::string& attention() const { return attention_; }  // canonical text

  // What `request` asks for, of `image`, which was resized for the model, on `threads` threads. Its
  // place lies in what the model sees, its class is one of the model's. `max_bytes`: of the maps.
  // In parts of `lane`, each of some of the blocks. FAILED_PRECONDITION explain.unfit;
  // RESOURCE_EXHAUSTED explain.too_large; CANCELLED; UNAVAILABLE: out of memory.
  absl::StatusOr<ExplainedPass> Run(const ResizedImage& image, const ExplainRequest& request,
                                    int64_t max_bytes, int threads, HeldLane& lane) const;

 private:
  absl::StatusOr<ExplainedPass> RunInParts(const ResizedImage& image, const ExplainRequest& request,
                                           int64_t max_bytes, int threads,
                                           HeldLane::Parts& parts) const;

  struct Zoo;  // LibTorch's
  ExplainedModel();

  VariantSource source_;
  std::string attention_;
  std::unique_ptr<Zoo> zoo_;
};

}  // namespace fovea
