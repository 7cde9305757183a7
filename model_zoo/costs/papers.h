// What the papers print about the models of the zoo, beside which `fovea zoo` puts what is counted
// here.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fovea::models {

// A model of a paper's table. A paper that compares attentions often prints an accuracy alone: then
// both costs are left out, and ours say what the comparison costs.
struct PrintedCosts {
  std::string_view backbone;    // a name of the registry
  std::string_view attention;   // "" for the published one
  std::string_view source;      // paper and table
  std::string_view parameters;  // as printed, in millions; "" where it prints none
  std::string_view operations;  // as printed, in thousand millions; "" where it prints none
  int operations_per_multiply_add = 1;
  // Why ours are other numbers; "" where they are the same, as far as the paper's digits go.
  std::string_view parameters_differ, operations_differ;
  std::string_view head = {};     // a name of the registry; "" for the backbone's own classifier
  int64_t height = 0, width = 0;  // of the input; 0: the backbone's own
};

// Of classifiers.
const std::vector<PrintedCosts>& CostsInPapers();

// Of detectors and segmenters, by mmdetection's conventions, with COCO's 80 or ADE20K's 150
// classes. Detectors of two stages are counted with 1000 proposals and 100 masks.
const std::vector<PrintedCosts>& CostsWithHeadsInPapers();

}  // namespace fovea::models
