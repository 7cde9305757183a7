// Variants of models side by side: what is asked for, and what comes out. Plain data, and the
// interface that runs it; the fields are those of proto/fovea/v1/comparison.proto, which says what
// each means.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/statistics.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/comparison_progress.h"
#include "server/core/image_size.h"
#include "server/core/variant.h"

namespace fovea {

struct CompareRequest {
  std::vector<Variant> variants;  // the baseline first
  std::vector<std::string> images;
  std::string id;
  int rounds = 20;
  int max_rounds = 200;
  Nanos max_time = 60 * kSecond;
  int batch_size = 1;
  int threads = 0;  // 0: all
};

// Ratios of times this near to 1 count as equal: as ExperimentPlan::latency_margin has it.
inline constexpr double kEquivalenceMargin = 0.05;

// The verdict that the interval of a ratio allows, beside the control's, which comes from the
// baseline loaded and asked once more: identical models differ by so much here.
enum class Verdict {
  kBaseline,
  kFaster,      // the interval lies below 1, and below the control's
  kSlower,      // above both
  kEquivalent,  // it lies within kEquivalenceMargin of 1, even if some difference is certain
  // No verdict, because
  kUndecided,   // the interval allows for more than one
  kFewRounds,   // there are fewer than kLeastSeries
  kUnsteady,    // times are autocorrelated over so many rounds that these are too few
  kControlOff,  // the control itself is faster or slower: something else moved the times
  kWide,        // the interval, or the control's, is wider than kWidestInterval
};

struct ComparedTime {
  Quartiles ms;
  // Medians of the rounds' own ratios to the baseline and differences from it, so that what slows a
  // whole round down cancels. None: this is the baseline, or there
  // were fewer than kLeastSeries rounds.
  std::optional<Estimate> ratio;
  std::optional<Estimate> difference_ms;
  Verdict verdict = Verdict::kBaseline;
};

struct ClassAgreement {
  int images = 0;
  int same_top1 = 0;
  double top5_overlap = 0;
  double kl_divergence = 0;  // in nats; of sigmoids the mean of the classes' own
  double max_confidence_difference = 0;
};
struct ObjectAgreement {
  int baseline_objects = 0;
  int objects = 0;
  int matched = 0;
  double mean_box_iou = 0;
  std::optional<double> mean_mask_iou;
  double mean_score_difference = 0;
};
struct MapAgreement {
  double same_pixels = 0;
  double mean_iou = 0;
};
using Agreement = std::variant<std::monostate, ClassAgreement, ObjectAgreement, MapAgreement>;

struct BriefAnswer {
  std::string label;
  double confidence = 0;
  int objects = 0;
};

struct ComparedVariant {
  std::string model_name;
  std::string model_version;
  std::string backbone;
  std::string attention;             // canonical text
  std::string weights_of_attention;  // empty: the model's own
  bool untrained = false;
  ComparedTime compute;
  Quartiles postprocess_ms;
  Quartiles decode_ms;
  Quartiles preprocess_ms;
  std::optional<Quartiles> attention_ms;  // none: it has no attention, or...
  bool attention_left_out = false;        // ...what was measured contradicts `compute`
  double images_per_second = 0;
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t parameters = 0;
  int64_t multiply_adds = 0;  // 0: not counted
  Agreement agreement;        // none: this is the baseline
  std::optional<double> feature_cosine;
  std::vector<BriefAnswer> answers;
};

struct ComparedImage {
  ImageSize size;  // upright
};

// Where and when something was measured.
struct Provenance {
  std::string at;  // when it began: RFC 3339, in UTC
  std::string by;  // program and version
  std::string processor;
  int cores = 0;                      // that the process may run on
  std::optional<double> other_cores;  // that other processes used, mean; absent: unknown
  bool busy = false;                  // others left the threads less than a core each
};

struct Comparison {
  std::string id;
  std::vector<ComparedVariant> variants;  // the baseline first
  ComparedTime control;
  int rounds = 0;
  int batch_size = 1;
  int threads = 1;
  std::string device;
  std::vector<ComparedImage> images;
  Provenance measured;
};

// Thread-safe.
class ComparisonRunner {
 public:
  virtual ~ComparisonRunner() = default;

  using Done = std::function<void(absl::StatusOr<Comparison>)>;
  // Returns at once. `done` is called once and last, after all of `progress`; both on a thread of
  // the runner's, or here where it refuses. Both return quickly. Setting `cancellation` ends it
  // between two runs. Errors as ComparisonService.Compare's.
  virtual void Compare(CompareRequest request, CancellationPtr cancellation,
                       ProgressListener progress, Done done) = 0;
};

}  // namespace fovea
