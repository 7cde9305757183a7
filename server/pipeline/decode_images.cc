#include "server/pipeline/decode_images.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/bytes_tensor.h"
#include "server/core/check.h"
#include "server/core/mutex.h"
#include "server/core/status.h"

namespace fovea {
namespace {

// Thread-safe; shared by the tasks of the images.
class Decoding {
 public:
  Decoding(const AcceptedInput& input, const PreprocessSpec& spec, const ImagingOptions& options,
           ImagingPool& pool, Clock& clock, absl::AnyInvocable<void(DecodedImages)> done)
      : input_(input),
        spec_(spec),
        options_(options),
        pool_(pool),
        clock_(clock),
        unfinished_(input.images),
        done_(std::move(done)) {
    pixels_.rgb.resize(spec.bytes() * input.images);
    if (input.kind == InputKind::kImage) {
      files_ = SplitBytesTensor(input.tensor->data, input.images);
      FOVEA_CHECK(files_.has_value());  // CheckRequest has seen to it
    }
  }

  // On a thread of the pool, once for each image that it took.
  void Run(int image, const absl::Status& turn) {
    ImagingTimes times;
    absl::Status status = turn;
    if (status.ok() && TakeTurn()) {
      status = Decode(image, &times);
      if (!status.ok() && input_.images > 1) status = Naming(image, status);
    }
    Finish(1, std::move(status), times);
  }

  // `images` are done with; on the last, the caller hears of it.
  void Finish(int images, absl::Status status, const ImagingTimes& times) {
    {
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      decode_ += times.decode;
      preprocess_ += times.preprocess;
      unfinished_ -= images;
      if (unfinished_ > 0) return;
    }
    done_(Result());
  }

 private:
  // Whether the image is still of use.
  bool TakeTurn() {
    MutexLock lock(mutex_);
    if (began_ == kNever) began_ = clock_.Now();
    return status_.ok();
  }

  absl::Status Naming(int image, const absl::Status& status) const {
    return MakeError(status.code(), ReasonOf(status),
                     absl::StrCat("image ", image + 1, " of ", input_.images, ": ",
                                  std::string(status.message())));
  }

  absl::Status Decode(int image, ImagingTimes* times) {
    const std::span<uint8_t> room =
        std::span(pixels_.rgb).subspan(image * spec_.bytes(), spec_.bytes());
    std::vector<std::byte> storage;
    if (files_) {
      return DecodeAndResize((*files_)[image].Contiguous(&storage), spec_, options_, pool_.budget(),
                             clock_, room, times);
    }
    const InputTensor& tensor = *input_.tensor;
    const int64_t height = tensor.shape[1], width = tensor.shape[2];
    const size_t size = static_cast<size_t>(height * width * 3);
    const ScatteredBytes::Piece rgb = tensor.data.Slice(image * size, size).Contiguous(&storage);
    const Nanos start = clock_.Now();
    const absl::Status status =
        ResizeRgb({reinterpret_cast<const uint8_t*>(rgb.data()), rgb.size()}, height, width, spec_,
                  options_.limits, room);
    times->preprocess = clock_.Now() - start;
    return status;
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
    result.ended = clock_.Now();
    // Images that were decoded side by side took less time together than one by one.
    const Nanos worked = decode_ + preprocess_;
    if (worked > 0) {
      result.decode =
          static_cast<Nanos>(static_cast<double>(result.ended - began_) * decode_ / worked);
    }
    return result;
  }

  const AcceptedInput input_;
  const PreprocessSpec& spec_;
  const ImagingOptions options_;
  ImagingPool& pool_;
  Clock& clock_;
  std::optional<std::vector<ScatteredBytes>> files_;
  DecodedPixels pixels_;  // each image has its own part, until the last is done

  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  Nanos began_ ABSL_GUARDED_BY(mutex_) = kNever;
  Nanos decode_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos preprocess_ ABSL_GUARDED_BY(mutex_) = 0;
  int unfinished_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void(DecodedImages)> done_;
};

}  // namespace

void DecodeImages(const AcceptedInput& input, const PreprocessSpec& spec,
                  const ImagingOptions& options, const CancellationPtr& cancellation,
                  Nanos deadline, ImagingPool& pool, Clock& clock,
                  absl::AnyInvocable<void(DecodedImages)> done) {
  const int images = input.images;
  const auto decoding =
      std::make_shared<Decoding>(input, spec, options, pool, clock, std::move(done));
  for (int image = 0; image < images; ++image) {
    absl::Status status = pool.Submit(
        {.run = [decoding, image](const absl::Status& turn) { decoding->Run(image, turn); },
         .cancellation = cancellation,
         .deadline = deadline});
    if (!status.ok()) {
      decoding->Finish(images - image, std::move(status), {});
      return;
    }
  }
}

}  // namespace fovea
