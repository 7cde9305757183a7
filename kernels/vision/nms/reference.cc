#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/vision/nms/implementations.h"

namespace fovea::kernels {
namespace {

// std::max and std::min, which ATen's are not where a NaN is involved.
at::Tensor Larger(const at::Tensor& a, const at::Tensor& b) { return at::where(a.lt(b), b, a); }
at::Tensor Smaller(const at::Tensor& a, const at::Tensor& b) { return at::where(b.lt(a), b, a); }

}  // namespace

at::Tensor NmsReference(const NmsInputs& in) {
  // Rows are the boxes that suppress, columns those that are suppressed.
  const std::vector<at::Tensor> row = in.boxes.unsqueeze(1).unbind(-1);
  const std::vector<at::Tensor> column = in.boxes.unsqueeze(0).unbind(-1);
  const at::Tensor zero = at::zeros({}, in.boxes.options());
  const auto area = [](const std::vector<at::Tensor>& b) { return (b[2] - b[0]) * (b[3] - b[1]); };
  const auto extent = [&](int axis) {
    return Larger(zero, Smaller(row[axis + 2], column[axis + 2]) - Larger(row[axis], column[axis]));
  };
  const at::Tensor intersection = extent(0) * extent(1);
  const at::Tensor overlap = intersection / (area(row) + area(column) - intersection);
  // Compared in fp64, as the threshold is.
  const at::Tensor suppresses = overlap.to(at::kDouble).gt(in.iou).triu(1);

  // A box is kept where no kept box before it suppresses it. Each round settles one box more at
  // least, from the first on.
  at::Tensor keep = at::ones({in.boxes.size(0)}, in.boxes.options().dtype(at::kBool));
  while (true) {
    const at::Tensor next = suppresses.logical_and(keep.unsqueeze(1)).any(0).logical_not();
    if (next.equal(keep)) return keep;
    keep = next;
  }
}

}  // namespace fovea::kernels
