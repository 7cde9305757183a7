// From the probabilities in an object's box to the pixels of the object in the caller's picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/core/image_size.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

// The smallest rectangle of a picture that holds all pixels that an object may have.
struct PastedMask {
  int64_t left = 0, top = 0, height = 0, width = 0;  // inside of the picture; may be empty
  std::vector<uint8_t> columns;                      // [width, height]: 1 where the object is
  int64_t pixels = 0;                                // of the object
};

// `probabilities`: [side, side] over `box`, in [0, 1]; the object is where they are at least a
// half, interpolated bilinearly, and no probability beyond the box.
//   TORCHVISION (roi_heads.py, paste_masks_in_image): the box, grown by one place on each side,
// begins and ends at whole pixels. MMDETECTION (fcn_mask_head.py, _do_paste_mask): it lies where it
// is.
// A box that is no number has no pixels. Throws std::bad_alloc.
PastedMask PasteMask(std::span<const float> probabilities, int64_t side, const Box& box,
                     const ImageSize& picture, MaskPasting pasting);

// COCO's compressed run lengths of the whole picture.
std::string RunLengthsOf(const PastedMask& mask, const ImageSize& picture);

// [height, width]: 255 where the object is.
std::vector<uint8_t> GreyRows(const PastedMask& mask);

}  // namespace fovea
