#include "model_zoo/training/data/loading/augmentation.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <utility>
#include <vector>

namespace fovea::models::training {
namespace {

constexpr float kMinSide = 1.0f;  // of a box, in pixels

// From a picture to an image: scaled, mirrored, and cut from `corner` on.
struct Placement {
  cv::Size scaled;  // the whole picture
  bool flipped = false;
  cv::Point corner;  // of the image in the scaled picture
  cv::Size content;  // of the image
};

cv::Size Scaled(cv::Size picture, cv::Size image, Framing framing, double scale) {
  const double across = double(image.width) / picture.width;
  const double down = double(image.height) / picture.height;
  scale *= framing == Framing::kWhole ? std::min(across, down) : std::max(across, down);
  return {std::max(1, static_cast<int>(std::lround(scale * picture.width))),
          std::max(1, static_cast<int>(std::lround(scale * picture.height)))};
}

Placement PlacementOf(cv::Size scaled, cv::Size image) {
  Placement placement{.scaled = scaled};
  placement.content = {std::min(scaled.width, image.width), std::min(scaled.height, image.height)};
  return placement;
}

cv::Mat PlacedPixels(const cv::Mat& rgb, const Placement& placement, cv::Size image) {
  cv::Mat scaled = rgb;
  if (placement.scaled != rgb.size()) {
    const bool shrinks = placement.scaled.area() < rgb.size().area();
    cv::resize(rgb, scaled, placement.scaled, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  }
  if (placement.flipped) {
    cv::Mat mirrored;
    cv::flip(scaled, mirrored, /*flipCode=*/1);
    scaled = mirrored;
  }
  cv::Mat placed = cv::Mat::zeros(image, CV_8UC3);
  scaled(cv::Rect(placement.corner, placement.content))
      .copyTo(placed(cv::Rect({0, 0}, placement.content)));
  return placed;
}

// Which pixel of the picture lies under the middle of each of the image's.
class Sources {
 public:
  Sources(cv::Size picture, const Placement& placement)
      : columns_(Along(picture.width, placement.scaled.width, placement.corner.x,
                       placement.content.width, placement.flipped)),
        rows_(Along(picture.height, placement.scaled.height, placement.corner.y,
                    placement.content.height, /*flipped=*/false)) {}

  // The content's part of `map`, of a whole picture.
  template <typename Level>
  void Gather(const cv::Mat& map, cv::Mat& to) const {
    for (size_t y = 0; y < rows_.size(); ++y) {
      const Level* from = map.ptr<Level>(rows_[y]);
      Level* row = to.ptr<Level>(static_cast<int>(y));
      for (size_t x = 0; x < columns_.size(); ++x) row[x] = from[columns_[x]];
    }
  }

  // Replaces the object's mask, and its box by the mask's. False where nothing of it is left.
  bool GatherMask(Object& object) const {
    const auto [left, right] = Covering(columns_, object.mask_area.x, object.mask_area.width);
    const auto [top, bottom] = Covering(rows_, object.mask_area.y, object.mask_area.height);
    const cv::Rect area(cv::Point(left, top), cv::Point(right, bottom));
    if (area.empty()) return false;
    const cv::Mat whole = object.mask();
    cv::Mat mask(area.size(), CV_8U);
    for (int y = 0; y < area.height; ++y) {
      const uint8_t* from = whole.ptr<uint8_t>(rows_[area.y + y] - object.mask_area.y);
      uint8_t* row = mask.ptr<uint8_t>(y);
      for (int x = 0; x < area.width; ++x) {
        row[x] = from[columns_[area.x + x] - object.mask_area.x];
      }
    }
    return SetMaskOfPixels(mask, area.tl(), object);
  }

 private:
  static std::vector<int> Along(int picture, int scaled, int corner, int count, bool flipped) {
    std::vector<int> sources(count);
    for (int i = 0; i < count; ++i) {
      const int64_t place = flipped ? scaled - 1 - (corner + i) : corner + i;
      sources[i] = static_cast<int>((2 * place + 1) * picture / (2 * int64_t{scaled}));
    }
    return sources;
  }

  // The image's pixels, from and to, whose sources lie in [start, start + length).
  static std::pair<int, int> Covering(const std::vector<int>& sources, int start, int length) {
    const auto inside = [start, length](int source) {
      return source >= start && source < start + length;
    };
    const auto first = std::find_if(sources.begin(), sources.end(), inside);
    const auto last = std::find_if_not(first, sources.end(), inside);
    return {static_cast<int>(first - sources.begin()), static_cast<int>(last - sources.begin())};
  }

  std::vector<int> columns_, rows_;
};

cv::Rect2f ScaledBox(const cv::Rect2f& box, cv::Size picture, const Placement& placement) {
  const float across = static_cast<float>(placement.scaled.width) / picture.width;
  const float down = static_cast<float>(placement.scaled.height) / picture.height;
  float left = box.x * across;
  const float width = box.width * across;
  if (placement.flipped) left = placement.scaled.width - left - width;
  return {left - placement.corner.x, box.y * down - placement.corner.y, width, box.height * down};
}

// False where the object is dropped.
bool Place(cv::Size picture, const Placement& placement, const Sources& sources, float min_left,
           Object& object) {
  const cv::Rect2f whole = ScaledBox(object.box, picture, placement);
  cv::Rect2f left = whole & cv::Rect2f(0, 0, placement.content.width, placement.content.height);
  if (!object.crowd && left.area() < min_left * whole.area()) return false;
  if (object.mask) {
    if (!sources.GatherMask(object)) return false;
    if (left != whole) left &= cv::Rect2f(object.mask_area);
  }
  object.box = left;
  return left.width >= kMinSide && left.height >= kMinSide;
}

PlacedSample Apply(const Sample& sample, const Placement& placement, cv::Size image,
                   float min_left) {
  const cv::Size picture = sample.rgb.size();
  const Sources sources(picture, placement);
  PlacedSample placed{
      {.rgb = PlacedPixels(sample.rgb, placement, image), .class_index = sample.class_index},
      placement.content};
  for (Object object : sample.objects) {
    if (Place(picture, placement, sources, min_left, object)) {
      placed.sample.objects.push_back(std::move(object));
    }
  }
  if (const int type = sample.class_map.type(); !sample.class_map.empty()) {
    cv::Mat map(image, type, cv::Scalar::all(IgnoredLevel(type)));
    type == CV_16U ? sources.Gather<uint16_t>(sample.class_map, map)
                   : sources.Gather<uint8_t>(sample.class_map, map);
    placed.sample.class_map = map;
  }
  return placed;
}

// Brightness, contrast about the mean, and saturation, in one pass.
void Recolour(cv::Mat rgb, float brightness, float contrast, float saturation) {
  const cv::Scalar means = cv::mean(rgb);
  const float middle = static_cast<float>(0.30 * means[0] + 0.59 * means[1] + 0.11 * means[2]);
  for (int y = 0; y < rgb.rows; ++y) {
    uint8_t* pixel = rgb.ptr<uint8_t>(y);
    for (int x = 0; x < rgb.cols; ++x, pixel += 3) {
      const float grey = 0.30f * pixel[0] + 0.59f * pixel[1] + 0.11f * pixel[2];
      for (int channel = 0; channel < 3; ++channel) {
        const float coloured = grey + saturation * (static_cast<float>(pixel[channel]) - grey);
        const float level = brightness * (middle + contrast * (coloured - middle));
        pixel[channel] = static_cast<uint8_t>(std::clamp(level + 0.5f, 0.0f, 255.0f));
      }
    }
  }
}

}  // namespace

PlacedSample Placed(const Sample& sample, cv::Size image, Framing framing) {
  Placement placement = PlacementOf(Scaled(sample.rgb.size(), image, framing, 1.0), image);
  placement.corner = cv::Point((placement.scaled - placement.content)) / 2;
  return Apply(sample, placement, image, /*min_left=*/0);
}

PlacedSample Augmented(const Sample& sample, cv::Size image, Framing framing,
                       const AugmentationOptions& options, Random& random) {
  const float scale = random.Uniform(options.min_scale, options.max_scale);
  Placement placement = PlacementOf(Scaled(sample.rgb.size(), image, framing, scale), image);
  placement.flipped = random.Chance(options.flip);
  const cv::Size room = placement.scaled - placement.content;
  placement.corner.x = random.Below(room.width + 1);
  placement.corner.y = random.Below(room.height + 1);
  PlacedSample placed = Apply(sample, placement, image, options.min_left);

  const auto factor = [&] { return random.Uniform(1 - options.colour, 1 + options.colour); };
  const float brightness = factor(), contrast = factor(), saturation = factor();
  if (options.colour > 0) {
    Recolour(placed.sample.rgb(cv::Rect({0, 0}, placed.content)), brightness, contrast, saturation);
  }
  return placed;
}

}  // namespace fovea::models::training
