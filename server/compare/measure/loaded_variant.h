// A served model, loaded once more to be measured: with its own attention or another over the same
// weights, at the sizes and for the batch of one comparison.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/attention/attention_time.h"
#include "server/compare/held_lane.h"
#include "server/compare/variant_source.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/core/resized_image.h"
#include "server/executor/batch_executor.h"
#include "server/imaging/resize_plan.h"
#include "server/pipeline/served_model.h"
#include "server/postprocess/postprocessor.h"

namespace fovea {

struct LoadedVariantOptions {
  std::string attention;      // empty: the model's own
  std::vector<size_t> sizes;  // of ModelView::sizes, that it is to run at; not empty
  // Instead of them: one size, at which the model may not be served. `sizes` is {0} then.
  std::optional<models::ImageSize> size;
  std::optional<models::Precision> precision;  // none: the model's own
  int batch_size = 1;
  int threads = 1;
  int64_t max_bytes = std::numeric_limits<int64_t>::max();  // that weights and a batch may hold
  Nanos give_up_at = kNever;                                // ends the load, steady time
};

// Not thread-safe.
class LoadedVariant {
 public:
  // Loads and warms up, on the calling thread, beside what serves. What `environment` names
  // outlives it. FAILED_PRECONDITION: the model and the attention do not go together, or
  // compare.weights_not_kept; RESOURCE_EXHAUSTED compare.too_large; UNAVAILABLE: the weights' file
  // is no longer what was loaded, out of memory, cancelled, or not done by `give_up_at`.
  static absl::StatusOr<std::unique_ptr<LoadedVariant>> Load(
      const SourceModel& model, const LoadedVariantOptions& options,
      const ServedModel::Environment& environment, CancellationPtr cancellation);

  const ModelView& view() const { return *view_; }
  const models::ModelInfo& info() const { return executor_->info(); }
  int64_t weight_bytes() const { return executor_->weight_bytes(); }
  // What it holds between its passes: the weights, and the peak of a pass, the batch's pixels
  // included.
  int64_t held_bytes() const;
  // How images are brought to the sizes that it was loaded for.
  PreprocessSpec imaging_spec() const;

  struct Pass {
    Nanos compute = 0;  // from the copy of the pixels to the outputs
    // What attention alone took of it (models::AttentionTime). None: the model has no attention
    // apart from its projections, or runs on a GPU, whose time the host does not see.
    std::optional<Nanos> attention;
    // Attention is folded into its projections (CPU), so `attention` lacks it.
    bool folds_attention = false;
    int64_t peak_bytes = 0;
    TaskResult result;
    std::vector<ImageTransform> transforms;
  };
  using AttentionMode = models::AttentionTime::Mode;
  // A batch of `image`, repeated, which was resized for its model; `size` is still the place in the
  // served model's sizes, or 0 of LoadedVariantOptions::size. On the lane's thread.
  // DEADLINE_EXCEEDED: it was not done by `deadline`, and stopped between two blocks.
  absl::StatusOr<Pass> Run(const ResizedImage& image, Nanos deadline = kNever,
                           AttentionMode mode = AttentionMode::kAsServed);
  // The same, when its turn on `lane` comes. DEADLINE_EXCEEDED: it takes longer than `max_pass`,
  // without the lane where it took longer in the warm-up already, beside what serves. Lane's
  // errors.
  absl::StatusOr<Pass> RunOn(HeldLane& lane, const ResizedImage& image, Nanos max_pass = kNever,
                             AttentionMode mode = AttentionMode::kAsServed);

  // What a caller gets of a pass: with `every`, every class, masks and run lengths, of the first
  // image alone. On any thread; once.
  absl::StatusOr<Results> Finish(Pass pass, bool every) const;

  // From passes over the model as it was loaded, before it was prepared for speed.
  struct Analysis {
    int64_t multiply_adds = 0;  // of the first image
    // Of each image the tokens that leave the last block, as numbers one after the other.
    std::vector<std::vector<float>> features;
  };
  // Loads the model anew for it, at each of its sizes; the passes are run on `lane`, one at a time.
  // Features are of the first kFeatureImages. DEADLINE_EXCEEDED: a pass takes longer than
  // `max_pass`; CANCELLED.
  absl::StatusOr<Analysis> Analyse(const std::vector<ResizedImage>& images, HeldLane& lane,
                                   Nanos max_pass = kNever) const;
  static constexpr size_t kFeatureImages = 8;

 private:
  LoadedVariant(VersionToLoad source, LoadedVariantOptions options, Clock& clock)
      : source_(std::move(source)), options_(std::move(options)), clock_(clock) {}
  // Its place among the sizes that this was loaded for.
  uint64_t ShapeKey(const ResizedImage& image) const;

  const VersionToLoad source_;
  const LoadedVariantOptions options_;
  Clock& clock_;
  std::unique_ptr<RepositoryFile> weights_;  // open, so that source_ names it
  std::unique_ptr<BatchExecutor> executor_;
  std::shared_ptr<const ModelView> view_;
  int threads_ = 1;         // that its batches get
  Nanos warm_up_time_ = 0;  // of its slowest batch
  std::unique_ptr<const Postprocessor> postprocessor_;
};

}  // namespace fovea
