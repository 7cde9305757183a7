// Where samples come from: generated scenes, or a user's own data in one of three layouts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "model_zoo/training/data/sample.h"

namespace fovea::models::training {

// Which parts of a Sample a source fills.
struct GroundTruth {
  bool class_index = false;
  bool boxes = false;
  bool masks = false;  // of every object
  bool class_map = false;

  bool operator==(const GroundTruth&) const = default;
};

// What is wrong with data from outside, in a sentence that names the file and, where there is one,
// the entry in it.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Of the masks of an image: some 1,000 objects at 512 x 512. A batch is given as many bytes as its
// images need.
inline constexpr int64_t kMaxMaskBytes = int64_t{1} << 28;

// Throws DataError where so many masks of an image of that many pixels, a byte each, take more than
// kMaxMaskBytes. `name`: the sample's.
void CheckMasks(const std::string& name, int64_t masks, int64_t pixels);

// Told what has been read so far: of "pictures", `done` of `all`; 0 where nobody knows how many
// there are. Called often, and from several threads.
using ReadProgress = std::function<void(const char* what, uint64_t done, uint64_t all)>;

// Thread-safe: a sample is a function of its index.
class SampleSource {
 public:
  static constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();

  virtual ~SampleSource() = default;

  virtual GroundTruth ground_truth() const = 0;
  // Of pictures and objects.
  virtual const std::vector<std::string>& labels() const = 0;
  // Of the levels of class maps. With scenes level 0 is "background" and level 1 + i is
  // labels()[i].
  virtual const std::vector<std::string>& map_labels() const = 0;

  // How many samples there are. An endless source makes up another for every index.
  virtual uint64_t size() const = 0;
  // What people should know of the data: what was left out, and why. A sentence each.
  virtual std::vector<std::string> notes() const { return {}; }

  // What people call the sample: its file's name, or "scene 17".
  virtual std::string Name(uint64_t index) const = 0;
  // What it reads, annotations included; none of a generated source.
  virtual std::vector<std::filesystem::path> files() const { return {}; }
  // At least the masks that the sample's objects without crowds have, as far as that is known
  // before it is read.
  virtual int64_t MaskCount(uint64_t /*index*/) const { return 0; }
  // Reads or draws it, at the size that it has. Throws DataError where the file turns out to be
  // wrong only now.
  virtual Sample Get(uint64_t index) const = 0;
};

}  // namespace fovea::models::training
