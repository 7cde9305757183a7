// A sweep as people read it. Pure.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/sweep.h"

namespace fovea::client {

// "resolution", as --over has it.
std::string AxisText(SweepAxis axis);

// As VariantLabel names it.
std::string CurveText(const SweptCurve& curve, const Sweep& sweep);

// "1.52 (1.48 to 1.56)", or "-"; without an interval where noise does not move it.
std::string ExponentText(const std::optional<FittedExponent>& fitted);

// What exponents are of, as a clause: "pixels"; empty: the axis has none.
std::string ExponentBase(SweepAxis axis);

// Whether anything was measured.
bool HasPoints(const Sweep& sweep);

// What was measured, in one line.
std::string SweepConditions(const Sweep& sweep);

// What is to be known, a sentence each: that the machine was busy, whose weights curves have, which
// points are missing.
std::vector<std::string> SweepNotes(const Sweep& sweep);

void PrintSweep(const Sweep& sweep, std::ostream& out, bool colour);

}  // namespace fovea::client
