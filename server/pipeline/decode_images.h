// Turns the images of one request into the bytes that its model takes, each image on a thread of
// the imaging pool.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/admission/request_rules.h"
#include "server/core/clock.h"
#include "server/executor/inference_task.h"
#include "server/imaging/imaging_pool.h"
#include "server/imaging/preprocess.h"

namespace fovea {

struct DecodedImages {
  absl::StatusOr<DecodedPixels> pixels;
  // From the first image's turn to the last one's end; both kNever where none had its turn.
  Nanos began = kNever;
  Nanos ended = kNever;
  // Of the time between, what went into decoding; the rest resized.
  Nanos decode = 0;
};

// `input` was accepted (CheckRequest) and is of kind kImage or kImageRgb; it, `spec`, `pool` and
// `clock` outlive the call of `done`. `done` is called exactly once: on a thread of the pool, or
// here where the pool takes none of the images. Errors: those of DecodeAndResize and ImagingPool;
// the first one ends the others' work.
void DecodeImages(const AcceptedInput& input, const PreprocessSpec& spec,
                  const ImagingOptions& options, const CancellationPtr& cancellation,
                  Nanos deadline, ImagingPool& pool, Clock& clock,
                  absl::AnyInvocable<void(DecodedImages)> done);

}  // namespace fovea
