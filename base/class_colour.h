// The colours in which classes are drawn, wherever that is.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"

namespace fovea {

// Red, green and blue of a class, whatever its number: of eight that people with any kind of colour
// vision tell apart (Okabe and Ito, "Color universal design", 2008, with grey for black).
inline std::array<uint8_t, 3> ClassColour(int64_t class_index) {
  constexpr int64_t kColours = 8;
  constexpr std::array<uint8_t, 3> kOkabeIto[kColours] = {
      {230, 159, 0}, {86, 180, 233}, {0, 158, 115},   {240, 228, 66},
      {0, 114, 178}, {213, 94, 0},   {204, 121, 167}, {187, 187, 187}};
  const int64_t rest = class_index % kColours;
  return kOkabeIto[rest < 0 ? rest + kColours : rest];
}

// Whether a class is what data sets call the rest of a picture. It is not painted: it would cover
// what it is the background of.
inline bool IsBackground(std::string_view label) {
  return absl::EqualsIgnoreCase({label.data(), label.size()}, "background");
}

}  // namespace fovea
