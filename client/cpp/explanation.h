// What a model's attention looks at: what Client::Explain takes and gives. Plain data; the fields
// are those of proto/fovea/v1/comparison.proto, which says what each means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cpp/types.h"
#include "client/cpp/variant.h"

namespace fovea::client {

enum class ExplainMethod { kMaps, kRollout, kAttribution, kGradientRollout, kMeasures };

enum class PictureForm {
  kOverlay,  // over the image
  kHeat,     // the colours alone
  kNone,
};

struct ExplainRequest {
  Variant variant;
  std::string image;                   // a picture file (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF)
  std::vector<ExplainMethod> methods;  // at least one
  std::vector<int> layers;             // kMaps only, counted from 0; empty: all
  std::vector<int> heads;              // kMaps only, counted from 0; empty: the mean over all
  bool every_head = false;             // kMaps only, in place of `heads`
  // Whose weights are shown, in pixels of the image, upright. None: the class token's, or the mean.
  struct Place {
    float x = 0, y = 0;
  };
  std::optional<Place> place;
  std::optional<int> target_class;  // whose share is followed; none: the most probable one
  PictureForm form = PictureForm::kOverlay;
};

struct ExplainedMap {
  ExplainMethod method = ExplainMethod::kMaps;
  std::string layer;                // kMaps only
  std::optional<int> layer_number;  // kMaps only
  std::optional<int> head;          // none: the mean over heads, or of all layers together
  int rows = 0;
  int columns = 0;
  std::vector<float> values;  // [rows, columns]
  std::string png;            // as large as the image; empty: no pictures
};

struct MeasuredLayer {
  std::string layer;
  double cosine_similarity = 0;
  std::optional<double> attention_standard_deviation;  // none: the layer has no weights
  double attention_norm_ratio = 0;
  double mlp_norm_ratio = 0;
  std::vector<double> nonlocality;  // one for each head, in patches
};

struct Explanation {
  ModelId model;
  std::string backbone;
  std::string attention;
  std::string weights_of_attention;  // empty: the model's own; else not fine-tuned for `attention`
  bool untrained = false;
  int height = 0;  // the image's, upright
  int width = 0;
  std::optional<ClassScore> target;  // classifiers only
  std::vector<ExplainedMap> maps;
  std::vector<MeasuredLayer> measures;
  std::string measures_plot;  // PNG; empty: none
};

}  // namespace fovea::client
