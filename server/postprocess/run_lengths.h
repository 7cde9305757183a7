// COCO's run lengths of a mask: column by column, how many pixels are not of it and how many are in
// turn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/image_size.h"
#include "server/postprocess/still_wanted.h"

namespace fovea {

// It holds the text alone, whatever the number of runs.
class RunLengths {
 public:
  // The next `count` pixels.
  void Add(bool of_mask, int64_t count);
  // Compressed as COCO's tools write them ("counts"): each but the first three as its difference
  // from the one before the last, in groups of five bits, lowest first, with a sixth bit where more
  // follow, as characters from "0" on (cocoapi, maskApi.c, rleToString).
  std::string Text() const;

 private:
  // The last run's number, once it has ended.
  int64_t Number() const { return ended_ > 2 ? run_ - before_last_ : run_; }

  std::string text_;                        // of the runs that have ended
  int64_t ended_ = 0;                       // how many
  int64_t before_last_ = 0, previous_ = 0;  // the last two of them
  int64_t run_ = 0;                         // pixels of the last run, which may go on
  bool of_mask_ = false;                    // the last run
};

// Of each class below `classes`, the pixels of `map` [size.height, size.width] that are of it;
// empty for a class without any. In one pass, however many classes there are. All of `map` is below
// `classes`.
absl::StatusOr<std::vector<std::string>> RunLengthsOfClasses(std::span<const uint16_t> map,
                                                             const ImageSize& size, int64_t classes,
                                                             StillWanted wanted = AlwaysWanted);

}  // namespace fovea
