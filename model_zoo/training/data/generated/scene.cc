#include "model_zoo/training/data/generated/scene.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

#include "model_zoo/training/data/generated/canvas.h"
#include "model_zoo/training/data/generated/painting.h"
#include "model_zoo/training/data/generated/texture.h"
#include "model_zoo/training/data/random.h"

namespace fovea::models::training {
namespace {

// Added to a stream's number: scenes share no random numbers with pictures.
constexpr uint32_t kSceneStreams = 16;

constexpr int kMaxFigures = 100;       // of one scene
constexpr int kMaxAspectRatio = 50;    // textures end there
constexpr float kMinContrast = 0.30f;  // of a colour to the ground's and to those that it covers
constexpr float kMinInSight = 0.4f;    // share of a figure's pixels
constexpr float kInside = 0.7f;        // of the radius, from the centre to the picture's border
constexpr int kMaxPlaces = 12;         // that are tried for a figure
constexpr RadiusRange kShards = {0.015f, 0.035f};  // smaller than any figure
// Whether a place has room is decided on a raster of this many pixels a shorter side, so that it
// does not depend on the resolution.
constexpr int kRasterSide = 96;

// A pixel belongs to what covers at least half of it.
constexpr uint8_t kHalf = 128;

struct Figure {
  int class_index = 0;
  float radius = 0;
  Contours outline;
  Colour first, second;
};

// Which figure is in front at each pixel: 0 is the ground, 1 + i figure i.
class Front {
 public:
  explicit Front(cv::Size size) : owners_(cv::Mat::zeros(size, CV_8U)) {}

  const cv::Mat& owners() const { return owners_; }

  // The pixels of each figure that `coverage` would take, by 1 + its place; at 0 those of the
  // ground.
  std::array<int, kMaxFigures + 1> Taken(const Coverage& coverage) const {
    std::array<int, kMaxFigures + 1> taken{};
    ForEachPixel(owners_, coverage, [&taken](const uint8_t& owner) { ++taken[owner]; });
    return taken;
  }

  void Take(const Coverage& coverage, int figure) {
    ForEachPixel(owners_, coverage,
                 [figure](uint8_t& owner) { owner = static_cast<uint8_t>(figure + 1); });
  }

 private:
  template <typename Mat, typename Do>
  static void ForEachPixel(Mat& owners, const Coverage& coverage, Do what) {
    for (int y = 0; y < coverage.where.height; ++y) {
      const uint8_t* alpha = coverage.alpha.ptr<uint8_t>(y);
      auto* row = owners.template ptr<uint8_t>(coverage.where.y + y) + coverage.where.x;
      for (int x = 0; x < coverage.where.width; ++x) {
        if (alpha[x] >= kHalf) what(row[x]);
      }
    }
  }

  cv::Mat owners_;
};

// Places figures one in front of the other so that enough of each one remains in sight.
class Composition {
 public:
  explicit Composition(const Canvas& canvas)
      : width_(canvas.width()),
        height_(canvas.height()),
        raster_(cv::Size(RasterPixels(width_), RasterPixels(height_))),
        front_(cv::Size(RasterPixels(width_), RasterPixels(height_))) {}

  // One more figure in front of the others, where one of the tried places has room.
  void Add(Random& random, const SceneOptions& options, std::span<const Colour> ground) {
    Figure figure;
    figure.class_index = random.Below(static_cast<int>(options.shapes.size()));
    const float root = random.Unit();
    figure.radius = options.min_radius + (options.max_radius - options.min_radius) * root * root;
    for (int place = 0; place < kMaxPlaces; ++place) {
      const float margin = std::min(kInside * figure.radius, 0.5f);
      const cv::Point2f centre{random.Uniform(margin, width_ - margin),
                               random.Uniform(margin, height_ - margin)};
      figure.outline =
          Posed(random, Outline(options.shapes[figure.class_index]), figure.radius, centre);
      const Coverage coverage = raster_.Cover(figure.outline);
      const auto taken = front_.Taken(coverage);
      if (!HasRoom(taken)) continue;
      ChooseColours(random, ground, taken, figure);
      Put(std::move(figure), coverage, taken);
      return;
    }
  }

  const std::vector<Figure>& figures() const { return figures_; }

 private:
  static int RasterPixels(float length) {
    return std::max(1, static_cast<int>(length * kRasterSide + 0.5f));
  }

  bool HasRoom(std::span<const int> taken) const {
    for (size_t i = 0; i < figures_.size(); ++i) {
      const int left = in_sight_[i] - taken[i + 1];
      if (static_cast<float>(left) < kMinInSight * static_cast<float>(pixels_[i])) return false;
    }
    return true;
  }

  // Colours that stand out from the ground and from the figures behind.
  void ChooseColours(Random& random, std::span<const Colour> ground, std::span<const int> taken,
                     Figure& figure) const {
    std::vector<Colour> behind(ground.begin(), ground.end());
    for (size_t i = 0; i < figures_.size(); ++i) {
      if (taken[i + 1] == 0) continue;
      behind.push_back(figures_[i].first);
      behind.push_back(figures_[i].second);
    }
    figure.first = StandingOut(behind, kMinContrast, [&] { return RandomColour(random); });
    figure.second =
        StandingOut(behind, kMinContrast, [&] { return SecondColour(random, figure.first); });
  }

  void Put(Figure figure, const Coverage& coverage, std::span<const int> taken) {
    int pixels = taken[0];
    for (size_t i = 0; i < figures_.size(); ++i) {
      in_sight_[i] -= taken[i + 1];
      pixels += taken[i + 1];
    }
    front_.Take(coverage, static_cast<int>(figures_.size()));
    pixels_.push_back(pixels);
    in_sight_.push_back(pixels);
    figures_.push_back(std::move(figure));
  }

