#include "model_zoo/training/data/picture.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "model_zoo/training/data/canvas.h"
#include "model_zoo/training/data/random.h"
#include "model_zoo/training/data/texture.h"

namespace fovea::models::training {
namespace {

constexpr float kMinContrast = 0.32f;  // between any colour of the shape and any of the background
constexpr int kMaxProposals = 64;      // of a colour
constexpr float kMaxHiddenByOne = 0.12f;  // share of the shape that one occluder may hide
constexpr float kMinRadius = 0.30f, kMaxRadius = 0.45f;
constexpr float kMaxTangent = 0.5f;  // of the rotation: up to 27 degrees to either side
constexpr float kPlay = 0.5f;        // of the way from the middle to where the margin ends
constexpr float kMargin = 0.9f;      // of the radius that stays in the picture

struct Palette {
  Colour background[2], shape[2];
};

Colour Near(Random& random, const Colour& colour, float spread) {
  Colour near;
  for (int channel = 0; channel < 3; ++channel) {
    near[channel] = std::clamp(colour[channel] + random.Uniform(-spread, spread), 0.0f, 1.0f);
  }
  return near;
}

// The second colour of a surface: of its own, or a shade of the first.
Colour SecondColour(Random& random, const Colour& first) {
  return random.Chance(0.5f) ? RandomColour(random) : Near(random, first, 0.3f);
}

Palette RandomPalette(Random& random) {
  Palette palette;
  palette.background[0] = RandomColour(random);
  palette.background[1] = SecondColour(random, palette.background[0]);

  const auto contrast = [&palette](const Colour& colour) {
    return std::min(Contrast(colour, palette.background[0]),
                    Contrast(colour, palette.background[1]));
  };
  // The first proposal that stands out, or the best of many.
  const auto standing_out = [&](auto propose) {
    Colour best = propose();
    for (int tries = 1; tries < kMaxProposals && contrast(best) < kMinContrast; ++tries) {
      const Colour other = propose();
      if (contrast(other) > contrast(best)) best = other;
    }
    return best;
  };
  palette.shape[0] = standing_out([&] { return RandomColour(random); });
  palette.shape[1] = standing_out([&] { return SecondColour(random, palette.shape[0]); });
  return palette;
}

// Rotated, stretched a little and moved to its place.
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

// Three to six corners around a centre.
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

// Small things that lie about: each smaller than any shape, or thin.
Contours Litter(Random& random, const Canvas& canvas) {
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
      return Shard(random, place, random.Uniform(0.03f, 0.14f));
  }
}

void PaintClutter(Random& random, Canvas& canvas, const Palette& palette) {
  const int count = 3 + random.Below(8);
  for (int i = 0; i < count; ++i) {
    const Colour first =
        random.Chance(0.4f) ? palette.shape[random.Below(2)] : RandomColour(random);
    const Texture texture(random, first, SecondColour(random, first));
    const Coverage coverage = canvas.Cover(Litter(random, canvas));
    canvas.Paint(coverage, texture, random.Uniform(0.4f, 1.0f));
  }
}

// Bars and shards over the shape, each hiding a bounded share of it.
void PaintOccluders(Random& random, Canvas& canvas, const Palette& palette, const Coverage& shape) {
  const cv::Point2f corner = cv::Point2f(shape.where.tl()) / canvas.unit();
  const cv::Point2f extent = cv::Point2f(shape.where.br()) / canvas.unit() - corner;
  const int count = random.Below(3);
  for (int i = 0; i < count; ++i) {
    const cv::Point2f share{random.Unit(), random.Unit()};
    const cv::Point2f place = corner + cv::Point2f(extent.x * share.x, extent.y * share.y);
    const float size = random.Uniform(0.05f, 0.16f);
    const Coverage cover =
        canvas.Cover(random.Chance(0.5f) ? Bar(place, Anywhere(random, canvas), 0.6f * size)
                                         : Shard(random, place, size));
    const Colour first = random.Chance(0.5f) ? palette.background[0] : RandomColour(random);
    const Texture texture(random, first, SecondColour(random, first));
    if (HiddenShare(shape, cover) <= kMaxHiddenByOne) canvas.Paint(cover, texture, 1.0f);
  }
}

// A lamp: brighter towards one side, slightly coloured. Then the shadow of something outside of the
// picture.
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

// What a camera does: loses focus, and adds noise whose size does not depend on the resolution.
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

}  // namespace

Picture DrawPicture(uint64_t seed, Stream stream, uint64_t index, cv::Size size) {
  Random random(seed, static_cast<uint32_t>(stream), index);
  const Shape shape = static_cast<Shape>(index % kNumShapes);
  Canvas canvas(size);

  const Palette palette = RandomPalette(random);
  canvas.Fill(Texture(random, palette.background[0], palette.background[1]));
  PaintClutter(random, canvas, palette);

  const float radius = random.Uniform(kMinRadius, kMaxRadius);
  const float play = kPlay * (0.5f - kMargin * radius);
  const cv::Point2f moved{random.Uniform(-play, play), random.Uniform(-play, play)};
  const cv::Point2f centre = cv::Point2f(canvas.width(), canvas.height()) * 0.5f + moved;
  const Contours outline = Posed(random, Outline(shape), radius, centre);
  const Coverage coverage = canvas.Cover(outline);
  if (random.Chance(0.5f)) {
    Contours fallen = outline;
    const auto [x, y] = RandomDirection(random);
    for (auto& contour : fallen) {
      for (cv::Point2f& p : contour) p += cv::Point2f(x, y) * 0.05f;
    }
    canvas.Shade(canvas.Cover(fallen), random.Uniform(0.2f, 0.6f), 0.03f);
  }
  canvas.Paint(coverage, Texture(random, palette.shape[0], palette.shape[1]), 1.0f);
  PaintOccluders(random, canvas, palette, coverage);
  Light(random, canvas);

  Picture picture{canvas.Quantised(), shape, cv::Mat::zeros(size, CV_8U)};
  coverage.alpha.copyTo(picture.extent(coverage.where));
  Expose(random, picture.rgb);
  return picture;
}

}  // namespace fovea::models::training
