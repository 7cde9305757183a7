#include "server/imaging/imaging_times.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace fovea {
namespace {

// The pixels, in thousands, that take as long as the part of the work which every image takes.
constexpr double kFixedPart = 64;
// So many times the largest measured size may still be judged by it.
constexpr int kReach = 4;

// Two thousand million pixels, or numbers that are computed for them: what is more is taken to be
// as much, and to take an hour at most, so that products of a time and a size are Nanos.
constexpr double kLargest = 1 << 21;
constexpr Nanos kLongest = limits::kMaxTimeoutSeconds * kSecond;

// The curves' sizes: kilopixels (kilobytes) and the fixed part, rounded up to a power of the fourth
// root of two, so that a curve has some sixty sizes at most.
int Step(const ImagingWork& work) {
  const double kilo = std::min(kFixedPart + static_cast<double>(work.amount) / 1000, kLargest);
  return static_cast<int>(std::ceil(std::exp2(std::ceil(std::log2(kilo) * 4) / 4)));
}

}  // namespace

const LatencyModel& ImagingTimes::CurveOf(const ImagingWork& work) const {
  return curves_[work.halvings][static_cast<size_t>(work.kind)];
}

void ImagingTimes::Record(const ImagingWork& work, Nanos took, Nanos now) {
  curves_[work.halvings][static_cast<size_t>(work.kind)].Record(Step(work),
                                                                std::min(took, kLongest), now);
}

Nanos ImagingTimes::Fast(const ImagingWork& work) const {
  const LatencyModel& curve = CurveOf(work);
  const int step = Step(work);
  // Above what was measured the fast reading is a constant.
  return step > curve.most() ? curve.Typical(step) : curve.Fast(step);
}

Nanos ImagingTimes::Typical(const ImagingWork& work) const {
  return CurveOf(work).Typical(Step(work));
}

Nanos ImagingTimes::Slow(const ImagingWork& work) const {
  const LatencyModel& curve = CurveOf(work);
  const int step = Step(work);
  // Below what was measured the slow reading is a constant, which for a thumbnail among
  // photographs would be far off.
  return step < curve.least() ? curve.Typical(step) : curve.Slow(step);
}

bool ImagingTimes::Trusted(const ImagingWork& work, Nanos now) const {
  const LatencyModel& curve = CurveOf(work);
  return curve.Trusted(now) && Step(work) <= kReach * curve.most();
}

}  // namespace fovea
