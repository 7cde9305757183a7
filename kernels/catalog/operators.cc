#include "kernels/catalog/operators.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/key_only_attention/implementations.h"
#include "kernels/attention/key_only_layer/implementations.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/static_key_attention/implementations.h"
#include "kernels/attention/window_attention/implementations.h"
#include "kernels/choice/choice.h"
#include "kernels/choice/questions.h"
#include "kernels/linear/linear_way.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "kernels/vision/nms/implementations.h"
#include "kernels/vision/roi_align/implementations.h"
#include "kernels/vision/rp_cpe/implementations.h"

namespace fovea::kernels {
namespace {

#ifndef FOVEA_CUDA_ARCHITECTURES
#define FOVEA_CUDA_ARCHITECTURES ""
#endif

std::string CpuInstructions(c10::ScalarType type) {
  std::string names(simd::IsaName(simd::BestIsa()));
  if (type == c10::kBFloat16 && simd::HasBf16Gemm()) names += " with bf16 products";
  return names;
}

OperatorRow RowOf(const Capabilities& facts, bool cuda, c10::ScalarType type) {
  const Capabilities::Fast& fast = cuda ? facts.cuda : facts.cpu;
  OperatorRow row{std::string(facts.op), cuda ? "cuda" : "cpu", TypeName(type), {}, {}, {}};
  if (std::find(fast.types.begin(), fast.types.end(), type) == fast.types.end()) {
    row.implementation = ImplementationName(Implementation::kReference);
    row.instructions = "ATen's";
    row.note = fast.types.empty() ? std::string(fast.why)
               : cuda && fast.types.size() == 1  // FOVEA_CUDA_TYPES
                   ? "this library was built for bf16 alone on CUDA"
                   : "no faster one takes this type";
    return row;
  }
  row.implementation = ImplementationName(cuda ? Implementation::kCuda : Implementation::kCpu);
  row.instructions = cuda ? FOVEA_CUDA_ARCHITECTURES : CpuInstructions(type);
  if (cuda) row.note = "not run on a GPU yet";
  return row;
}

}  // namespace

std::vector<Capabilities> AllOperators() {
  return {
      DenseAttentionCapabilities(),
      KnnAttentionCapabilities(),
      KnnAttentionExactCapabilities(),
      WindowAttentionCapabilities(),
      CrissCrossAttentionCapabilities(),
      AxialWindowAttentionCapabilities(),
      StaticKeyAttentionCapabilities(),
      ConvStaticKeyAttentionCapabilities(),
      KeyOnlyAttentionCapabilities(),
      KeyOnlyLayerCapabilities(),
      RpCpeCapabilities(),
      NmsCapabilities(),
      RoiAlignCapabilities(),
  };
}

CudaBuild CudaBuildOfThisLibrary() {
  CudaBuild build;
  for (const c10::ScalarType type : WrittenInCuda().types) build.types.push_back(TypeName(type));
  std::istringstream architectures(FOVEA_CUDA_ARCHITECTURES);
  for (std::string name; std::getline(architectures >> std::ws, name, ',');) {
    build.architectures.push_back(name);
  }
  return build;
}

std::vector<ChoiceAnswer> ChoiceTable() {
  for (const c10::ScalarType type : {c10::kFloat, c10::kBFloat16, c10::kChar}) {
    for (const int64_t channels : {kNarrowMlp, kWideMlp}) FastestLinearWay(type, channels);
  }
  return KnownAnswers();
}

std::vector<OperatorRow> OperatorTable() {
  std::vector<OperatorRow> rows;
  for (const Capabilities& facts : AllOperators()) {
    for (const bool cuda : {false, true}) {
      for (const c10::ScalarType type : {c10::kFloat, c10::kBFloat16, c10::kHalf, c10::kDouble}) {
        rows.push_back(RowOf(facts, cuda, type));
      }
    }
  }
  return rows;
}

}  // namespace fovea::kernels
