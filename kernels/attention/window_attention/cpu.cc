// The CPU implementation; shared/cpu_windows.h has the algorithm.
#include "kernels/attention/shared/cpu_windows.h"
#include "kernels/attention/window_attention/implementations.h"

namespace fovea::kernels {

void WindowAttentionCpu(const WindowAttentionInputs& in, const at::Tensor& output) {
  const AttentionWay way = attend::FastestWindowsWay(in.query.scalar_type(),
                                                     in.window[0] * in.window[1], in.query.size(4));
  const std::optional<at::Tensor> bias = attend::BiasFor(way, in.bias);
  attend::AttendWindows({attend::MakeWindowsJob(way, in.query, in.key, in.value, output,
                                                /*first_head=*/0, in.query.size(1), in.window,
                                                in.shift, in.scale, bias)});
}

}  // namespace fovea::kernels
