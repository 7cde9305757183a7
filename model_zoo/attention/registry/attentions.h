// Every attention that a text can name, in two explicit lists.
#pragma once

#include <string_view>
#include <vector>

#include "model_zoo/attention/attention_table.h"

namespace fovea::models {

const std::vector<CoreEntry>& Cores();
const std::vector<AttentionModuleEntry>& AttentionModules();
// Both.
const AttentionTable& Attentions();

}  // namespace fovea::models
