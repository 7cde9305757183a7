// Several models side by side on the same images: the order of requests and what their measurements
// say. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/cli/statistics.h"
#include "client/cpp/types.h"

namespace fovea::client {

// The order in which a round asks the models 0 .. models-1: forwards and backwards in turn, so that
// neither is always first after a pause and slow drift of the machine's speed falls on all alike.
std::vector<size_t> RoundOrder(size_t models, size_t round);

// One answered request.
struct Trial {
  absl::Duration latency;  // as the client saw it
  absl::Duration compute;  // as the receipt says
  int64_t peak_bytes = 0;  // of the batch that it was in
  int batch_size = 0;
};

// What is measured of one model.
struct Measured {
  ModelId model;
  std::string attention;
  bool untrained = false;
  std::vector<Trial> trials;  // one a round
  // Of every image every class, most probable first; at least one class.
  std::vector<std::vector<ClassScore>> opinions;
};

// One row of the comparison. Ratios and agreement are with the first model.
struct ComparedModel {
  ModelId model;
  std::string attention;
  bool untrained = false;
  Quartiles latency_ms;
  Quartiles compute_ms;
  Quartiles latency_ratio;  // of the rounds' own ratios, so that drift between rounds cancels
  Quartiles compute_ratio;
  int64_t peak_bytes = 0;        // of any of its batches
  int largest_batch = 0;         // above 1: other clients' requests shared a batch, and its time
  std::vector<ClassScore> top1;  // of every image
  size_t images_agreeing = 0;    // images with the same most probable class
  // The largest difference between the confidences of a class; none where the models have different
  // classes.
  std::optional<double> max_confidence_difference;
};

// `measured` is not empty, and all have as many trials and opinions.
std::vector<ComparedModel> Compare(const std::vector<Measured>& measured);

}  // namespace fovea::client
