// How long images take to decode and to resize, learnt from those that were.
#pragma once

#include <array>
#include <cstdint>

#include "server/core/clock.h"
#include "server/imaging/jpeg_scale.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// What decides how long an image takes.
enum class ImageKind {
  kJpeg,
  kProgressiveJpeg,
  kPng,
  kWebp,
  kGifOrBmp,
  kTiff,
  kAvif,
  kPixels,   // nothing to decode: resized only
  kUnknown,  // a file whose first bytes do not tell its size
  kResults,  // what a model has made of an image, to be brought into its answer's form
  kDrawing,  // the same, and drawn over its picture
};
inline constexpr int kImageKinds = 11;

// An image's work, as far as it is known before it is decoded.
struct ImagingWork {
  ImageKind kind = ImageKind::kUnknown;
  // Pixels; bytes of a kUnknown; of kResults what is computed for the pixels, or images.
  int64_t amount = 0;
  // Of the sides of a JPEG (jpeg_scale.h). Its pixels are those of the file all the same: how long
  // its codes take to read goes by them.
  int halvings = 0;
};

// Not thread-safe. A latency curve for each kind and each number of halvings, whose times are not
// proportional to each other, by the amount in steps of a quarter octave.
// Between measured amounts it is interpolated, outside of them taken to be proportional but for a
// part that every image takes: decoders pass over every pixel, and what is left is resized to one
// size.
class ImagingTimes {
 public:
  void Record(const ImagingWork& work, Nanos took, Nanos now);

  // 0 where nothing of its kind was measured.
  Nanos Fast(const ImagingWork& work) const;  // it will hardly take less
  Nanos Typical(const ImagingWork& work) const;
  Nanos Slow(const ImagingWork& work) const;  // nine in ten take at most this

  // Whether such an image may be turned away by what is known of its kind (see LatencyModel): much
  // larger ones than were measured may not, or thumbnails would say what photographs take.
  bool Trusted(const ImagingWork& work, Nanos now) const;

 private:
  using Curves = std::array<LatencyModel, kImageKinds>;
  const LatencyModel& CurveOf(const ImagingWork& work) const;

  std::array<Curves, kMaxHalvings + 1> curves_;  // by halvings and kind
};

}  // namespace fovea
