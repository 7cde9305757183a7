// Turns the images of one request into the bytes that its model takes, each image on a thread of
// the imaging pool.
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/admission/request_rules.h"
#include "server/core/clock.h"
#include "server/executor/inference_task.h"
#include "server/imaging/imaging_pool.h"
#include "server/imaging/preprocess.h"

namespace fovea {

// What is to be decoded: the images of an input of kind kImage or kImageRgb that CheckRequest
// accepted.
struct ImagesToDecode {
  // `spec`: of the model that they are for.
  ImagesToDecode(AcceptedInput input, const PreprocessSpec& spec);

  AcceptedInput input;                 // but for its files
  std::vector<ScatteredBytes> images;  // files; of kImageRgb the pixels of each
  // Of each, as far as the first bytes tell; a photograph may still be turned upright.
  std::vector<ImagingWork> work;
  std::vector<std::optional<ImageSize>> sizes;
};

struct DecodedImages {
  absl::StatusOr<DecodedPixels> pixels;
  // From the first image's turn to the last one's end; both kNever where none had its turn.
  Nanos began = kNever;
  Nanos ended = kNever;
  // Of the time between, the share of decoding; the rest is resizing's. (Waits for memory are in
  // both.)
  Nanos decode = 0;
  // When the first of them was decoded, and when the last; kNever: none was.
  Nanos first_decoded = kNever;
  Nanos last_decoded = kNever;
  // For how long they had their threads, all together, waits for memory among it.
  Nanos thread_time = 0;
};

// How urgent the images of a request are.
struct DecodeOrder {
  int priority = 0;
  Nanos order = 0;          // as ImagingOutline's
  Nanos deadline = kNever;  // after which nobody wants them
  Nanos ready_by = kNever;  // after which their model could not run them in time
};

// `spec`, `line`, `pool` and `clock` outlive the call of `done`. `done` is called exactly once: on
// a thread of the pool, or here where the pool takes none of the images. Errors: those of
// DecodeAndResize and ImagingPool; the first one ends the others' work.
void DecodeImages(ImagesToDecode images, const PreprocessSpec& spec, const ImagingOptions& options,
                  const CancellationPtr& cancellation, const DecodeOrder& order, ImagingLine& line,
                  ImagingPool& pool, Clock& clock, absl::AnyInvocable<void(DecodedImages)> done);

}  // namespace fovea
