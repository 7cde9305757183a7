// What a surface looks like: two colours and a pattern that mixes them.
#pragma once

#include <array>
#include <opencv2/core/matx.hpp>

#include "model_zoo/training/data/random.h"

namespace fovea::models::training {

using Colour = cv::Vec3f;  // RGB in [0, 1]

// Of moderate to full saturation and value; greys among them.
Colour RandomColour(Random& random);
// How far apart two colours look, in [0, 1]: RGB distance weighted by the channels' luminance.
float Contrast(const Colour& a, const Colour& b);

class Texture {
 public:
  enum class Pattern { kPlain, kGradient, kStripes, kChecks, kDots, kClouds };
  static constexpr int kNumPatterns = 6;

  // A pattern, a direction, a grain and a phase drawn at random, mixing the two colours.
  Texture(Random& random, const Colour& first, const Colour& second);

  // The colours of `count` points from (x, y), `step` apart along x. Coordinates may lie in [-100,
  // 100].
  void Row(float x, float y, float step, int count, Colour* out) const;

 private:
  static constexpr int kLattice = 8;

  float Mix(float x, float y) const;    // 0: all first, 1: all second
  float Cloud(float u, float v) const;  // value noise, repeating every kLattice cells

  Pattern pattern_;
  Colour first_, second_;
  float grain_;          // periods in a unit of length
  float cosine_, sine_;  // of the direction
  float phase_;
  std::array<float, kLattice * kLattice> lattice_{};
};

// A direction without a call to the mathematical library, whose last bit differs between machines.
std::array<float, 2> RandomDirection(Random& random);

}  // namespace fovea::models::training
