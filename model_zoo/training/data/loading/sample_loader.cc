#include "model_zoo/training/data/loading/sample_loader.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "model_zoo/training/data/loading/shuffle.h"

namespace fovea::models::training {
namespace {

constexpr uint32_t kAugmentationStream = 64;  // of Random: no picture's or scene's

// Boxes of the objects that are crowds, or of the others.
at::Tensor BoxesOf(const std::vector<Object>& objects, bool crowds) {
  std::vector<float> corners;
  for (const Object& object : objects) {
    if (object.crowd != crowds) continue;
    const cv::Rect2f& box = object.box;
    corners.insert(corners.end(), {box.x, box.y, box.x + box.width, box.y + box.height});
  }
  return at::tensor(corners, at::kFloat).view({-1, 4});
}

ImageTruth TruthOf(const std::vector<Object>& objects, bool masks, ImageSize size) {
  ImageTruth truth{.boxes = BoxesOf(objects, /*crowds=*/false),
                   .crowds = BoxesOf(objects, /*crowds=*/true)};
  const int64_t count = truth.boxes.size(0);
  truth.labels = at::empty({count}, at::kLong);
  truth.masks = at::empty({masks ? count : 0, size.height, size.width}, at::kByte);
  auto* label = truth.labels.mutable_data_ptr<int64_t>();
  auto* mask = truth.masks.mutable_data_ptr<uint8_t>();
  // Not at::zeros, which would start a team of OpenMP threads on every thread of a loader.
  std::memset(mask, 0, truth.masks.nbytes());
  for (const Object& object : objects) {
    if (object.crowd) continue;
    *label++ = object.class_index;
    if (!masks) continue;
    const cv::Mat shown = object.mask();
    for (int y = 0; y < object.mask_area.height; ++y) {
      const uint8_t* from = shown.ptr<uint8_t>(y);
      uint8_t* to = mask + (object.mask_area.y + y) * size.width + object.mask_area.x;
      for (int x = 0; x < object.mask_area.width; ++x) to[x] = from[x] != 0;
    }
    mask += size.height * size.width;
  }
  return truth;
}

template <typename Level>
void CopyLevels(const cv::Mat& map, int64_t* to) {
  const int ignored = IgnoredLevel(map.type());
  for (int y = 0; y < map.rows; ++y) {
    const Level* row = map.ptr<Level>(y);
    for (int x = 0; x < map.cols; ++x) {
      *to++ = row[x] == ignored ? TrainingBatch::kIgnored : int64_t{row[x]};
    }
  }
}

}  // namespace

TrainingBatch Collate(const GroundTruth& truth, const std::vector<PlacedSample>& samples,
                      ImageSize size) {
  const auto count = static_cast<int64_t>(samples.size());
  TrainingBatch batch{.pixels = at::empty({count, size.height, size.width, 3}, at::kByte)};
  auto* pixels = batch.pixels.mutable_data_ptr<uint8_t>();
  if (truth.class_index) batch.classes = at::empty({count}, at::kLong);
  if (truth.class_map) batch.class_map = at::empty({count, size.height, size.width}, at::kLong);
  const int64_t area = size.height * size.width;
  for (int64_t i = 0; i < count; ++i) {
    const auto& [sample, content] = samples[i];
    TORCH_INTERNAL_ASSERT(sample.rgb.isContinuous() && sample.rgb.rows == size.height &&
                          sample.rgb.cols == size.width);
    std::memcpy(pixels + i * 3 * area, sample.rgb.data, 3 * area);
    batch.contents.push_back({content.height, content.width});
    if (truth.class_index) batch.classes.mutable_data_ptr<int64_t>()[i] = *sample.class_index;
    if (truth.boxes) batch.images.push_back(TruthOf(sample.objects, truth.masks, size));
    if (truth.class_map) {
      int64_t* levels = batch.class_map.mutable_data_ptr<int64_t>() + i * area;
      sample.class_map.type() == CV_16U ? CopyLevels<uint16_t>(sample.class_map, levels)
                                        : CopyLevels<uint8_t>(sample.class_map, levels);
    }
  }
  return batch;
}

at::Tensor NormalisedSamples(const TrainingBatch& batch, const Preprocessing& preprocessing) {
  const auto channels = [](const std::array<float, 3>& values) {
    return at::tensor(at::ArrayRef<float>(values), at::kFloat).view({1, 3, 1, 1});
  };
  at::Tensor normalised =
      batch.pixels.permute({0, 3, 1, 2})
          .to(at::kFloat, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous)
          .div_(255.0f)
          .sub_(channels(preprocessing.mean))
          .div_(channels(preprocessing.std));
  const int64_t height = normalised.size(2), width = normalised.size(3);
  for (size_t i = 0; i < batch.contents.size(); ++i) {
    at::Tensor image = normalised[static_cast<int64_t>(i)];
    const ImageSize& content = batch.contents[i];
    if (content.height < height) image.slice(1, content.height).zero_();
    if (content.width < width) image.slice(2, content.width).zero_();
  }
  return normalised;
}

BrokenSamples::BrokenSamples(uint64_t samples, std::function<void(const std::string&)> tell)
    : samples_(samples), tell_(std::move(tell)) {}

bool BrokenSamples::Has(uint64_t index) const {
  const std::lock_guard lock(mutex_);
  return indices_.contains(index);
}

void BrokenSamples::Add(uint64_t index, const DataError& error) {
  constexpr size_t kMost = 10;
  const std::lock_guard lock(mutex_);
  if (!indices_.insert(index).second) return;
  if (indices_.size() > kMost || 2 * indices_.size() > samples_) {
    throw DataError(std::to_string(indices_.size()) + " of " + std::to_string(samples_) +
                    " pictures can no longer be read, the last: " + error.what());
  }
  tell_(std::string(error.what()) + ": it is left out from now on");
}

SampleLoader::SampleLoader(const SampleSource& source, SampleLoaderOptions options)
    : source_(source), options_(std::move(options)), started_(options_.first_batch) {
  TORCH_CHECK_VALUE(options_.batch_size > 0, "a batch has at least one image");
  TORCH_CHECK_VALUE(options_.size.height > 0 && options_.size.width > 0,
                    "an image has at least one pixel");
  if (source_.size() == 0) throw DataError("there is no picture to load");
  for (int i = 0; i < std::max(1, options_.threads); ++i) MakeAnother();
}

int64_t SampleLoader::batches_per_epoch() const {
  if (source_.size() == SampleSource::kEndless) return 0;
  const auto samples = static_cast<int64_t>(source_.size());
  return (samples + options_.batch_size - 1) / options_.batch_size;
}

Sample SampleLoader::Read(uint64_t index) const {
  Sample sample = source_.Get(index);
  if (source_.ground_truth().masks && options_.masks) {
    const int64_t masks = std::ranges::count_if(
        sample.objects, [](const Object& object) { return object.mask && !object.crowd; });
    CheckMasks(source_.Name(index), masks, options_.size.height * options_.size.width);
  }
  return sample;
}

std::optional<Sample> SampleLoader::ReadWhole(uint64_t& index) const {
  if (!options_.broken) return Read(index);
  // Ends: more than half of the samples are whole.
  for (;; index = (index + 1) % source_.size()) {
    try {
      if (!options_.broken->Has(index)) return Read(index);
    } catch (const DataError& error) {
      options_.broken->Add(index, error);
    }
    if (!options_.training) return std::nullopt;
  }
}

TrainingBatch SampleLoader::Make(int64_t number) const {
  GroundTruth truth = source_.ground_truth();
  truth.masks &= options_.masks;
  const uint64_t count = source_.size();
  const bool endless = count == SampleSource::kEndless;
  const cv::Size size(static_cast<int>(options_.size.width),
                      static_cast<int>(options_.size.height));
  std::vector<PlacedSample> samples;
  std::vector<uint64_t> indices;
  for (int64_t i = 0; i < options_.batch_size; ++i) {
    const auto place = static_cast<uint64_t>(number * options_.batch_size + i);
    if (!options_.training && place >= count) break;
    uint64_t index = endless || !options_.training
                         ? place
                         : Shuffled(place % count, count, options_.seed, place / count);
    const std::optional<Sample> sample = ReadWhole(index);
    if (!sample) continue;
    Random random(options_.seed, kAugmentationStream, place);
    samples.push_back(options_.augmentation ? Augmented(*sample, size, options_.framing,
                                                        *options_.augmentation, random)
                                            : Placed(*sample, size, options_.framing));
    indices.push_back(index);
  }
  TrainingBatch batch = Collate(truth, samples, options_.size);
  batch.indices = std::move(indices);
  return batch;
}

void SampleLoader::MakeAnother() {
  making_.push_back(
      std::async(std::launch::async, [this, number = started_] { return Make(number); }));
  ++started_;
}

TrainingBatch SampleLoader::Next() {
  std::future<TrainingBatch> made = std::move(making_.front());
  making_.pop_front();
  made.wait();
  MakeAnother();  // before what was made may throw: one bad sample does not end the others
  return made.get();
}

}  // namespace fovea::models::training
