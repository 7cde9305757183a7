// What a model's attention looks at in an image: what is asked for, and what comes out. Plain data,
// and the interface that runs it; the fields are those of proto/fovea/v1/comparison.proto, which
// says what each means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/image_size.h"
#include "server/core/variant.h"

namespace fovea {

enum class ExplainMethod { kMaps, kRollout, kAttribution, kGradientRollout, kMeasures };

enum class PictureForm {
  kOverlay,  // over the image
  kHeat,     // the colours alone
  kNone,
};

struct ExplainRequest {
  Variant variant;
  std::string image;
  std::string id;
  std::vector<ExplainMethod> methods;  // a method twice is once
  std::vector<int> layers;             // kMaps only; empty: all
  std::vector<int> heads;              // kMaps only; empty: their mean
  bool every_head = false;
  // In pixels of the image, upright.
  struct Place {
    double x = 0, y = 0;
  };
  std::optional<Place> place;
  std::optional<int> target_class;
  PictureForm form = PictureForm::kOverlay;
};

struct ExplainedMap {
  ExplainMethod method = ExplainMethod::kMaps;
  std::string layer;
  std::optional<int> layer_number;
  std::optional<int> head;
  int rows = 0;
  int columns = 0;
  std::vector<float> values;
  std::string png;  // empty: no pictures
};

struct MeasuredLayer {
  std::string layer;
  double cosine_similarity = 0;
  std::optional<double> attention_standard_deviation;
  double attention_norm_ratio = 0;
  double mlp_norm_ratio = 0;
  std::vector<double> nonlocality;  // one for each head
};

struct Explanation {
  std::string id;
  std::string model_name;
  std::string model_version;
  std::string backbone;
  std::string attention;             // canonical text
  std::string weights_of_attention;  // empty: the model's own
  bool untrained = false;
  ImageSize image;  // upright
  struct Target {
    int class_index = 0;
    std::string label;
    double probability = 0;
  };
  std::optional<Target> target;  // classifiers only
  std::vector<ExplainedMap> maps;
  std::vector<MeasuredLayer> measures;
  std::string measures_plot;  // PNG; empty: not asked for
};

// Thread-safe.
class ExplanationRunner {
 public:
  virtual ~ExplanationRunner() = default;

  using Done = std::function<void(absl::StatusOr<Explanation>)>;
  // Returns at once. `done` is called once, on a thread of the runner's, or here where it refuses;
  // it returns quickly. Setting `cancellation` ends it. Errors as ComparisonService.Explain's.
  virtual void Explain(ExplainRequest request, CancellationPtr cancellation, Done done) = 0;
};

}  // namespace fovea
