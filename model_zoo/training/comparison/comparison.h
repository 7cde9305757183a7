// Several trained models side by side: what each knows, and what it costs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model_zoo/training/tasks/shape_evaluation.h"

namespace fovea::models::training {

struct ComparisonOptions {
  uint64_t seed = 1;      // of the pictures, which are the same for all
  int64_t images = 4800;  // of the test stream, which no training sees
  int rounds = 200;       // of the timing
};

// At the batch sizes of kComparedBatches.
inline constexpr std::array<int64_t, 2> kComparedBatches = {1, 16};

struct ComparedModel {
  std::filesystem::path folder;
  std::string backbone;
  std::string attention;      // canonical
  int64_t parameters = 0;     // learned numbers
  int64_t multiply_adds = 0;  // of one image; OperationCounter's convention
  Score score;
  std::array<double, 2> milliseconds = {};  // of one batch, median of the rounds
  std::array<int64_t, 2> peak_bytes = {};   // of one batch's tensors, beyond weights and input
};

// Through the reader, the loader and the preparation that serve the folders. In each round of the
// timing every model runs once, in alternating order, with at::get_num_threads() threads. Throws
// c10::Error for a folder that cannot be served.
std::vector<ComparedModel> Compare(const std::vector<std::filesystem::path>& folders,
                                   const ComparisonOptions& options);

// One line a model under a line of names; the file's folder is created. Throws std::runtime_error
// where it cannot be written.
void WriteCsv(const std::vector<ComparedModel>& models, const std::filesystem::path& file);

}  // namespace fovea::models::training