  const float width_, height_;
  const Canvas raster_;
  Front front_;
  std::vector<Figure> figures_;
  std::vector<int> pixels_, in_sight_;  // of each figure on the raster
};

void PaintLitter(Random& random, Canvas& canvas, int most) {
  const int count = random.Below(most + 1);
  for (int i = 0; i < count; ++i) {
    const Colour first = RandomColour(random);
    const Texture texture(random, first, SecondColour(random, first));
    const Coverage coverage = canvas.Cover(Litter(random, canvas, kShards));
    canvas.Paint(coverage, texture, random.Uniform(0.3f, 0.9f));
  }
}

void PaintFigure(Random& random, Canvas& canvas, const Figure& figure, const Coverage& coverage) {
  if (random.Chance(0.5f)) {
    Contours fallen = figure.outline;
    const auto [x, y] = RandomDirection(random);
    for (auto& contour : fallen) {
      for (cv::Point2f& p : contour) p += cv::Point2f(x, y) * (0.15f * figure.radius);
    }
    canvas.Shade(canvas.Cover(fallen), random.Uniform(0.2f, 0.5f), 0.08f * figure.radius);
  }
  canvas.Paint(coverage, Texture(random, figure.first, figure.second), 1.0f);
}

// Objects and class map from who is in front of each pixel.
void Annotate(const std::vector<Figure>& figures, const cv::Mat& owners, Sample& sample) {
  std::array<uint8_t, kMaxFigures + 1> levels{};
  for (size_t i = 0; i < figures.size(); ++i) {
    Object object{.class_index = figures[i].class_index};
    const cv::Mat whole = owners == static_cast<int>(i) + 1;
    const bool seen =
        cv::countNonZero(whole) >= kMinVisiblePixels && SetMaskOfPixels(whole, {0, 0}, object);
    levels[i + 1] = static_cast<uint8_t>(seen ? figures[i].class_index + 1 : IgnoredLevel(CV_8U));
    if (seen) sample.objects.push_back(std::move(object));
  }
  sample.class_map.create(owners.size(), CV_8U);
  for (int y = 0; y < owners.rows; ++y) {
    const uint8_t* owner = owners.ptr<uint8_t>(y);
    uint8_t* level = sample.class_map.ptr<uint8_t>(y);
    for (int x = 0; x < owners.cols; ++x) level[x] = levels[owner[x]];
  }
}

void Check(cv::Size size, const SceneOptions& options) {
  const auto require = [](bool right, const char* what) {
    if (!right) throw std::invalid_argument(what);
  };
  require(size.width > 0 && size.height > 0, "a scene has at least one pixel");
  require(std::max(size.width, size.height) <=
              int64_t{kMaxAspectRatio} * std::min(size.width, size.height),
          "a scene's longer side is at most 50 times the shorter one");
  require(!options.shapes.empty() && options.shapes.size() <= kNumShapes,
          "a scene has one to ten classes");
  require(0 <= options.min_objects && options.min_objects <= options.max_objects &&
              options.max_objects <= kMaxFigures,
          "a scene has 0 to 100 objects, the fewest at most as many as the most");
  require(0 < options.min_radius && options.min_radius <= options.max_radius &&
              options.max_radius <= 0.5f,
          "the radius of a shape is above 0 and at most half of the shorter side");
  require(0 <= options.max_litter && options.max_litter <= 1000, "litter is 0 to 1000 things");
}

}  // namespace

Sample DrawScene(uint64_t seed, Stream stream, uint64_t index, cv::Size size,
                 const SceneOptions& options) {
  Check(size, options);
  Random random(seed, kSceneStreams + static_cast<uint32_t>(stream), index);
  Canvas canvas(size);

  const Colour first = RandomColour(random);
  const std::array<Colour, 2> ground = {first, SecondColour(random, first)};
  Composition composition(canvas);
  const int count =
      options.min_objects + random.Below(options.max_objects - options.min_objects + 1);
  for (int i = 0; i < count; ++i) composition.Add(random, options, ground);

  canvas.Fill(Texture(random, ground[0], ground[1]));
  PaintLitter(random, canvas, options.max_litter);
  Front front(size);
  const std::vector<Figure>& figures = composition.figures();
  for (size_t i = 0; i < figures.size(); ++i) {
    const Coverage coverage = canvas.Cover(figures[i].outline);
    PaintFigure(random, canvas, figures[i], coverage);
    front.Take(coverage, static_cast<int>(i));
  }
  Light(random, canvas);

  Sample sample{.rgb = canvas.Quantised()};
  Annotate(figures, front.owners(), sample);
  Expose(random, sample.rgb);
  return sample;
}

std::vector<cv::Size> SceneSizes(int side) {
  const int shorter = std::max(1, side * 3 / 4);
  return {{side, side}, {side, shorter}, {shorter, side}};
}

Scenes::Scenes(Options options) : options_(std::move(options)), map_labels_{"background"} {
  if (options_.sizes.empty()) throw std::invalid_argument("scenes have at least one size");
  for (const cv::Size size : options_.sizes) Check(size, options_.scene);
  for (Shape shape : options_.scene.shapes) labels_.emplace_back(training::Name(shape));
  map_labels_.insert(map_labels_.end(), labels_.begin(), labels_.end());
}

std::string Scenes::Name(uint64_t index) const { return "scene " + std::to_string(index); }

Sample Scenes::Get(uint64_t index) const {
  const cv::Size size = options_.sizes[index % options_.sizes.size()];
  return DrawScene(options_.seed, options_.stream, index, size, options_.scene);
}

}  // namespace fovea::models::training
