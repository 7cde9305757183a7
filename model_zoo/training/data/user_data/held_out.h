// What is held out of a data set to measure by, where nobody has said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

struct TrainingData {
  std::shared_ptr<const SampleSource> training, validation;
  std::vector<std::string> notes;  // what people should know of it, a sentence each
};

// In [0, 1): FNV-1a of the name without its extension, spread over all bits by Philox. The same
// picture in another format, and its mask, have the same number.
double PlaceOfName(std::string_view name);

// Holds out the samples whose name's place is below `share`: which ones depends on nothing but
// their names, so that pictures added later move none from one side to the other. With two samples
// or more each side has at least one: the one of the lowest place, or all others. Throws DataError
// where there is only one.
TrainingData HoldOut(const std::shared_ptr<const SampleSource>& all, double share);

// Some samples of another source, in its order.
class Subset final : public SampleSource {
 public:
  Subset(std::shared_ptr<const SampleSource> all, std::vector<uint64_t> indices);

  GroundTruth ground_truth() const override { return all_->ground_truth(); }
  const std::vector<std::string>& labels() const override { return all_->labels(); }
  const std::vector<std::string>& map_labels() const override { return all_->map_labels(); }
  uint64_t size() const override { return indices_.size(); }
  std::vector<std::string> notes() const override { return all_->notes(); }
  std::vector<std::filesystem::path> files() const override { return all_->files(); }
  std::string Name(uint64_t index) const override { return all_->Name(indices_.at(index)); }
  int64_t MaskCount(uint64_t index) const override { return all_->MaskCount(indices_.at(index)); }
  Sample Get(uint64_t index) const override { return all_->Get(indices_.at(index)); }

 private:
  const std::shared_ptr<const SampleSource> all_;
  const std::vector<uint64_t> indices_;
};

}  // namespace fovea::models::training
