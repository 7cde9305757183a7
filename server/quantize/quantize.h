// `fovea quantize`: a classifier's folder in 8 bits, with scales for its activations from pictures
// of the user's, and what that changes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/quantization/input_scales.h"
#include "server/quantize/class_agreement.h"
#include "server/quantize/speeds.h"

namespace fovea {

struct QuantizeOptions {
  std::filesystem::path model;        // its folder
  std::filesystem::path calibration;  // a folder of pictures
  std::filesystem::path dataset;      // a folder for each class; empty: none
  std::filesystem::path out;          // which is made; empty: the model's with "_int8" behind it
  int64_t most_pictures = 512;        // of each folder
};

struct QuantizeReport {
  std::string model;  // its folder's name
  std::filesystem::path out;
  int64_t calibrated_with = 0;  // pictures
  std::vector<models::CalibratedLayer> layers;
  // On the data set; without one on the quarter of the calibration's pictures that it was not
  // calibrated with, or, of fewer than eight, on all of them.
  ClassAgreement agreement;
  bool measured_on_its_own = false;  // those it was calibrated with
  int64_t weight_bytes_fp32 = 0, weight_bytes = 0;
  Speeds at_batch_1, at_batch_8;
};

// Reads the folder as a server does, writes the other one, and loads that to measure it: what the
// report tells is of what will be served. Nothing is left of the folder where it fails.
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION in words.
absl::StatusOr<QuantizeReport> Quantize(const QuantizeOptions& options);

// For people, and as JSON.
std::string ReportText(const QuantizeReport& report);
std::string ReportJson(const QuantizeReport& report);

}  // namespace fovea
