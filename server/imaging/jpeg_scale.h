// How far a JPEG is shrunk while it is decoded: pure geometry, no pixels.
//
// Of each block of 8 x 8 pixels a decoder can make 4 x 4, 2 x 2 or 1, from as many of its lowest
// frequencies: an inverse transform of fewer terms, and fewer pixels to store and to resize. How
// many times a side is halved is called `halvings`, 0 to kMaxHalvings. (libjpeg-turbo also knows 3,
// 5, 6 and 7 eighths, without vector instructions: 3 take as long as 4, the others longer than
// all 8.)
#pragma once

#include <cstdint>

#include "server/imaging/image.h"
#include "server/imaging/resize_plan.h"

namespace fovea {

inline constexpr int kMaxHalvings = 3;

// A side as it is decoded: what is left of a block is a pixel too.
constexpr int DecodedSide(int side, int halvings) {
  return (side + (1 << halvings) - 1) >> halvings;
}

// The most halvings that leave `spec`'s resize twice the sides that it makes. 0 where spec does not
// ask for fast_decode, and of any other format. Of `info` its format, sides and orientation count.
int HalvingsFor(const ImageInfo& info, const PreprocessSpec& spec);

// Where the picture of `info` lies, upright, in what was decoded of it: not all of its last row and
// column, where a side is no multiple of 2^halvings.
SourceBox DecodedBox(const ImageInfo& info, int halvings);

}  // namespace fovea
