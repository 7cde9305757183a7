// Generated scenes: several textured shapes, small and large, one in front of another, on a
// cluttered ground, with exact boxes, masks and class maps.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "model_zoo/training/data/generated/picture.h"
#include "model_zoo/training/data/generated/shapes.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

struct SceneOptions {
  // The classes, in order. Fewer, and more different ones, are learnt sooner.
  std::vector<Shape> shapes = {Shape::kCircle, Shape::kTriangle, Shape::kSquare,
                               Shape::kStar,   Shape::kCross,    Shape::kRing};
  // Of a scene; where there is no room for one more, there are fewer.
  int min_objects = 1, max_objects = 6;
  // Of a shape, in shorter sides of the picture; drawn so that small ones are as frequent as large.
  float min_radius = 0.07f, max_radius = 0.30f;
  // Things that lie about behind the shapes, at most; higher is harder.
  int max_litter = 8;
};

// The scene number `index` of a stream: the same bytes on every machine for one version of OpenCV,
// and for sizes of one aspect ratio the same scene. Throws std::invalid_argument where the options
// make no scene.
//
// A pixel belongs to the foremost shape that covers at least half of it. Shapes are placed so that
// at least 40% of each one remains in sight. A shape of which fewer than kMinVisiblePixels are seen
// (in small pictures) is none of the objects; the class map says of its pixels that they are
// ignored. Objects come back to front. Class maps: 0 is the background, 1 + i is the class i.
Sample DrawScene(uint64_t seed, Stream stream, uint64_t index, cv::Size size,
                 const SceneOptions& options = {});

inline constexpr int kMinVisiblePixels = 20;

// As pictures come that fit into a square of `side` pixels: square, landscape and portrait at 4:3.
std::vector<cv::Size> SceneSizes(int side);

// The scenes of a stream.
class Scenes final : public SampleSource {
 public:
  struct Options {
    uint64_t seed = 1;
    Stream stream = Stream::kTraining;
    std::vector<cv::Size> sizes = {{128, 128}};  // in turn
    uint64_t count = kEndless;
    SceneOptions scene;
  };
  explicit Scenes(Options options);

  GroundTruth ground_truth() const override {
    return {.boxes = true, .masks = true, .class_map = true};
  }
  const std::vector<std::string>& labels() const override { return labels_; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return options_.count; }
  std::string Name(uint64_t index) const override;
  Sample Get(uint64_t index) const override;

 private:
  const Options options_;
  std::vector<std::string> labels_, map_labels_;
};

}  // namespace fovea::models::training
