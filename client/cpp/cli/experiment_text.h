// A live comparison as people read it. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/experiment.h"

namespace fovea::client {

// "running", "ended by a guard rail".
std::string StateText(ExperimentState state);

// "slower: 1.180 [1.120, 1.250]": what a test says, its estimate and its interval.
std::string LatencyText(const SequentialTest& ratio);
std::string DisagreementText(const SequentialTest& share);
std::string ErrorsText(const SequentialTest& excess);

// What each arm has answered, and how it does against the baseline.
void PrintExperiment(const Experiment& experiment, std::ostream& out, bool colour);

// A row for each.
void PrintExperiments(const std::vector<Experiment>& experiments, std::ostream& out, bool colour);

}  // namespace fovea::client
