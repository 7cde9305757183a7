// A fuzz target: takes any bytes, and ends the process where something does not hold (FOVEA_CHECK,
// or a sanitizer).
//   FOVEA_FUZZ_TARGET(png, input) { ... }
// With libFuzzer (preset `fuzz`) each target is a program; without it, replay.cc has them all and
// feeds them their corpus.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"

namespace fovea {

// The bytes of one run, taken from the front.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return bytes_.empty(); }
  std::string_view rest() const { return bytes_; }

  std::string_view Take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  // Up to the first `end`, which is taken too, or everything.
  std::string_view TakeUntil(char end) {
    const std::string_view taken = Take(std::min(bytes_.find(end), bytes_.size()));
    Take(1);
    return taken;
  }
  // 0 .. 255; 0 at the end.
  int TakeByte() {
    const std::string_view taken = Take(1);
    return taken.empty() ? 0 : static_cast<unsigned char>(taken[0]);
  }
  // low .. high, which are less than 65,536 apart.
  int TakeInt(int low, int high) {
    const int number = TakeByte() << 8 | TakeByte();
    return low + number % (high - low + 1);
  }

 private:
  std::string_view bytes_;
};

using FuzzTarget = void (*)(FuzzInput input);

// By name. Filled before main.
inline std::map<std::string, FuzzTarget>& FuzzTargets() {
  static std::map<std::string, FuzzTarget> targets;
  return targets;
}

}  // namespace fovea

#ifdef FOVEA_LIBFUZZER
#define FOVEA_FUZZ_TARGET(name, input)                                      \
  static void FuzzOne_##name(::fovea::FuzzInput input);                     \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    FuzzOne_##name(::fovea::FuzzInput(data, size));                         \
    return 0;                                                               \
  }                                                                         \
  static void FuzzOne_##name(::fovea::FuzzInput input)
#else
#define FOVEA_FUZZ_TARGET(name, input)                              \
  static void FuzzOne_##name(::fovea::FuzzInput input);             \
  [[maybe_unused]] static const bool fuzz_listed_##name =           \
      ::fovea::FuzzTargets().emplace(#name, FuzzOne_##name).second; \
  static void FuzzOne_##name(::fovea::FuzzInput input)
#endif
