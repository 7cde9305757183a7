// An ExperimentService in the test's own process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/fovea/v1/experiment.pb.h"

namespace fovea::client {

// Experiments that exist for as long as it lives. Each look at one finds 100 requests more on every
// arm with traffic, and at arms but the baseline a latency ratio of 1.18, certain from the second
// look on. "taken": ALREADY_EXISTS.
class FakeExperiments {
 public:
  FakeExperiments();
  ~FakeExperiments();

  const std::string& address() const { return address_; }
  // What experiments were to be started, in order of arrival.
  std::vector<fovea::v1::ExperimentPlan> plans() const;
  // A guard rail ends each experiment at its look of this number.
  void EndAtLook(int look);
  // The next answer has an arm less than its plan.
  void LoseAnArm();

 private:
  class Service;
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string address_;
};

}  // namespace fovea::client
