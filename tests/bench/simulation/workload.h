// What a simulation is about: models with what their batches take, and requests that arrive.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/core/clock.h"

namespace fovea::bench {

struct SimulatedModel {
  Nanos per_batch = 0;  // what a batch takes, and each image of it
  Nanos per_image = 0;
  // In place of the two: what batches of so many images took, the least first and of one image;
  // between two of them evenly more.
  std::vector<std::pair<int, Nanos>> measured;
  int max_batch_size = 8;
  int instances = 1;
  double popularity = 0;  // the share of the requests that are for it
  // Threads that would be busy all the time if every batch were full.
  double threads_wanted = 0;

  Nanos RunTime(int images) const;
};

// One request of one image.
struct Arrival {
  Nanos at = 0;  // since the start
  int model = 0;
  Nanos patience = 0;      // its deadline, from its arrival
  Nanos cancels = kNever;  // when its caller goes, from its arrival
};

enum class ArrivalProcess {
  kPoisson,  // at a constant rate
  kBursty,   // Markov-modulated: half the rate, and three times the rate for a fifth of the time
  kDiurnal,  // the rate goes up and down by four fifths, once in the whole simulation
};
std::string ArrivalProcessName(ArrivalProcess process);

struct WorkloadOptions {
  int models = 100;
  double requests_per_second = 10'000;
  Nanos duration = 30 * kSecond;
  uint64_t seed = 1;
};

struct Workload {
  std::vector<SimulatedModel> models;
  std::vector<Arrival> arrivals;  // in the order of time
  double threads_wanted = 0;      // of all models
};

// When requests arrive, since the start.
std::vector<Nanos> ArrivalTimes(double requests_per_second, Nanos duration, uint64_t seed,
                                ArrivalProcess process);

// The same for the same options and process, whatever runs it. The models do not depend on the
// process.
Workload MakeWorkload(const WorkloadOptions& options, ArrivalProcess process);

}  // namespace fovea::bench
