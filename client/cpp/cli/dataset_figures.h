// How well variants answer a data set, as fovea-evaluate has measured it. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea::client {

struct DatasetFigure {
  std::string name;             // "top-1", "box AP", "mIoU"
  std::optional<double> value;  // none: undefined
  // In which the figure of endlessly many such pictures lies, at 95%; none: too few pictures.
  struct Interval {
    double lower = 0, upper = 0;
  };
  std::optional<Interval> interval;
  // From the baseline's, on the same pictures; none: of the baseline.
  std::optional<double> difference;
  std::optional<Interval> difference_interval;
};

// Of one variant.
struct VariantFigures {
  int answered = 0;  // pictures
  int failed = 0;    // that no figure counts
  std::vector<DatasetFigure> figures;
};

struct DatasetFigures {
  std::string dataset;  // its path
  std::string task;
  int pictures = 0;
  std::string unfinished;                // a variant that could not be measured; empty: none
  std::vector<VariantFigures> variants;  // in the comparison's order
  std::string document;                  // JSON: all there is
};

// `document`: what `fovea-evaluate --json` prints. INTERNAL: it is something else.
absl::StatusOr<DatasetFigures> ReadDatasetFigures(std::string document);

// A table: its head, and a row for each figure of each variant; `names` are the variants'.
std::vector<std::vector<std::string>> DatasetRows(const DatasetFigures& figures,
                                                  const std::vector<std::string>& names);
// "pictures/: classification, 200 pictures".
std::string DatasetConditions(const DatasetFigures& figures);
// What is to be known of it, a sentence each.
std::vector<std::string> DatasetNotes(const DatasetFigures& figures,
                                      const std::vector<std::string>& names);
// A variant's figures by the names of their columns, "dataset_box_ap" and its interval and
// difference; none: undefined.
std::vector<std::pair<std::string, std::optional<double>>> DatasetFields(
    const DatasetFigures& figures, size_t variant);

}  // namespace fovea::client
