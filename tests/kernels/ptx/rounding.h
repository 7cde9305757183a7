// Rounding modes of PTX's floating-point instructions.
#pragma once
#include <cfenv>
#include <string_view>

#include "tests/kernels/ptx/program.h"
#include "tests/kernels/ptx/warp.h"

namespace fovea::ptx {

enum class Rounding { kNearest, kZero, kDown, kUp };

// As modifiers, in the order of the modes: of results, and to whole numbers.
inline constexpr std::string_view kRoundings[] = {"rn", "rz", "rm", "rp"};
inline constexpr std::string_view kIntegerRoundings[] = {"rni", "rzi", "rmi", "rpi"};

// Sets the host's rounding mode for its lifetime. What is computed meanwhile must be read from and
// written to memory that the compiler cannot see through; it moves arithmetic over calls otherwise.
class ScopedRounding {
 public:
  explicit ScopedRounding(Rounding rounding) : before_(std::fegetround()) {
    std::fesetround(ModeOf(rounding));
  }
  ~ScopedRounding() { std::fesetround(before_); }
  ScopedRounding(const ScopedRounding&) = delete;
  ScopedRounding& operator=(const ScopedRounding&) = delete;

 private:
  static int ModeOf(Rounding rounding) {
    switch (rounding) {
      case Rounding::kZero:
        return FE_TOWARDZERO;
      case Rounding::kDown:
        return FE_DOWNWARD;
      case Rounding::kUp:
        return FE_UPWARD;
      case Rounding::kNearest:
        break;
    }
    return FE_TONEAREST;
  }
  int before_;
};

// Executes an instruction in a rounding mode.
template <Execute kExecute, Rounding kRounding>
void Rounded(Warp& warp, const Instruction& in, LaneMask lanes) {
  const ScopedRounding rounding(kRounding);
  kExecute(warp, in, lanes);
}

// kExecute in the given mode; the nearest is the host's own.
template <Execute kExecute>
Execute WithRounding(int rounding) {
  switch (static_cast<Rounding>(rounding)) {
    case Rounding::kZero:
      return &Rounded<kExecute, Rounding::kZero>;
    case Rounding::kDown:
      return &Rounded<kExecute, Rounding::kDown>;
    case Rounding::kUp:
      return &Rounded<kExecute, Rounding::kUp>;
    case Rounding::kNearest:
      break;
  }
  return kExecute;
}

}  // namespace fovea::ptx
