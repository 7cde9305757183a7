// Several models side by side on the same images: the order of requests, what their measurements
// say, and whether they say anything. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/cli/statistics.h"
#include "client/cpp/types.h"

namespace fovea::client {

// The order in which a round sends its requests 0 .. requests-1. Drawn anew for each round: in a
// regular order, a machine that stalls at regular times would always stall the same model.
std::vector<size_t> RoundOrder(size_t requests, std::mt19937_64& random);

// One answered request.
struct Trial {
  absl::Duration latency;  // as the client saw it
  absl::Duration compute;  // as the receipt says; zero from a server without receipts
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

// What a model's interval says against the control's, which comes from the same model asked twice
// in each round: identical models differ by so much here.
enum class Verdict {
  kFaster,        // the interval lies below the control's
  kSlower,        // above
  kNoDifference,  // they overlap
  // No verdict, because
  kFewRounds,   // there are fewer than kLeastSeries
  kUnsteady,    // times hang together over so many rounds that these are too few
  kControlOff,  // the control's interval excludes 1: something else moved the times
  kWide,        // the interval, or the control's, is wider than kWidestInterval
  kNotMeasured  // the server reports no such time
};

inline constexpr double kWidestInterval = 0.10;  // the upper end over the lower, less 1
inline constexpr size_t kLeastBlocks = 10;       // see EstimateMedian

bool IsVerdict(Verdict verdict);

// The verdict on a model from its ratio and the control's.
Verdict Judge(const std::optional<Estimate>& ratio, const std::optional<Estimate>& control);

// One kind of time, of one model.
struct ComparedTime {
  Quartiles ms;
  // The median of the rounds' own ratios to the baseline, so that what slows a whole round down
  // cancels. None: fewer than kLeastSeries rounds, or not measured.
  std::optional<Estimate> ratio;
  Verdict verdict = Verdict::kNotMeasured;  // of the control: what it leaves of all others
};

// One row of the comparison. Ratios and agreement are with the first model.
struct ComparedModel {
  ModelId model;
  std::string attention;
  bool untrained = false;
  ComparedTime latency;
  ComparedTime compute;
  int64_t peak_bytes = 0;        // of any of its batches
  int largest_batch = 0;         // above 1: other clients' requests shared a batch, and its time
  std::vector<ClassScore> top1;  // of every image
  size_t images_agreeing = 0;    // images with the same most probable class
  // The largest difference between the confidences of a class; none where the models have different
  // classes.
  std::optional<double> max_confidence_difference;
};

struct Comparison {
  std::vector<ComparedModel> models;  // the baseline first
  ComparedTime control_latency;
  ComparedTime control_compute;
  size_t rounds = 0;

  // Whether there is a verdict on every time that is measured.
  bool settled() const;
};

// `measured` is not empty; all have as many trials, and as many opinions. `control` is the baseline
// asked a second time in each round.
Comparison Compare(const std::vector<Measured>& measured, const std::vector<Trial>& control);

}  // namespace fovea::client
