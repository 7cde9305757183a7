// By which code an operator's softmax attention runs on the CPU.
#pragma once

namespace fovea::kernels {

enum class AttentionWay {
  kPanels,  // vectors and oneDNN's small products, a panel of rows at a time: cpu_panels.h
  kTiles,   // AMX's tiles, where there are some: cpu_tiles.h
};

}  // namespace fovea::kernels
