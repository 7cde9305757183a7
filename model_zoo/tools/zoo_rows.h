// What `fovea zoo` has counted, and how it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/costs/papers.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// One model with one attention, and what one paper prints about it.
struct Row {
  std::string backbone;
  std::string attention;  // canonical
  std::string head;       // empty: the backbone's own classifier
  ImageSize size;
  double parameters_m = 0;
  double multiply_adds_g = 0;
  const PrintedCosts* printed = nullptr;
  // Peak bytes of the tensors of one pass, beyond the weights and the input.
  std::optional<int64_t> peak_1, peak_16;
};

// As Markdown, which reads well in a terminal too. Heads and peaks have columns where a row has
// any.
void PrintTable(const std::vector<Row>& rows);

void PrintJson(const std::vector<Row>& rows);

}  // namespace fovea::models
