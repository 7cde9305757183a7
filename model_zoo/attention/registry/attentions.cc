#include "model_zoo/attention/registry/attentions.h"

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/modules/modules.h"

namespace fovea::models {

const std::vector<CoreEntry>& Cores() {
  static const std::vector<CoreEntry> cores = {
      {"dense", "softmax over all keys", MakeDenseCore},
      {"knn", "softmax over the k largest logits of each query (k=count or share)", MakeKnnCore},
  };
  return cores;
}

const std::vector<AttentionModuleEntry>& AttentionModules() {
  static const std::vector<AttentionModuleEntry> modules = {
      {"self", "global: every token attends every token", MakeSelfAttention},
      {"shifted_window", "windows, shifted by half in every other block", MakeShiftedWindow},
      {"axial", "rows, then columns of what the rows gathered", MakeAxial},
      {"criss_cross", "the row and the column of each token at once", MakeCrissCross},
      {"pale", "half of the heads rows spread over the map, half such columns", MakePale},
      {"cross_shaped", "half of the heads horizontal stripes, half vertical ones", MakeCrossShaped},
      {"aewin", "heads for rows, for columns and for shifted windows side by side", MakeAewin},
      {"ska", "learned keys, the same for every input", MakeStaticKey},
      {"cska", "logits from a 3x3 convolution of the queries", MakeConvStaticKey},
      {"key_only", "no queries: one summary of the keys gates every token, in linear time",
       MakeKeyOnly},
      {"conv", "a separable 7x7 convolution in place of an attention", MakeSeparableConvolution},
  };
  return modules;
}

const AttentionTable& Attentions() {
  static const AttentionTable table{Cores(), AttentionModules()};
  return table;
}

}  // namespace fovea::models
