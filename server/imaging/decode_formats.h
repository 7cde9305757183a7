// One decoder per library; pixels as stored, not yet upright. Only for decode*.cc.
#pragma once

#include "server/imaging/decode.h"

namespace fovea {

absl::StatusOr<RgbImage> DecodeJpeg(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodePng(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeWebp(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeGif(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeBmp(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeTiff(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options);
absl::StatusOr<RgbImage> DecodeAvif(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options);

}  // namespace fovea
