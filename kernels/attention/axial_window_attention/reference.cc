#include <ATen/Functions.h>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/window_attention/implementations.h"

namespace fovea::kernels {
namespace {

// `map` [B, heads, H, W, D] with `pad` [heads, D], or zeros, below and to the right.
at::Tensor PadMap(const at::Tensor& map, const std::optional<at::Tensor>& pad, int64_t height,
                  int64_t width) {
  const int64_t below = height - map.size(2), right = width - map.size(3);
  if (below == 0 && right == 0) return map;
  const at::Tensor padding =
      (pad ? *pad : at::zeros({map.size(1), map.size(4)}, map.options())).unsqueeze(1).unsqueeze(1);
  const auto block = [&](int64_t rows, int64_t columns) {
    return padding.expand({map.size(0), map.size(1), rows, columns, map.size(4)});
  };
  const at::Tensor wide = at::cat({map, block(map.size(2), right)}, 3);
  return at::cat({wide, block(below, width)}, 2);
}

}  // namespace

at::Tensor AxialWindowAttentionReference(const AxialWindowAttentionInputs& in) {
  const int64_t quarter = in.query.size(1) / 4;
  const int64_t height = in.query.size(2), width = in.query.size(3);
  const auto heads = [&](const at::Tensor& map, int64_t first, int64_t count) {
    return map.narrow(1, first, count);
  };
  const at::Tensor rows = WindowAttentionReference({heads(in.query, 0, quarter),
                                                    heads(in.key, 0, quarter),
                                                    heads(in.value, 0, quarter),
                                                    {1, width},
                                                    {0, 0},
                                                    in.scale,
                                                    in.bias_rows});
  const at::Tensor columns = WindowAttentionReference({heads(in.query, quarter, quarter),
                                                       heads(in.key, quarter, quarter),
                                                       heads(in.value, quarter, quarter),
                                                       {height, 1},
                                                       {0, 0},
                                                       in.scale,
                                                       in.bias_columns});

  const int64_t padded_height = (height + in.window - 1) / in.window * in.window;
  const int64_t padded_width = (width + in.window - 1) / in.window * in.window;
  const auto padded = [&](const at::Tensor& map, const std::optional<at::Tensor>& pad) {
    return PadMap(heads(map, 2 * quarter, 2 * quarter), pad, padded_height, padded_width);
  };
  const at::Tensor windows = WindowAttentionReference({padded(in.query, std::nullopt),
                                                       padded(in.key, in.pad_key),
                                                       padded(in.value, in.pad_value),
                                                       {in.window, in.window},
                                                       {in.shift, in.shift},
                                                       in.scale,
                                                       in.bias_window})
                                 .narrow(2, 0, height)
                                 .narrow(3, 0, width);
  return at::cat({rows, columns, windows}, 1);
}

}  // namespace fovea::kernels
