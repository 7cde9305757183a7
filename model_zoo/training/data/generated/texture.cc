#include "model_zoo/training/data/generated/texture.h"

#include <algorithm>
#include <cmath>

namespace fovea::models::training {
namespace {

// The whole and the fractional part of numbers above -1024.
struct Split {
  explicit Split(float x)
      : whole(static_cast<int>(x + 1024.0f) - 1024), fraction(x - static_cast<float>(whole)) {}
  int whole;
  float fraction;
};

// A triangle wave with flattened tops: soft-edged stripes.
float Wave(float x) {
  const float distance = std::abs(Split(x).fraction - 0.5f);  // 0.5 .. 0 .. 0.5
  return std::clamp((distance - 0.25f) * 6.0f + 0.5f, 0.0f, 1.0f);
}

float Smooth(float t) { return t * t * (3.0f - 2.0f * t); }

}  // namespace

std::array<float, 2> RandomDirection(Random& random) {
  for (;;) {
    const float x = random.Uniform(-1, 1), y = random.Uniform(-1, 1);
    const float square = x * x + y * y;
    if (square > 1.0f || square < 0.01f) continue;
    const float length = std::sqrt(square);
    return {x / length, y / length};
  }
}

Colour RandomColour(Random& random) {
  const float hue = random.Uniform(0, 6), value = random.Uniform(0.15f, 1.0f);
  const float saturation = random.Chance(0.15f) ? 0.0f : random.Uniform(0.2f, 1.0f);
  Colour colour;
  for (int channel = 0; channel < 3; ++channel) {
    const float place = Split((hue + 2.0f * channel) / 6.0f).fraction * 6.0f;
    const float amount = std::clamp(std::abs(place - 3.0f) - 1.0f, 0.0f, 1.0f);
    colour[channel] = value * (1.0f - saturation * (1.0f - amount));
  }
  return colour;
}

float Contrast(const Colour& a, const Colour& b) {
  const Colour d = a - b;
  return std::sqrt(0.30f * d[0] * d[0] + 0.59f * d[1] * d[1] + 0.11f * d[2] * d[2]);
}

Texture::Texture(Random& random, const Colour& first, const Colour& second)
    : pattern_(static_cast<Pattern>(random.Below(kNumPatterns))), first_(first), second_(second) {
  grain_ = random.Uniform(5.0f, 14.0f);
  const auto direction = RandomDirection(random);
  cosine_ = direction[0];
  sine_ = direction[1];
  phase_ = random.Unit();
  if (pattern_ == Pattern::kClouds) {
    for (float& value : lattice_) value = random.Unit();
  }
}

float Texture::Cloud(float u, float v) const {
  const Split x(u), y(v);
  const auto at = [this](int column, int row) {
    return lattice_[(row & (kLattice - 1)) * kLattice + (column & (kLattice - 1))];
  };
  const float s = Smooth(x.fraction), t = Smooth(y.fraction);
  const float top = at(x.whole, y.whole) + s * (at(x.whole + 1, y.whole) - at(x.whole, y.whole));
  const float bottom =
      at(x.whole, y.whole + 1) + s * (at(x.whole + 1, y.whole + 1) - at(x.whole, y.whole + 1));
  return top + t * (bottom - top);
}

float Texture::Mix(float x, float y) const {
  const float u = (cosine_ * x + sine_ * y) * grain_ + phase_;
  const float v = (cosine_ * y - sine_ * x) * grain_;
  switch (pattern_) {
    case Pattern::kPlain:
      return phase_;
    case Pattern::kGradient:
      return std::clamp(0.5f + 0.7f * (cosine_ * (x - 0.5f) + sine_ * (y - 0.5f)), 0.0f, 1.0f);
    case Pattern::kStripes:
      return Wave(u);
    case Pattern::kChecks: {
      const float a = Wave(0.7f * u), b = Wave(0.7f * v);
      return a + b - 2.0f * a * b;
    }
    case Pattern::kDots: {
      const float a = Split(u).fraction - 0.5f, b = Split(v).fraction - 0.5f;
      return std::clamp((0.11f - (a * a + b * b)) * 12.0f + 0.5f, 0.0f, 1.0f);
    }
    case Pattern::kClouds:
      return std::clamp(
          1.3f * (0.65f * Cloud(0.5f * u, 0.5f * v) + 0.35f * Cloud(1.1f * u, 1.1f * v)) - 0.15f,
          0.0f, 1.0f);
  }
  return 0.0f;
}

void Texture::Row(float x, float y, float step, int count, Colour* out) const {
  const Colour span = second_ - first_;
  for (int i = 0; i < count; ++i) out[i] = first_ + span * Mix(x + step * i, y);
}

}  // namespace fovea::models::training
