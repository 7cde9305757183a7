#include "server/imaging/preprocess.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/exif.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/probe.h"
#include "server/imaging/probe_formats.h"
#include "server/imaging/resample.h"
#include "server/scheduler/refusal.h"

namespace fovea {
namespace {

// Pixels, and where in them the caller's image lies.
struct SourcePixels {
  std::span<const uint8_t> rgb;  // [height, width, 3]
  int64_t height = 0, width = 0;
  SourceBox box;
};

// `size`: of the caller's image, which may have been decoded smaller.
absl::StatusOr<ResizedImage> ResizeAndCrop(const SourcePixels& from, const ImageSize& size,
                                           const PreprocessSpec& spec) {
  const ResizePlan plan = PlanResize(size.height, size.width, spec);
  ResizedImage image{.transform = {.source_height = size.height,
                                   .source_width = size.width,
                                   .resized_height = plan.resized_height,
                                   .resized_width = plan.resized_width,
                                   .top = plan.top,
                                   .left = plan.left,
                                   .height = plan.height,
                                   .width = plan.width,
                                   .input_height = spec.sizes[plan.size].height,
                                   .input_width = spec.sizes[plan.size].width},
                     .size = plan.size};
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    image.rgb.resize(plan.bytes());
    Resample(from.rgb.data(), from.height, from.width, from.box, plan, spec.interpolation,
             image.rgb.data());
    return {};
  }));
  return image;
}

// The bytes of `scattered` in one piece, and what that costs. Tensors and files mostly come in one.
int64_t GatherBytes(const ScatteredBytes& scattered) {
  return scattered.pieces().size() > 1 ? static_cast<int64_t>(scattered.size()) : 0;
}

absl::Status Gather(const ScatteredBytes& scattered, std::vector<std::byte>* storage,
                    Bytes* whole) {
  return RunCodec([&]() -> std::string {
    *whole = scattered.Contiguous(storage);
    return {};
  });
}

// Whether an image fits does not depend on the pieces in which it happens to have come.
absl::Status CheckFits(const ImagingResources& resources, int64_t bytes) {
  if (bytes <= resources.budget.capacity()) return absl::OkStatus();
  return ResourceExhausted(
      "image.too_large_to_decode",
      absl::StrCat("decoding the image takes ", bytes, " bytes; this server has ",
                   resources.budget.capacity(), " for all (--imaging-memory)"));
}

// `bytes` have been found to fit. Adds to `waited`.
absl::StatusOr<MemoryBudget::Hold> Await(const ImagingResources& resources, int64_t bytes,
                                         Nanos* waited) {
  std::optional<MemoryBudget::Hold> hold = resources.budget.TryHold(bytes);
  if (hold) return *std::move(hold);
  const Nanos start = resources.clock.Now();
  Cancellation* cancellation = resources.cancellation.get();
  hold = resources.budget.AwaitHold(bytes, resources.until, resources.rank, cancellation);
  *waited += resources.clock.Now() - start;
  if (cancellation != nullptr && cancellation->Cancelled()) return refusal::CallerGone();
  if (!hold) return refusal::Expired();
  return *std::move(hold);
}

// A file in one piece, what its header says, and the memory that decoding it takes.
struct OpenedImage {
  std::vector<std::byte> storage;
  Bytes encoded;
  ImageInfo info;
  MemoryBudget::Hold hold;
};

absl::StatusOr<OpenedImage> Open(const ScatteredBytes& file, const ImageLimits& limits,
                                 const ImagingResources& resources,
                                 absl::FunctionRef<int64_t(const ImageInfo& info)> bytes_for,
                                 Nanos* waited) {
  const int64_t gathered = GatherBytes(file);
  FOVEA_RETURN_IF_ERROR(CheckFits(resources, static_cast<int64_t>(file.size())));
  OpenedImage image;
  FOVEA_ASSIGN_OR_RETURN(image.hold, Await(resources, gathered, waited));
  FOVEA_RETURN_IF_ERROR(Gather(file, &image.storage, &image.encoded));
  FOVEA_ASSIGN_OR_RETURN(image.info, ProbeImage(image.encoded, limits));
  const int64_t more = bytes_for(image.info);
  FOVEA_RETURN_IF_ERROR(CheckFits(resources, static_cast<int64_t>(file.size()) + more));
  if (image.hold.TryGrow(more)) return image;
  // It waits for the whole, and holds nothing meanwhile.
  image.storage = std::vector<std::byte>();  // a mere {} would keep the allocation
  image.hold = {};
  FOVEA_ASSIGN_OR_RETURN(image.hold, Await(resources, gathered + more, waited));
  FOVEA_RETURN_IF_ERROR(Gather(file, &image.storage, &image.encoded));
  return image;
}

