// The CPU's implementations of an operator as test parameters: every one takes every test that its
// types and this machine allow. CUDA's are tested through torch.ops (test_*.py).
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/scoped_choose.h"

namespace fovea::kernels {

struct Variant {
  std::string name;
  Implementation implementation;
  simd::Isa isa = simd::Isa::kNone;  // of the CPU implementation
  bool onednn = true;                // whether bf16 products may be oneDNN's
  bool tiles = false;                // AMX's, of all that has them; otherwise panels
};

inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

inline std::vector<Variant> AllVariants() {
  return {{"reference", Implementation::kReference},
          {"cpu_avx2", Implementation::kCpu, simd::Isa::kAvx2},
          {"cpu_avx512", Implementation::kCpu, simd::Isa::kAvx512},
          {"cpu_avx512_widened", Implementation::kCpu, simd::Isa::kAvx512, /*onednn=*/false},
          {"cpu_amx", Implementation::kCpu, simd::Isa::kAvx512, /*onednn=*/true, /*tiles=*/true}};
}

// The answer to every question that has it, as FOVEA_CHOOSE wants them.
inline std::string ForcedWays(bool tiles) {
  std::string choices;
  for (const char* question :
       {"dense_attention_%_n64", "dense_attention_%_n256", "dense_attention_%_n1024",
        "window_attention_%_n64", "window_attention_%_n256", "knn_attention_%_n256",
        "knn_attention_%_n1024", "conv_static_key_attention_%_n256"}) {
    for (const char* type : {"fp32", "bf16"}) {
      std::string name = question;
      name.replace(name.find('%'), 1, type);
      choices += (choices.empty() ? "" : ",") + name + (tiles ? "=tiles" : "=panels");
    }
  }
  return choices;
}

// Runs operators as `variant` while it lives.
class ScopedVariant {
 public:
  explicit ScopedVariant(const Variant& variant)
      : forced_(variant.implementation), onednn_(at::globalContext().userEnabledMkldnn()) {
    if (variant.implementation == Implementation::kCpu) {
      isa_.emplace(variant.isa);
      ways_.emplace(ForcedWays(variant.tiles));
    }
    at::globalContext().setUserEnabledMkldnn(variant.onednn);
  }
  ~ScopedVariant() { at::globalContext().setUserEnabledMkldnn(onednn_); }

 private:
  ScopedForcedImplementation forced_;
  std::optional<simd::ScopedIsa> isa_;
  std::optional<ScopedChoose> ways_;
  bool onednn_;
};

// Whether `variant` has code for tensors of this type.
inline bool Takes(const Variant& variant, at::ScalarType type) {
  return variant.implementation == Implementation::kReference || type == at::kFloat ||
         type == at::kBFloat16;
}

// Why `variant` cannot run here, or nullptr.
inline const char* CannotRun(const Variant& variant) {
  if (variant.implementation == Implementation::kCpu && variant.isa > simd::BestIsa()) {
    return "this processor lacks the instructions";
  }
  if (variant.tiles && !simd::HasAmxTiles()) return "this processor lacks AMX";
  return nullptr;
}

}  // namespace fovea::kernels
