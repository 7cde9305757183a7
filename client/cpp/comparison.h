// Variants of models side by side: what Client::Compare takes and gives. Plain data; the fields are
// those of proto/fovea/v1/comparison.proto, which says what each means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/statistics.h"
#include "client/cpp/types.h"
#include "client/cpp/variant.h"

namespace fovea::client {

struct CompareRequest {
  std::vector<Variant> variants;  // two to eight, the baseline first
  // Picture files (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF).
  std::vector<std::string> images;
  int rounds = 0;      // before the first look at the verdicts; 0: 20
  int max_rounds = 0;  // while a verdict is missing; 0: ten times `rounds`
  absl::Duration max_time = absl::ZeroDuration();  // once `rounds` are done; zero: a minute
  int batch_size = 0;                              // 0: one image
  int threads = 0;                                 // 0: all of the server's for models
};

enum class Verdict {
  kBaseline,
  kFaster,
  kSlower,
  kEquivalent,  // within 5 %
  // No verdict, because
  kUndecided,   // the interval allows for more than one
  kFewRounds,   // an interval needs more
  kUnsteady,    // times are autocorrelated over so many rounds that these are too few
  kControlOff,  // the control is itself faster or slower: something else moved the times
  kWide,        // the interval, or the control's, is wider than a tenth
  kUnknown,     // the server is newer than this library
};
bool IsVerdict(Verdict verdict);

struct ComparedTime {
  Quartiles ms;
  std::optional<Estimate> ratio;          // to the baseline, round by round
  std::optional<Estimate> difference_ms;  // from it
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

// What stands first in the answer to an image.
struct BriefAnswer {
  std::string label;      // empty: nothing was found
  double confidence = 0;  // or the score, or the share of the pixels
  int objects = 0;        // detectors only: all that were found
};

struct ComparedVariant {
  ModelId model;
  std::string backbone;
  std::string attention;
  std::string weights_of_attention;  // empty: the model's own; else not fine-tuned for `attention`
  bool untrained = false;
  ComparedTime compute;
  Quartiles postprocess_ms;
  Quartiles decode_ms;
  Quartiles preprocess_ms;
  std::optional<Quartiles> attention_ms;  // none: the model has no attention, or...
  bool attention_left_out = false;        // ...what was measured contradicts `compute`
  double images_per_second = 0;
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t parameters = 0;
  int64_t multiply_adds = 0;  // 0: not counted
  // Against the baseline; none: this is the baseline.
  std::variant<std::monostate, ClassAgreement, ObjectAgreement, MapAgreement> agreement;
  std::optional<double> feature_cosine;
  std::vector<BriefAnswer> answers;  // one for each image
};

struct ComparedImage {
  int height = 0;
  int width = 0;
};

// Where and when something was measured.
struct Provenance {
  std::string at;  // when it began: RFC 3339, in UTC; empty: the server is older than this library
  std::string by;  // program and version
  std::string processor;
  int cores = 0;                      // that the server may run on
  std::optional<double> other_cores;  // that other processes used, mean
  bool busy = false;                  // others left the threads less than a core each
};

struct Comparison {
  std::vector<ComparedVariant> variants;  // the baseline first
  ComparedTime control;
  int rounds = 0;
  int batch_size = 1;
  int threads = 1;
  std::string device;
  std::vector<ComparedImage> images;
  Provenance measured;
};

}  // namespace fovea::client
