// An explanation as people read it, and what its pictures are called. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/explanation.h"

namespace fovea::client {

// "gradient_rollout": as the command line names it.
std::string MethodText(ExplainMethod method);

// The name of a map's file, in a folder of its own: "maps_03_blocks.3_head1.png", "rollout.png".
std::string PictureName(const ExplainedMap& map);
inline constexpr char kMeasuresPicture[] = "measures.png";

// The model, its attention, the class that is followed, and what is to be known of them; the table
// of measures, where there are any; the files that were written.
void PrintExplanation(const Explanation& explanation, const std::vector<std::string>& files,
                      std::ostream& out, bool colour);

}  // namespace fovea::client
