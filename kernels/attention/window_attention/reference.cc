#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/window_attention/implementations.h"

namespace fovea::kernels {
namespace {

// [..., H, W, D] to [..., windows, h*w, D], and back.
at::Tensor IntoWindows(const at::Tensor& map, std::array<int64_t, 2> window) {
  const int64_t rows = map.size(-3) / window[0];
  const int64_t columns = map.size(-2) / window[1];
  return map.unflatten(-3, {rows, window[0]})
      .unflatten(-2, {columns, window[1]})
      .transpose(-3, -4)
      .flatten(-3, -2)
      .flatten(-4, -3);
}
at::Tensor FromWindows(const at::Tensor& windows, std::array<int64_t, 2> window, int64_t height,
                       int64_t width) {
  return windows.unflatten(-3, {height / window[0], width / window[1]})
      .unflatten(-2, {window[0], window[1]})
      .transpose(-3, -4)
      .flatten(-3, -2)
      .flatten(-4, -3);
}

// Which of an axis' parts each place belongs to after the roll: Swin's slices.
at::Tensor Parts(int64_t size, int64_t window, int64_t shift, const at::TensorOptions& options) {
  at::Tensor parts = at::zeros({size}, options);
  if (shift > 0) {
    parts.narrow(0, size - window, window - shift).fill_(1);
    parts.narrow(0, size - shift, shift).fill_(2);
  }
  return parts;
}

}  // namespace

at::Tensor WindowAttentionReference(const WindowAttentionInputs& in) {
  const at::ScalarType accumulate = LogitType(in.query);
  const int64_t height = in.query.size(2), width = in.query.size(3);
  const auto windows = [&](const at::Tensor& map) {
    return IntoWindows(at::roll(map.to(accumulate), {-in.shift[0], -in.shift[1]}, {2, 3}),
                       in.window);
  };
  at::Tensor logits = at::matmul(windows(in.query), windows(in.key).mT()) * in.scale;
  if (in.bias) logits = logits + in.bias->to(accumulate).unsqueeze(1);
  if (in.shift[0] > 0 || in.shift[1] > 0) {
    const at::TensorOptions options = in.query.options().dtype(at::kLong);
    const at::Tensor part = 3 * Parts(height, in.window[0], in.shift[0], options).unsqueeze(1) +
                            Parts(width, in.window[1], in.shift[1], options);
    const at::Tensor of_token = IntoWindows(part.unsqueeze(-1), in.window);  // [windows, h*w, 1]
    logits =
        logits.masked_fill(of_token.ne(of_token.mT()), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor output = at::matmul(SoftmaxOrZero(logits), windows(in.value));
  return at::roll(FromWindows(output, in.window, height, width), in.shift, {2, 3})
      .to(in.query.scalar_type());
}

}  // namespace fovea::kernels
