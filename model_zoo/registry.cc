#include "model_zoo/registry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/aewin.h"
#include "model_zoo/backbones/cait.h"
#include "model_zoo/backbones/cswin.h"
#include "model_zoo/backbones/cvt.h"
#include "model_zoo/backbones/demo_frame.h"
#include "model_zoo/backbones/identity.h"
#include "model_zoo/backbones/linglo.h"
#include "model_zoo/backbones/metaformer.h"
#include "model_zoo/backbones/pale.h"
#include "model_zoo/backbones/pit.h"
#include "model_zoo/backbones/so_vit.h"
#include "model_zoo/backbones/swin.h"
#include "model_zoo/backbones/t2t.h"
#include "model_zoo/backbones/tnt.h"
#include "model_zoo/backbones/twins.h"
#include "model_zoo/backbones/visformer.h"
#include "model_zoo/backbones/vit.h"
#include "model_zoo/backbones/volo.h"

namespace fovea::models {
namespace {

template <typename Entry>
const Entry* Find(const std::vector<Entry>& entries, std::string_view name) {
  auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

void BackboneRegistry::Add(BackboneEntry entry) {
  TORCH_INTERNAL_ASSERT(Find(entries_, entry.name) == nullptr, "two backbones are named ",
                        entry.name);
  entries_.push_back(std::move(entry));
}

const std::vector<BackboneEntry>& Backbones() {
  static const BackboneRegistry registry = [] {
    BackboneRegistry filled;
    RegisterVit(filled);
    RegisterSwin(filled);
    RegisterAewin(filled);
    RegisterCswin(filled);
    RegisterPale(filled);
    RegisterCvt(filled);
    RegisterPit(filled);
    RegisterTwins(filled);
    RegisterVisformer(filled);
    RegisterVolo(filled);
    RegisterTnt(filled);
    RegisterT2t(filled);
    RegisterSoVit(filled);
    RegisterCait(filled);
    RegisterMetaFormer(filled);
    RegisterLinGlo(filled);
    RegisterDemoFrame(filled);
    RegisterIdentity(filled);
    return filled;
  }();
  return registry.entries();
}

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

const BackboneEntry* FindBackbone(std::string_view name) { return Find(Backbones(), name); }
const CoreEntry* FindCore(std::string_view name) { return Find(Cores(), name); }
const AttentionModuleEntry* FindAttentionModule(std::string_view name) {
  return Find(AttentionModules(), name);
}

}  // namespace fovea::models
