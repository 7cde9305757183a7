// model.textproto as plain data: what the model is, and how it is served.
// The message itself is proto/fovea/v1/model_spec.proto, which documents every field; here absent
// fields have their defaults and every number lies in its range. Includes neither torch nor
// protobuf.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/queue_policy.h"
#include "model_zoo/instance_group.h"
#include "model_zoo/model_description.h"

namespace fovea {

inline constexpr std::string_view kSpecFile = "model.textproto";

// The spec's `preprocessing`: only what differs from the published one.
struct PreprocessingOverride {
  std::optional<models::ResizeMode> resize_mode;
  std::optional<models::Interpolation> interpolation;
  std::optional<double> crop_fraction;
  models::CropOffset crop_offset = models::CropOffset::kNearest;
  std::optional<int64_t> shorter_side, longer_side;
  std::optional<std::array<float, 3>> mean;
  std::optional<std::array<float, 3>> std;
  bool fast_decode = false;

  // The published preprocessing of a backbone with these changes.
  models::Preprocessing AppliedTo(models::Preprocessing published) const;
};

// How requests wait for each other. Turning max_queue_delay_us up fills batches on an idle device
// at the price of latency; it, or preferred sizes, also fill batches that hardly gain by more
// images. The others bound or order the queue.
struct BatchingOptions {
  std::vector<int> preferred_batch_sizes;  // ascending, each in [1, max_batch_size]
  int64_t max_queue_delay_us = 0;
  int priority_levels = 0;         // 0: no priorities; otherwise 1 is served first
  int default_priority_level = 0;  // in [1, priority_levels] where there are priorities
  QueuePolicy default_queue_policy;
  std::map<int, QueuePolicy> priority_queue_policy;  // by level; the others have the default
};

// Which of a model's versions are served.
struct VersionPolicy {
  enum class Kind { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  int latest = 1;                 // kLatest: how many
  std::vector<int64_t> specific;  // kSpecific: ascending

  // Those of `available` that are served. Both ascending.
  std::vector<int64_t> Select(std::span<const int64_t> available) const;
};

// The spec's `canary`: exactly one of top_class and output_file is given.
struct CanarySpec {
  std::string input;
  std::string top_class;
  std::string output_file;
  std::string output_name;  // empty: the task's usual one
  double absolute_tolerance = 1e-3;
  double relative_tolerance = 1e-2;
};

// Images in a batch at most, where nothing is said. Those that fit pictures run each shape by
// itself before they are ready, and their batches gain little.
inline constexpr int kUsualBatchSize = 16;
inline constexpr int kUsualBatchSizeOfBuckets = 1;

enum class AdvertisedInput { kPixelValues, kImage, kImageRgb };

struct ModelSpec {
  // Everything but `weights`, which is a matter of the version.
  models::ModelDescription description;
  PreprocessingOverride preprocessing;
  // Another model, whose weights this one uses; empty: its own, or random ones.
  std::string weights_of;
  AdvertisedInput advertised_input = AdvertisedInput::kPixelValues;
  bool allow_non_finite = true;
  bool untrained = false;  // its labels mean nothing: random_weights, or a file of such
  int max_batch_size = kUsualBatchSize;
  BatchingOptions batching;
  models::InstanceGroup instances;
  VersionPolicy version_policy;
  std::map<std::string, int64_t> version_labels;
  std::optional<CanarySpec> canary;
};

// Reads the text of a model.textproto that lies in a folder named `folder`.
// `config_override` is empty or JSON of an inference.ModelConfig, whose max_batch_size,
// dynamic_batching, instance_group and version_policy replace the text's; it is read by the same
// rules. FAILED_PRECONDITION: the text is not a valid spec; the message begins with
// "model.textproto:LINE: ". INVALID_ARGUMENT: the override is not valid, or names a field that
// cannot be overridden. `problems`, if it is given, is added everything that is wrong with the text
// (up to limits::kMaxProblemsOfAFile, in the order of the checks), the returned error first.
absl::StatusOr<ModelSpec> ParseModelSpec(std::string_view text, std::string_view folder,
                                         std::string_view config_override = {},
                                         std::vector<absl::Status>* problems = nullptr);

}  // namespace fovea
