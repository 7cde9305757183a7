#include "server/imaging/preprocess.h"

#include "absl/cleanup/cleanup.h"
#include "server/core/check.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/probe.h"
#include "server/imaging/probe_formats.h"
#include "server/imaging/resample.h"

namespace fovea {
namespace {

absl::Status ResizeAndCrop(std::span<const uint8_t> rgb, int64_t height, int64_t width,
                           const PreprocessSpec& spec, std::span<uint8_t> out) {
  FOVEA_CHECK(static_cast<int64_t>(out.size()) == spec.bytes());
  const ResizePlan plan = PlanResize(height, width, spec);
  return RunCodec([&]() -> std::string {
    Resample(rgb.data(), height, width, plan, spec.interpolation, out.data());
    return {};
  });
}

}  // namespace

absl::Status DecodeAndResize(Bytes encoded, const PreprocessSpec& spec,
                             const ImagingOptions& options, PixelBudget& budget, const Clock& clock,
                             std::span<uint8_t> out, ImagingTimes* times) {
  const Nanos start = clock.Now();
  Nanos decoded = 0;
  const absl::Cleanup note_times = [&] {
    if (times == nullptr) return;
    const Nanos end = clock.Now();
    *times = {.decode = (decoded != 0 ? decoded : end) - start,
              .preprocess = decoded != 0 ? end - decoded : 0};
  };
  FOVEA_ASSIGN_OR_RETURN(const ImageInfo info, ProbeImage(encoded, options.limits));
  FOVEA_ASSIGN_OR_RETURN(const PixelBudget::Reservation reserved,
                         budget.Reserve(info.decode_bytes));
  FOVEA_ASSIGN_OR_RETURN(const RgbImage image, DecodeImage(encoded, info, options.decode));
  decoded = clock.Now();
  return ResizeAndCrop(image.bytes(), image.height, image.width, spec, out);
}

absl::Status ResizeRgb(std::span<const uint8_t> rgb, int64_t height, int64_t width,
                       const PreprocessSpec& spec, const ImageLimits& limits,
                       std::span<uint8_t> out) {
  FOVEA_RETURN_IF_ERROR(CheckSize(width, height, limits));
  if (static_cast<int64_t>(rgb.size()) != 3 * height * width) {
    return InvalidArgument("image.bad_size", "the pixels do not fill the image's height and width");
  }
  return ResizeAndCrop(rgb, height, width, spec, out);
}

}  // namespace fovea
