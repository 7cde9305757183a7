// One decoder per library; pixels as stored, not yet upright. Only for decode*.cc.
#pragma once

#include "server/imaging/decode.h"

namespace fovea {

// TurboJPEG.
absl::StatusOr<RgbImage> DecodeJpeg(Bytes encoded, const ImageInfo& info);
// OpenCV's libpng and libwebp.
absl::StatusOr<RgbImage> DecodePng(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeWebp(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options);

}  // namespace fovea
