// How many replicas carry a rate within a latency: the server's own scheduler in virtual time.
#pragma once

#include <vector>

#include "server/core/clock.h"
#include "tests/bench/simulation/workload.h"

namespace fovea::bench {

// What is asked of all replicas together. One model, one image a request.
struct Demand {
  double requests_per_second = 0;
  Nanos p99 = 0;  // of the queue and the run: decoding and the network come on top
  ArrivalProcess process = ArrivalProcess::kPoisson;
  Nanos duration = 60 * kSecond;
  uint64_t seed = 1;
};

struct Fleet {
  int replicas = 0;
  double load = 0;  // of a replica: the share of its time that full batches would take
  Nanos p50 = 0, p99 = 0;
  double answered = 0;  // share of the requests; the others were refused or left the queue
  double mean_batch = 0;
};

// What each of so many replicas does with its share of the requests. `model`: one instance, whose
// run times and max_batch_size are those of a replica. Requests reach the replicas at random, so
// each has arrivals of its own at an even share of the rate; a balancer that looks at what each has
// to do does no worse. Requests have ten times the p99 that is asked for as their deadline.
Fleet SimulateFleet(const Demand& demand, const SimulatedModel& model, int replicas);

// From the fewest replicas whose full batches could carry the rate at all to the first that meets
// the p99 with every request answered, at most `most`. None where an image alone takes longer.
std::vector<Fleet> FindReplicas(const Demand& demand, const SimulatedModel& model, int most);

}  // namespace fovea::bench
