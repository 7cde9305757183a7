#include "model_zoo/training/data/generated/painting.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace fovea::models::training {
namespace {

constexpr int kMaxProposals = 64;    // of a colour
constexpr float kMaxTangent = 0.5f;  // of a rotation: up to 27 degrees to either side

Colour Near(Random& random, const Colour& colour, float spread) {
  Colour near;
  for (int channel = 0; channel < 3; ++channel) {
    near[channel] = std::clamp(colour[channel] + random.Uniform(-spread, spread), 0.0f, 1.0f);
  }
  return near;
}

}  // namespace

Colour SecondColour(Random& random, const Colour& first) {
  return random.Chance(0.5f) ? RandomColour(random) : Near(random, first, 0.3f);
}

Colour StandingOut(std::span<const Colour> others, float min_contrast,
                   const std::function<Colour()>& propose) {
  const auto contrast = [others](const Colour& colour) {
    float least = 1e9f;
    for (const Colour& other : others) least = std::min(least, Contrast(colour, other));
    return least;
  };
  Colour best = propose();
  float most = contrast(best);
  for (int tries = 1; tries < kMaxProposals && most < min_contrast; ++tries) {
    const Colour other = propose();
    const float contrasting = contrast(other);
    if (contrasting > most) {
      best = other;
      most = contrasting;
    }
  }
  return best;
}

Contours Posed(Random& random, const Contours& outline, float radius, cv::Point2f centre) {
  // (1, tangent), normalised: no call to the mathematical library.
  const float tangent = random.Uniform(-kMaxTangent, kMaxTangent);
  const float cosine = 1.0f / std::sqrt(1.0f + tangent * tangent), sine = tangent * cosine;
  const auto [stretch_cosine, stretch_sine] = RandomDirection(random);
  const float stretch = random.Uniform(0.82f, 1.0f);
  Contours posed = outline;
  for (auto& contour : posed) {
    for (cv::Point2f& p : contour) {
      // Squeeze along a random direction: p - (1 - stretch) (p . d) d.
      const float along = p.x * stretch_cosine + p.y * stretch_sine;
      p -= cv::Point2f(stretch_cosine, stretch_sine) * (along * (1.0f - stretch));
      p = centre + cv::Point2f(p.x * cosine - p.y * sine, p.x * sine + p.y * cosine) * radius;
    }
  }
  return posed;
}

cv::Point2f Anywhere(Random& random, const Canvas& canvas) {
  return {random.Uniform(0, canvas.width()), random.Uniform(0, canvas.height())};
}

Contours Shard(Random& random, cv::Point2f centre, float radius) {
  std::vector<cv::Point2f> contour;
  const int corners = 3 + random.Below(4);
  const auto [cosine, sine] = RandomDirection(random);
  for (int i = 0; i < corners; ++i) {
    // Corners of a regular polygon, each drawn in by a part.
    const Contours& circle = Outline(Shape::kCircle);
    const cv::Point2f p =
        circle[0][i * (circle[0].size() - 1) / corners] * random.Uniform(0.5f, 1.0f);
    contour.push_back(centre +
                      cv::Point2f(p.x * cosine - p.y * sine, p.x * sine + p.y * cosine) * radius);
  }
  return {contour};
}

Contours Litter(Random& random, const Canvas& canvas, const RadiusRange& shards) {
  const cv::Point2f place = Anywhere(random, canvas);
  switch (random.Below(3)) {
    case 0: {
      const cv::Point2f end = Anywhere(random, canvas);
      return Bar(place, end, random.Uniform(0.012f, 0.05f));
    }
    case 1: {
      const float radius = random.Uniform(0.08f, 0.5f), from = random.Unit();
      const float turn = random.Uniform(0.15f, 0.5f);
      return Arc(place, radius, from, from + turn, random.Uniform(0.012f, 0.04f));
    }
    default:
      return Shard(random, place, random.Uniform(shards.smallest, shards.largest));
  }
}

void Light(Random& random, Canvas& canvas) {
  const auto [cosine, sine] = RandomDirection(random);
  const float slope = random.Uniform(0.0f, 0.8f), level = random.Uniform(0.75f, 1.2f);
  Colour tint;
  for (int channel = 0; channel < 3; ++channel)
    tint[channel] = level * random.Uniform(0.88f, 1.12f);
  cv::Mat& pixels = canvas.pixels();
  for (int y = 0; y < pixels.rows; ++y) {
    Colour* row = pixels.ptr<Colour>(y);
    const float v = (y + 0.5f) / canvas.unit() - 0.5f * canvas.height();
    for (int x = 0; x < pixels.cols; ++x) {
      const float u = (x + 0.5f) / canvas.unit() - 0.5f * canvas.width();
      const float light = 1.0f + slope * (u * cosine + v * sine);
      for (int channel = 0; channel < 3; ++channel) row[x][channel] *= light * tint[channel];
    }
  }
  if (random.Chance(0.4f)) {
    const cv::Point2f from = Anywhere(random, canvas), to = Anywhere(random, canvas);
    const cv::Point2f along = (to - from) * 4.0f;
    const Coverage shadow =
        canvas.Cover(Bar(from - along, to + along, random.Uniform(0.15f, 0.7f)));
    const float strength = random.Uniform(0.2f, 0.6f);
    canvas.Shade(shadow, strength, random.Uniform(0.01f, 0.06f));
  }
}

void Expose(Random& random, cv::Mat& rgb) {
  if (random.Chance(0.4f)) {
    const double sigma = random.Uniform(0.3f, 0.9f) * std::min(rgb.rows, rgb.cols) / 64.0;
    cv::GaussianBlur(rgb, rgb, cv::Size(), sigma, sigma, cv::BORDER_REFLECT_101);
  }
  // The sum of a word's four bytes is close to normal, with a mean of 510 and a deviation of 147.8.
  const int strength = static_cast<int>(random.Uniform(0.0f, 12.0f) / 147.8f * 65536.0f);
  for (int y = 0; y < rgb.rows; ++y) {
    uint8_t* row = rgb.ptr<uint8_t>(y);
    for (int i = 0; i < 3 * rgb.cols; ++i) {
      const uint32_t word = random.Next();
      const int sum =
          static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
      row[i] = static_cast<uint8_t>(
          std::clamp(row[i] + (((sum - 510) * strength + 32768) >> 16), 0, 255));
    }
  }
}

}  // namespace fovea::models::training
