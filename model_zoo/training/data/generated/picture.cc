#include "model_zoo/training/data/generated/picture.h"

#include "model_zoo/training/data/generated/canvas.h"
#include "model_zoo/training/data/generated/painting.h"
#include "model_zoo/training/data/generated/texture.h"
#include "model_zoo/training/data/random.h"

namespace fovea::models::training {
namespace {

constexpr float kMinContrast = 0.32f;  // between any colour of the shape and any of the background
constexpr float kMaxHiddenByOne = 0.12f;  // share of the shape that one occluder may hide
constexpr float kMinRadius = 0.30f, kMaxRadius = 0.45f;
constexpr float kPlay = 0.5f;    // of the way from the middle to where the margin ends
constexpr float kMargin = 0.9f;  // of the radius that stays in the picture
constexpr RadiusRange kShards = {0.03f, 0.14f};  // smaller than any shape

struct Palette {
  Colour background[2], shape[2];
};

Palette RandomPalette(Random& random) {
  Palette palette;
  palette.background[0] = RandomColour(random);
  palette.background[1] = SecondColour(random, palette.background[0]);

  palette.shape[0] =
      StandingOut(palette.background, kMinContrast, [&] { return RandomColour(random); });
  palette.shape[1] = StandingOut(palette.background, kMinContrast,
                                 [&] { return SecondColour(random, palette.shape[0]); });
  return palette;
}

void PaintClutter(Random& random, Canvas& canvas, const Palette& palette) {
  const int count = 3 + random.Below(8);
  for (int i = 0; i < count; ++i) {
    const Colour first =
        random.Chance(0.4f) ? palette.shape[random.Below(2)] : RandomColour(random);
    const Texture texture(random, first, SecondColour(random, first));
    const Coverage coverage = canvas.Cover(Litter(random, canvas, kShards));
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
