#include "server/imaging/imaging_times.h"

#include <cmath>

namespace fovea {
namespace {

// The pixels, in thousands, that take as long as the part of the work which every image takes.
constexpr double kFixedPart = 64;
// So many times the largest measured size may still be judged by it.
constexpr int kReach = 4;

// The curves' sizes: kilopixels (kilobytes) and the fixed part, rounded up to a power of the fourth
// root of two, so that a curve has some forty sizes at most.
int Step(const ImageSize& size) {
  const double kilo = kFixedPart + static_cast<double>(size.amount) / 1000;
  return static_cast<int>(std::ceil(std::exp2(std::ceil(std::log2(kilo) * 4) / 4)));
}

size_t Index(ImageKind kind) { return static_cast<size_t>(kind); }

}  // namespace

void ImagingTimes::Record(const ImageSize& size, Nanos took, Nanos now) {
  curves_[Index(size.kind)].Record(Step(size), took, now);
}

Nanos ImagingTimes::Fast(const ImageSize& size) const {
  const LatencyModel& curve = curves_[Index(size.kind)];
  const int step = Step(size);
  // Above what was measured the fast reading is a constant.
  return step > curve.most() ? curve.Typical(step) : curve.Fast(step);
}

Nanos ImagingTimes::Typical(const ImageSize& size) const {
  return curves_[Index(size.kind)].Typical(Step(size));
}

Nanos ImagingTimes::Slow(const ImageSize& size) const {
  const LatencyModel& curve = curves_[Index(size.kind)];
  const int step = Step(size);
  // Below what was measured the slow reading is a constant, which for a thumbnail among
  // photographs would be far off.
  return step < curve.least() ? curve.Typical(step) : curve.Slow(step);
}

bool ImagingTimes::Trusted(const ImageSize& size, Nanos now) const {
  const LatencyModel& curve = curves_[Index(size.kind)];
  return curve.Trusted(now) && Step(size) <= kReach * curve.most();
}

}  // namespace fovea
