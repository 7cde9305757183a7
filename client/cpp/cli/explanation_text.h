// An explanation as people read it, and what its pictures are called. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/explanation.h"

namespace fovea::client {

// "gradient_rollout": as the command line names it.
std::string MethodText(ExplainMethod method);

// Prefix of the names of an explanation's pictures, which keeps those of other images, models,
// attentions and places apart in one folder: "heart_shapes_dense_" or, where a place was asked
// about, "heart_shapes_dense_at_120_80_". `image`: a path, or "-".
std::string PicturePrefix(const Explanation& explanation, const std::string& image,
                          const std::string& place);
// End of the name of a map's file: "maps_03_blocks.3_head1.png", "rollout.png".
std::string PictureName(const ExplainedMap& map);
inline constexpr char kMeasuresPicture[] = "measures.png";

// The model, its attention, the class that is followed, and what is to be known of them; the table
// of measures, where there are any; the files that were written.
void PrintExplanation(const Explanation& explanation, const std::vector<std::string>& files,
                      std::ostream& out, bool colour);

}  // namespace fovea::client
