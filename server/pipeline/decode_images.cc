#include "server/pipeline/decode_images.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/mutex.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/probe.h"

namespace fovea {
namespace {

ImageKind KindOf(const ImageInfo& info) {
  switch (info.format) {
    case ImageFormat::kJpeg:
      return info.scans > 1 ? ImageKind::kProgressiveJpeg : ImageKind::kJpeg;
    case ImageFormat::kPng:
      return ImageKind::kPng;
    case ImageFormat::kWebp:
      return ImageKind::kWebp;
    case ImageFormat::kGif:
    case ImageFormat::kBmp:
      return ImageKind::kGifOrBmp;
    case ImageFormat::kTiff:
      return ImageKind::kTiff;
    case ImageFormat::kAvif:
      return ImageKind::kAvif;
  }
  return ImageKind::kUnknown;
}

std::optional<ImageInfo> Peek(const ScatteredBytes& file) {
  std::vector<std::byte> storage;
  const ScatteredBytes beginning = file.Slice(0, std::min(file.size(), kPeekBytes));
  return PeekImage(beginning.Contiguous(&storage));
}

// Thread-safe; shared by the tasks of the images.
class Decoding {
 public:
  Decoding(ImagesToDecode images, const PreprocessSpec& spec, const ImagingOptions& options,
           ImagingPool& pool, const CancellationPtr& cancellation, const DecodeOrder& order,
           Clock& clock, absl::AnyInvocable<void(DecodedImages)> done)
      : images_(std::move(images)),
        spec_(spec),
        options_(options),
        resources_{.budget = pool.budget(),
                   .clock = clock,
                   .until = order.deadline,
                   .rank = {order.priority, order.order},
                   .cancellation = cancellation},
        unfinished_(images_.input.images),
        done_(std::move(done)) {}

  // On a thread of the pool, once for each image that it took.
  ImagingOutcome Run(int image, const absl::Status& turn) {
    ImageDurations durations;
    absl::Status status = turn;
    bool decoded = false;
    if (status.ok() && TakeTurn(&status)) {
      // Gathering an image that lies in several slices takes as much memory as the image.
      status = OrOutOfMemory([&] { return Decode(image, &durations); });
      decoded = status.ok();
      if (!status.ok() && images_.input.images > 1) status = Naming(image, status);
    }
    Finish(1, std::move(status), durations);
    return {decoded, durations.wait};
  }

  // `images` are done with; on the last, the caller hears of it.
  void Finish(int images, absl::Status status, const ImageDurations& durations) {
    {
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      decode_ += durations.decode;
      preprocess_ += durations.preprocess;
      thread_time_ += durations.wait + durations.decode + durations.preprocess;
      if (durations.decoded != kNever) {
        first_decoded_ = std::min(first_decoded_, durations.decoded);
        last_decoded_ = last_decoded_ == kNever ? durations.decoded
                                                : std::max(last_decoded_, durations.decoded);
      }
      unfinished_ -= images;
      if (unfinished_ > 0) return;
    }
    done_(Result());
  }

 private:
  // Whether the image is still of use. The first one's turn makes room for all.
  bool TakeTurn(absl::Status* status) {
    MutexLock lock(mutex_);
    if (began_ == kNever) {
      began_ = resources_.clock.Now();
      *status = OrOutOfMemory([this] {
        pixels_.images.resize(images_.input.images);
        return absl::OkStatus();
      });
      if (!status->ok()) status_ = *status;
    }
    return status_.ok();
  }

  absl::Status Naming(int image, const absl::Status& status) const {
    return MakeError(status.code(), ReasonOf(status),
                     absl::StrCat("image ", image + 1, " of ", images_.input.images, ": ",
                                  std::string(status.message())));
  }

