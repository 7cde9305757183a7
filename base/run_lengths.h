// COCO's run lengths of a mask: column by column, how many pixels are not of it and how many are in
// turn. As text ("counts") each but the first three is its difference from the one before the last,
// in groups of five bits, lowest first, with a sixth bit where more follow, as characters from "0"
// on (cocoapi, maskApi.c, rleToString and rleFrString).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Writes the text. It holds the text alone, whatever the number of runs.
class RunLengths {
 public:
  // The next `count` pixels.
  void Add(bool of_mask, int64_t count);
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

// The lengths that `text` says. None where it is no such text, where they do not fill `pixels`
// pixels, or where there are more runs, most of them empty, than pixels could need.
std::optional<std::vector<int64_t>> ReadRunLengths(std::string_view text, int64_t pixels);

}  // namespace fovea
