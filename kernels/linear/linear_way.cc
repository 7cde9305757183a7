#include "kernels/linear/linear_way.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/choice/choice.h"
#include "kernels/choice/questions.h"
#include "kernels/linear/linear_chain.h"
#include "kernels/linear/onednn_linear.h"
#include "kernels/simd/gemm.h"

namespace fovea::kernels {
namespace {

// x + fc2(gelu(fc1(norm(x)))).
class Mlp {
 public:
  Mlp(LinearWay way, c10::ScalarType type, int64_t channels)
      : way_(way),
        // A picture's tokens; of the narrow one two pictures', or it would be over too soon to
        // time.
        input_(TypicalNumbers({channels == kWideMlp ? 197 : 2 * 197, channels},
                              type == at::kChar ? Int8RowType() : type)),
        norm_weight_(at::ones({channels})),
        norm_bias_(at::zeros({channels})) {
    const int64_t hidden = 4 * channels;
    const at::Tensor fc1 = TypicalNumbers({hidden, channels}, at::kFloat) / 16;
    const at::Tensor fc2 = TypicalNumbers({channels, hidden}, at::kFloat) / 32;
    if (const auto products = ProductsOf(way, type)) {
      const bool packed_for_amx = PacksForAmx(way, *products);
      matrices_.emplace_back(fc1, at::zeros({hidden}), *products, packed_for_amx);
      matrices_.emplace_back(fc2, at::zeros({channels}), *products, packed_for_amx);
    } else {
      layers_.emplace_back(fc1, at::zeros({hidden}), type);
      layers_.emplace_back(fc2, at::zeros({channels}), type);
    }
  }

  void Run() const {
    if (way_ == LinearWay::kOneDnn) {
      const at::Tensor normed =
          at::layer_norm(input_, {input_.size(1)}, norm_weight_, norm_bias_, 1e-6);
      layers_[1].ApplyAdd(layers_[0].ApplyGelu(normed), input_);
      return;
    }
    const rows::NormTerms norm = {norm_weight_.const_data_ptr<float>(),
                                  norm_bias_.const_data_ptr<float>(), 1e-6f};
    const LinearStep steps[] = {
        {.matrix = &matrices_[0], .norm = &norm, .activation = rows::Activation::kGelu},
        {.matrix = &matrices_[1], .residual = Residual::kInput}};
    RunChain(steps, input_);
  }

 private:
  const LinearWay way_;
  const at::Tensor input_, norm_weight_, norm_bias_;
  std::vector<PackedMatrix> matrices_;
  std::vector<OneDnnLinear> layers_;
};

std::vector<LinearWay> WaysOf(c10::ScalarType type) {
  std::vector<LinearWay> ways;
  if (OneDnnLinear::Supports(type)) ways.push_back(LinearWay::kOneDnn);
  for (const LinearWay way : {LinearWay::kTiles, LinearWay::kTilesBf16x3, LinearWay::kVectors}) {
    const auto products = ProductsOf(way, type);
    if (!products || !HasProducts(*products)) continue;
    if (type == at::kChar && way == LinearWay::kTiles && !PacksForAmx(way, *products)) continue;
    ways.push_back(way);
  }
  return ways;
}

}  // namespace

std::string_view NameOf(LinearWay way) {
  switch (way) {
    case LinearWay::kAten:
      return "aten";
    case LinearWay::kOneDnn:
      return "onednn";
    case LinearWay::kTiles:
      return "tiles";
    case LinearWay::kTilesBf16x3:
      return "tiles_bf16x3";
    case LinearWay::kVectors:
      return "vectors";
  }
  TORCH_INTERNAL_ASSERT(false, "no such way");
}

std::optional<Products> ProductsOf(LinearWay way, c10::ScalarType type) {
  if (type == at::kChar) {
    const bool has = way == LinearWay::kTiles || way == LinearWay::kVectors;
    return has ? std::optional(Products::kInt8) : std::nullopt;
  }
  const bool bf16 = type == at::kBFloat16;
  if (way == LinearWay::kTiles) return bf16 ? Products::kBf16 : Products::kFp32;
  if (way == LinearWay::kTilesBf16x3 && !bf16) return Products::kBf16x3;
  return std::nullopt;
}

bool PacksForAmx(LinearWay way, Products products) {
  return way != LinearWay::kVectors && HasAmxTilesFor(products);
}

c10::ScalarType Int8RowType() { return simd::HasBf16Gemm() ? at::kBFloat16 : at::kFloat; }

LinearWay FastestLinearWay(c10::ScalarType type, int64_t channels) {
  const bool wide = channels > kMaxNarrow;
  const std::vector<LinearWay> ways = WaysOf(type);
  if (ways.empty()) return LinearWay::kAten;
  // Made when one is measured: most processes never do.
  std::vector<std::unique_ptr<Mlp>> mlps(ways.size());
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < ways.size(); ++i) {
    candidates.push_back({NameOf(ways[i]), [&, i] {
                            if (!mlps[i]) {
                              mlps[i] = std::make_unique<Mlp>(ways[i], type,
                                                              wide ? kWideMlp : kNarrowMlp);
                            }
                            mlps[i]->Run();
                          }});
  }
  return ways[Fastest("linear_" + TypeName(type) + (wide ? "_c768" : ""), candidates)];
}

}  // namespace fovea::kernels
