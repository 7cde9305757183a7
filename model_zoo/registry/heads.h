// Every head that a model description can name, in one explicit list.
#pragma once

#include <vector>

#include "model_zoo/heads/head.h"

namespace fovea::models {

const std::vector<HeadEntry>& Heads();

}  // namespace fovea::models
