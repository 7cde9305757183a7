// Samples as tensors: brought to one size, augmented or not, on threads of their own ahead of the
// training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model_zoo/model_description.h"
#include "model_zoo/training/data/loading/augmentation.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// What is true of one image of a batch of images [height, width].
struct ImageTruth {
  // In pixels of the image: left, top, right, bottom. FP32 [M, 4]; M may be 0.
  at::Tensor boxes;
  at::Tensor labels;  // INT64 [M]: places in SampleSource::labels()
  at::Tensor masks;   // UINT8 [M, height, width], 1 or 0; [0, height, width] without masks
  // Regions of many objects: what lies there is neither right nor wrong. FP32 [K, 4].
  at::Tensor crowds;
};

struct TrainingBatch {
  at::Tensor pixels;  // UINT8 [N, height, width, 3], RGB; 0 where no picture is
  // How much of each image, from its upper left corner, shows the picture.
  std::vector<ImageSize> contents;
  std::vector<uint64_t> indices;  // of the samples, in their source

  // Filled as the source's GroundTruth says.
  at::Tensor classes;              // INT64 [N]
  std::vector<ImageTruth> images;  // N
  at::Tensor class_map;            // INT64 [N, height, width]; kIgnored: not known, or no picture

  static constexpr int64_t kIgnored = -100;  // as ATen's cross entropy has it
};

// Samples of images of that size as one batch.
TrainingBatch Collate(const GroundTruth& truth, const std::vector<PlacedSample>& samples,
                      ImageSize size);

// UINT8 [N, H, W, 3] to FP32 [N, 3, H, W], pixels in [0, 1] less the mean, by the deviation; 0
// where no picture is, as the server fills inputs up.
at::Tensor NormalisedSamples(const TrainingBatch& batch, const Preprocessing& preprocessing);

// Samples that became unreadable after the first reading: each is reported once and skipped from
// then on. Thread-safe.
class BrokenSamples {
 public:
  // `tell`: gets a sentence about each, on the thread that loads it.
  BrokenSamples(uint64_t samples, std::function<void(const std::string&)> tell);

  bool Has(uint64_t index) const;
  // Throws DataError where this is the eleventh, or they are more than half of the samples: it is
  // the disk that broke.
  void Add(uint64_t index, const DataError& error);

 private:
  const uint64_t samples_;
  const std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::set<uint64_t> indices_;
};

struct SampleLoaderOptions {
  int64_t batch_size = 16;
  ImageSize size = {128, 128};  // of the images
  Framing framing = Framing::kWhole;
  uint64_t seed = 1;  // of order and augmentation
  // Training: epoch after epoch without end, each in another order (an endless source's in its
  // own). Otherwise the samples once and in order, the last batch as small as it comes out.
  bool training = true;
  std::optional<AugmentationOptions> augmentation;  // none: samples are only brought to size
  bool masks = true;                                // of objects, where the source has some
  // Batches made at a time, each on a thread of its own, while the caller uses an earlier one.
  int threads = 1;
  // To go on after a stop: so many batches count as taken.
  int64_t first_batch = 0;
  // In a training the next sample of the source takes the place of a broken one; otherwise its
  // batch is smaller. None: a broken one is an error.
  std::shared_ptr<BrokenSamples> broken;
};

// What comes is a function of source and options but for the number of threads, where no sample
// breaks. Not thread-safe.
class SampleLoader {
 public:
  // The source outlives the loader. Throws DataError where it has no sample.
  SampleLoader(const SampleSource& source, SampleLoaderOptions options);
  SampleLoader(const SampleLoader&) = delete;
  SampleLoader& operator=(const SampleLoader&) = delete;

  // Samples over their number in a batch, rounded up; 0 of an endless source. The batches of a
  // training are full: one of them may hold the end of an epoch and the beginning of the next.
  int64_t batches_per_epoch() const;

  // Without images after the last one, where there is a last one, and where all of its samples are
  // broken. Throws what the source does, and DataError where a picture has so many objects that
  // their masks, of the size of the images, take more than kMaxMaskBytes (CheckMasks): such a
  // sample is broken.
  TrainingBatch Next();

 private:
  TrainingBatch Make(int64_t batch) const;
  Sample Read(uint64_t index) const;
  // The sample at `index`, or behind it, of which `index` is set; none of a broken one that nothing
  // takes the place of.
  std::optional<Sample> ReadWhole(uint64_t& index) const;
  void MakeAnother();

  const SampleSource& source_;
  const SampleLoaderOptions options_;
  int64_t started_;  // batches
  std::deque<std::future<TrainingBatch>> making_;
};

}  // namespace fovea::models::training
