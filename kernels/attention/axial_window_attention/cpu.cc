// The CPU implementation: the windows of three groups of heads in one pass over the map
// (shared/cpu_windows.h). The costliest come first, so that the threads end together.
#include <algorithm>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/shared/cpu_windows.h"

namespace fovea::kernels {

void AxialWindowAttentionCpu(const AxialWindowAttentionInputs& in, const at::Tensor& output) {
  const int64_t quarter = in.query.size(1) / 4;
  const int64_t height = in.query.size(2), width = in.query.size(3);
  // The way of most tokens' windows: costs grow with their square.
  const AttentionWay way = attend::FastestWindowsWay(
      in.query.scalar_type(), std::max({height, width, in.window * in.window}), in.query.size(4));
  const auto job = [&](int64_t first_head, int64_t heads, std::array<int64_t, 2> window,
                       int64_t shift, const std::optional<at::Tensor>& bias) {
    return attend::MakeWindowsJob(way, in.query, in.key, in.value, output, first_head, heads,
                                  window, {shift, shift}, in.scale, bias);
  };
  const std::optional<at::Tensor> bias_rows = attend::BiasFor(way, in.bias_rows);
  const std::optional<at::Tensor> bias_columns = attend::BiasFor(way, in.bias_columns);
  const std::optional<at::Tensor> bias_window = attend::BiasFor(way, in.bias_window);

  attend::WindowsJob windows =
      job(2 * quarter, 2 * quarter, {in.window, in.window}, in.shift, bias_window);
  const at::Tensor pad_key = in.pad_key ? in.pad_key->contiguous() : at::Tensor();
  const at::Tensor pad_value = in.pad_value ? in.pad_value->contiguous() : at::Tensor();
  if (pad_key.defined()) {
    windows.pad_key = pad_key.const_data_ptr();
    windows.pad_key_head = pad_key.size(1);
  }
  if (pad_value.defined()) {
    windows.pad_value = pad_value.const_data_ptr();
    windows.pad_value_head = pad_value.size(1);
  }
  attend::AttendWindows({windows, job(0, quarter, {1, width}, 0, bias_rows),
                         job(quarter, quarter, {height, 1}, 0, bias_columns)});
}

}  // namespace fovea::kernels
