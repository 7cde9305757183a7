#include "model_zoo/costs/operation_counter.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::models {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

at::IntArrayRef Sizes(const c10::IValue& value) { return value.toTensor().sizes(); }
int64_t Product(at::IntArrayRef sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

int64_t MatrixProduct(const c10::IValue& left, const c10::IValue& right) {
  return Product(Sizes(left)) * Sizes(right).back();
}

// Each output element: the input channels of its group times the kernel. Transposed, each input
// element: the output channels of its group times the kernel.
int64_t Convolution(Values inputs) {
  const at::IntArrayRef map = Sizes(inputs[0]), weight = Sizes(inputs[1]);
  if (inputs[6].toBool()) return Product(map) * Product(weight.slice(1));
  const std::vector<int64_t> stride = inputs[3].toIntVector(), padding = inputs[4].toIntVector(),
                             dilation = inputs[5].toIntVector();
  int64_t outputs = map[0] * weight[0];
  for (size_t axis = 0; axis + 2 < map.size(); ++axis) {
    const auto of = [&](const std::vector<int64_t>& each) {
      return each.size() == 1 ? each[0] : each[axis];
    };
    const int64_t reach = of(dilation) * (weight[axis + 2] - 1) + 1;
    outputs *= (map[axis + 2] + 2 * of(padding) - reach) / of(stride) + 1;
  }
  return outputs * Product(weight.slice(1));
}

// Query [.., D]: both products with `keys` keys for each query.
int64_t Attention(const c10::IValue& query, int64_t keys) {
  return 2 * Product(Sizes(query)) * keys;
}

int64_t TokenSets(Values inputs) {
  const at::IntArrayRef key = Sizes(inputs[1]);
  return Attention(inputs[0], key[key.size() - 2]);
}

int64_t Windows(Values inputs) {
  const std::vector<int64_t> window = inputs[3].toIntVector();
  return Attention(inputs[0], window[0] * window[1]);
}

int64_t CrissCross(Values inputs) {
  const at::IntArrayRef map = Sizes(inputs[0]);
  return Attention(inputs[0], map[2] + map[3] - 1);
}

// A quarter of the heads sees rows, a quarter columns, half of them windows.
int64_t AxialWindows(Values inputs) {
  const at::IntArrayRef map = Sizes(inputs[0]);
  const int64_t window = inputs[3].toInt();
  return Attention(inputs[0], map[2] + map[3] + 2 * window * window) / 4;
}

// Logits of M map positions by a 3x3 convolution, then their product with the values.
int64_t ConvStaticKeys(Values inputs) {
  const std::vector<int64_t> grid = inputs[2].toIntVector();
  const int64_t keys = grid[0] * grid[1];
  return Product(Sizes(inputs[0])) * keys * 9 + Product(Sizes(inputs[0])) * keys;
}

// The gate, the context and its product with the values, once for each element of the keys.
int64_t KeyOnly(Values inputs) { return 3 * Product(Sizes(inputs[0])); }

// Four projections of C x C around it.
int64_t KeyOnlyLayer(Values inputs) {
  const int64_t elements = Product(Sizes(inputs[0]));
  return 4 * elements * Sizes(inputs[0]).back() + 3 * elements;
}

int64_t RpCpe(Values inputs) { return Product(Sizes(inputs[0])) * 9 * Sizes(inputs[1]).front(); }

using Count = int64_t (*)(Values inputs);

// What is counted. Operators inside a counted one belong to it.
const std::map<std::string_view, Count>& Counted() {
  static const std::map<std::string_view, Count> counted = {
      {"aten::linear", [](Values in) { return Product(Sizes(in[0])) * Sizes(in[1]).front(); }},
      {"aten::mm", [](Values in) { return MatrixProduct(in[0], in[1]); }},
      {"aten::bmm", [](Values in) { return MatrixProduct(in[0], in[1]); }},
      {"aten::addmm", [](Values in) { return MatrixProduct(in[1], in[2]); }},
      {"aten::baddbmm", [](Values in) { return MatrixProduct(in[1], in[2]); }},
      {"aten::convolution", Convolution},
      {"aten::scaled_dot_product_attention", TokenSets},
      {"fovea::dense_attention", TokenSets},
      {"fovea::knn_attention", TokenSets},
      {"fovea::knn_attention_exact", TokenSets},
      {"fovea::static_key_attention", TokenSets},
      {"fovea::window_attention", Windows},
      {"fovea::criss_cross_attention", CrissCross},
      {"fovea::axial_window_attention", AxialWindows},
      {"fovea::conv_static_key_attention", ConvStaticKeys},
      {"fovea::key_only_attention", KeyOnly},
      {"fovea::key_only_layer", KeyOnlyLayer},
      {"fovea::rp_cpe", RpCpe},
  };
  return counted;
}

struct Totals {
  int64_t multiply_adds = 0;
  int depth = 0;        // of counted operators that are running
  std::string failure;  // of a count: LibTorch lets no exception out of a callback
};
thread_local Totals* totals = nullptr;

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  const auto counted = Counted().find(function.name());
  if (totals == nullptr || counted == Counted().end() || totals->depth++ > 0) return nullptr;
  try {
    totals->multiply_adds += counted->second(function.inputs());
  } catch (const std::exception& error) {
    totals->failure = std::string(counted->first) + ": " + error.what();
  }
  return nullptr;
}

void Leave(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (totals != nullptr && Counted().contains(function.name())) --totals->depth;
}

}  // namespace

struct OperationCounter::State {
  Totals totals;
  at::CallbackHandle callback;
};

OperationCounter::OperationCounter() : state_(std::make_unique<State>()) {
  TORCH_CHECK(totals == nullptr, "a thread has one operation counter at a time");
  totals = &state_->totals;
  state_->callback = at::addThreadLocalCallback(at::RecordFunctionCallback(Enter, Leave)
                                                    .needsInputs(true)
                                                    .scopes({at::RecordScope::FUNCTION}));
}

OperationCounter::~OperationCounter() {
  at::removeCallback(state_->callback);
  totals = nullptr;
}

int64_t OperationCounter::multiply_adds() const {
  TORCH_CHECK(state_->totals.failure.empty(), "not counted: ", state_->totals.failure);
  return state_->totals.multiply_adds;
}

}  // namespace fovea::models
