// COCO's run lengths (base/run_lengths.h) of each class of a class map.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/image_size.h"
#include "server/postprocess/still_wanted.h"

namespace fovea {

// Of each class below `classes`, the pixels of `map` [size.height, size.width] that are of it;
// empty for a class without any. In one pass, however many classes there are. All of `map` is below
// `classes`.
absl::StatusOr<std::vector<std::string>> RunLengthsOfClasses(std::span<const uint16_t> map,
                                                             const ImageSize& size, int64_t classes,
                                                             StillWanted wanted = AlwaysWanted);

}  // namespace fovea
