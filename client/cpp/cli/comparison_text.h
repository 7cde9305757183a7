// A comparison as people read it. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/cli/comparison.h"

namespace fovea::client {

// "slower", "no difference", or "none" for each reason to give no verdict.
std::string VerdictText(Verdict verdict);

// Why there is no verdict, as a clause: "the control is off".
std::string DoubtText(Verdict doubt);

// "1.120 (1.040-1.200)".
std::string EstimateText(const Estimate& estimate);

// `images`: the paths that the rounds took in turn.
void PrintComparison(const Comparison& comparison, const std::vector<std::string>& images,
                     std::ostream& out, bool colour);

}  // namespace fovea::client