  absl::Status Decode(int image, ImageDurations* durations) {
    ResizedImage& to = pixels_.images[image];
    if (images_.input.kind == InputKind::kImage) {
      FOVEA_ASSIGN_OR_RETURN(
          to, DecodeAndResize(images_.images[image], spec_, options_, resources_, durations));
      return absl::OkStatus();
    }
    const std::vector<int64_t>& shape = images_.input.tensor->shape;
    FOVEA_ASSIGN_OR_RETURN(to, ResizeRgb(images_.images[image], shape[1], shape[2], spec_,
                                         options_.limits, resources_, durations));
    return absl::OkStatus();
  }

  // After the last image.
  DecodedImages Result() {
    MutexLock lock(mutex_);
    DecodedImages result;
    if (status_.ok()) {
      result.pixels = std::move(pixels_);
    } else {
      result.pixels = status_;
    }
    result.began = began_;
    if (began_ == kNever) return result;
    result.ended = resources_.clock.Now();
    result.first_decoded = first_decoded_;
    result.last_decoded = last_decoded_;
    result.thread_time = thread_time_;
    // Images that were decoded side by side took less time together than one by one.
    const Nanos worked = decode_ + preprocess_;
    if (worked > 0) {
      result.decode =
          static_cast<Nanos>(static_cast<double>(result.ended - began_) * decode_ / worked);
    }
    return result;
  }

  const ImagesToDecode images_;
  const PreprocessSpec& spec_;
  const ImagingOptions options_;
  const ImagingResources resources_;
  // Made at the first turn; each image has its own part, until the last is done.
  DecodedPixels pixels_;

  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  Nanos began_ ABSL_GUARDED_BY(mutex_) = kNever;
  Nanos decode_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos preprocess_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos thread_time_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos first_decoded_ ABSL_GUARDED_BY(mutex_) = kNever;
  Nanos last_decoded_ ABSL_GUARDED_BY(mutex_) = kNever;
  int unfinished_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void(DecodedImages)> done_;
};

}  // namespace

ImagesToDecode::ImagesToDecode(AcceptedInput accepted, const PreprocessSpec& spec)
    : input(std::move(accepted)) {
  if (input.kind == InputKind::kImage) {
    images = std::exchange(input.files, {});
    for (const ScatteredBytes& file : images) {
      const std::optional<ImageInfo> info = Peek(file);
      work.push_back(info ? ImagingWork{KindOf(*info), info->pixels(), HalvingsFor(*info, spec)}
                          : ImagingWork{ImageKind::kUnknown, static_cast<int64_t>(file.size())});
      sizes.push_back(info ? std::optional(ImageSize{info->height, info->width}) : std::nullopt);
    }
    return;
  }
  const InputTensor& tensor = *input.tensor;
  const int64_t pixels = tensor.shape[1] * tensor.shape[2];
  for (int i = 0; i < input.images; ++i)
    images.push_back(tensor.data.Slice(3 * pixels * i, 3 * pixels));
  work.assign(input.images, {ImageKind::kPixels, pixels});
  sizes.assign(input.images, ImageSize{tensor.shape[1], tensor.shape[2]});
}

void DecodeImages(ImagesToDecode images, const PreprocessSpec& spec, const ImagingOptions& options,
                  const CancellationPtr& cancellation, const DecodeOrder& order, ImagingLine& line,
                  ImagingPool& pool, Clock& clock, absl::AnyInvocable<void(DecodedImages)> done) {
  const std::vector<ImagingWork> work = images.work;
  const int count = images.input.images;
  const auto decoding = std::make_shared<Decoding>(std::move(images), spec, options, pool,
                                                   cancellation, order, clock, std::move(done));
  std::vector<ImagingTask> tasks(count);
  for (int image = 0; image < count; ++image) {
    tasks[image] = {
        .run = [decoding, image](const absl::Status& turn) { return decoding->Run(image, turn); },
        .outline = {.work = work[image],
                    .priority = order.priority,
                    .order = order.order,
                    .ready_by = order.ready_by},
        .cancellation = cancellation,
        .deadline = order.deadline};
  }
  if (absl::Status status = line.Submit(tasks); !status.ok()) {
    decoding->Finish(count, std::move(status), {});
  }
}

}  // namespace fovea
