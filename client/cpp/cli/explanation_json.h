// What `fovea explain` prints with --json: the names of proto/fovea/v1/comparison.proto, as
// POST /v1/explain answers it, but for the pictures: where each was written is beside its map as
// `png_file`, and beside all as `measures_plot_file`. `file` is the image's. What is absent is left
// out.
#pragma once

#include <string>
#include <vector>

#include "client/cpp/explanation.h"

namespace fovea::client {

// `image`: its path. `files`: of each map in its order, then of the measures' plot, where there is
// one; or empty.
std::string ExplanationJson(const Explanation& explanation, const std::string& image,
                            const std::vector<std::string>& files);

}  // namespace fovea::client
