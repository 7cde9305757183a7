#include "model_zoo/attention/registry/attentions.h"

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/modules/modules.h"

namespace fovea::models {

const std::vector<CoreEntry>& Cores() {
  static const std::vector<CoreEntry> cores = {
      {"dense", "softmax over all keys", {"temperature"}, /*dense=*/true, MakeDenseCore},
      {"knn",
       "softmax over the k largest logits of each query (k=count or share)",
       {"k", "exact", "temperature"},
       /*dense=*/false,
       MakeKnnCore},
  };
  return cores;
}

const std::vector<AttentionModuleEntry>& AttentionModules() {
  static const std::vector<AttentionModuleEntry> modules = {
      {"self",
       "global: every token attends every token",
       {},
       /*takes_core=*/true,
       MakeSelfAttention},
      {"shifted_window",
       "windows, shifted by half in every other block",
       {"window"},
       /*takes_core=*/true,
       MakeShiftedWindow},
      {"axial", "rows, then columns of what the rows gathered", {}, /*takes_core=*/true, MakeAxial},
      {"criss_cross",
       "the row and the column of each token at once",
       {},
       /*takes_core=*/false,
       MakeCrissCross},
      {"pale",
       "half of the heads rows spread over the map, half such columns",
       {"window"},
       /*takes_core=*/true,
       MakePale},
      {"cross_shaped",
       "half of the heads horizontal stripes, half vertical ones",
       {"window"},
       /*takes_core=*/true,
       MakeCrossShaped},
      {"aewin",
       "heads for rows, for columns and for shifted windows side by side",
       {"window"},
       /*takes_core=*/true,
       MakeAewin},
      {"ska",
       "learned keys, the same for every input",
       {"activation", "scale", "heads", "interpolate"},
       /*takes_core=*/false,
       MakeStaticKey},
      {"cska",
       "logits from a 3x3 convolution of the queries",
       {"activation", "scale", "heads", "interpolate"},
       /*takes_core=*/false,
       MakeConvStaticKey},
      {"key_only",
       "no queries: one summary of the keys gates every token, in linear time",
       {},
       /*takes_core=*/false,
       MakeKeyOnly},
      {"conv",
       "a separable 7x7 convolution in place of an attention",
       {},
       /*takes_core=*/false,
       MakeSeparableConvolution},
  };
  return modules;
}

const AttentionTable& Attentions() {
  static const AttentionTable table{Cores(), AttentionModules()};
  return table;
}

}  // namespace fovea::models
