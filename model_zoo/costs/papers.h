// What the papers print about the models of the zoo, beside which `fovea zoo` puts what is counted
// here.
#pragma once

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
};

const std::vector<PrintedCosts>& CostsInPapers();

}  // namespace fovea::models