ImageSize UprightSize(const ImageInfo& info) {
  return TurnOf(info.orientation).transposed ? ImageSize{info.width, info.height}
                                             : ImageSize{info.height, info.width};
}

}  // namespace

absl::StatusOr<DecodedImage> DecodeUpright(
    const ScatteredBytes& file, const ImagingOptions& options, const ImagingResources& resources,
    absl::FunctionRef<int64_t(const ImageInfo& info)> further_bytes) {
  Nanos waited = 0;
  const auto bytes_for = [&](const ImageInfo& info) {
    return info.decode_bytes + further_bytes(info);
  };
  FOVEA_ASSIGN_OR_RETURN(OpenedImage opened,
                         Open(file, options.limits, resources, bytes_for, &waited));
  FOVEA_ASSIGN_OR_RETURN(RgbImage pixels, DecodeImage(opened.encoded, opened.info, options.decode));
  return DecodedImage{std::move(pixels), std::move(opened.hold)};
}

absl::StatusOr<ResizedImage> DecodeAndResize(const ScatteredBytes& file, const PreprocessSpec& spec,
                                             const ImagingOptions& options,
                                             const ImagingResources& resources,
                                             ImageDurations* durations) {
  const Clock& clock = resources.clock;
  const Nanos start = clock.Now();
  Nanos waited = 0, decoded = 0;
  const absl::Cleanup note_durations = [&] {
    if (durations == nullptr) return;
    const Nanos end = clock.Now();
    *durations = {.wait = waited,
                  .decode = (decoded != 0 ? decoded : end) - start - waited,
                  .preprocess = decoded != 0 ? end - decoded : 0,
                  .decoded = decoded != 0 ? decoded : kNever};
  };
  DecodeOptions decode = options.decode;
  const auto bytes_for = [&](const ImageInfo& info) {
    decode.halvings = HalvingsFor(info, spec);
    return DecodeBytes(info, decode.halvings);
  };
  FOVEA_ASSIGN_OR_RETURN(const OpenedImage opened,
                         Open(file, options.limits, resources, bytes_for, &waited));
  FOVEA_ASSIGN_OR_RETURN(const RgbImage image, DecodeImage(opened.encoded, opened.info, decode));
  decoded = clock.Now();
  return ResizeAndCrop({.rgb = image.bytes(),
                        .height = image.height,
                        .width = image.width,
                        .box = DecodedBox(opened.info, decode.halvings)},
                       UprightSize(opened.info), spec);
}

absl::StatusOr<ResizedImage> ResizeRgb(const ScatteredBytes& rgb, int64_t height, int64_t width,
                                       const PreprocessSpec& spec, const ImageLimits& limits,
                                       const ImagingResources& resources,
                                       ImageDurations* durations) {
  const Nanos start = resources.clock.Now();
  Nanos waited = 0;
  const absl::Cleanup note_durations = [&] {
    if (durations == nullptr) return;
    *durations = {.wait = waited, .preprocess = resources.clock.Now() - start - waited};
  };
  FOVEA_RETURN_IF_ERROR(CheckSize(width, height, limits));
  if (static_cast<int64_t>(rgb.size()) != 3 * height * width) {
    return InvalidArgument("image.bad_size", "the pixels do not fill the image's height and width");
  }
  FOVEA_RETURN_IF_ERROR(CheckFits(resources, static_cast<int64_t>(rgb.size())));
  FOVEA_ASSIGN_OR_RETURN(const MemoryBudget::Hold hold,
                         Await(resources, GatherBytes(rgb), &waited));
  std::vector<std::byte> storage;
  Bytes whole;
  FOVEA_RETURN_IF_ERROR(Gather(rgb, &storage, &whole));
  return ResizeAndCrop({.rgb = {reinterpret_cast<const uint8_t*>(whole.data()), whole.size()},
                        .height = height,
                        .width = width,
                        .box = SourceBox::Whole(height, width)},
                       {height, width}, spec);
}

}  // namespace fovea
