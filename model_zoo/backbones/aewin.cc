// AEWin Transformer: rows, columns and shifted windows side by side in the heads of each block.
//   Zhang and Gong, Axially Expanded Windows for Local-Global Interaction in Vision Transformers.
//   No code was published. The paper takes Swin's patch merging, "in the first stage" too (section
//   3.1), its alternately shifted windows and its relative position bias (sections 3.1 and 3.3), so
//   this is Swin with another attention, under the names of timm's Swin.
//   It gives no widths, depths or heads, only totals that lie beside CSWin's: 23 M parameters and
//   4.0 G multiply-adds for AEWin-T, 78 M and 14.6 G for AEWin-B. With CSWin's widths and depths it
//   counts 21.4 M and 75.4 M, which are taken here; CSWin's convolutions between the stages would
//   give 22.2 M and 77.2 M, but they are not what the paper says. The number of heads must divide
//   by four from the first stage on: 4, 8, 16 and 32.
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/swin.h"

namespace fovea::models {
namespace {

SwinConfig AewinConfig(int64_t channels, std::vector<int64_t> depths) {
  return {.channels = channels,
          .depths = std::move(depths),
          .heads = {4, 8, 16, 32},
          .attention = "aewin",
          .own = MakeAewin};
}

}  // namespace

void RegisterAewin(BackboneRegistry& registry) {
  registry.Add(
      SwinVariant("aewin_tiny_224", "AEWin-T, 21.4 M parameters", AewinConfig(64, {1, 2, 21, 1})));
  registry.Add(
      SwinVariant("aewin_base_224", "AEWin-B, 75.4 M parameters", AewinConfig(96, {2, 4, 32, 2})));
}

}  // namespace fovea::models
