#include "kernels/vision/roi_align/op.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"
#include "kernels/vision/roi_align/implementations.h"
#include "kernels/vision/roi_align/samples.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "roi_align";
constexpr int64_t kLargestOutput = 32768;

void CheckContract(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t h,
                   int64_t w, int64_t sampling) {
  const Contract contract(kOp);
  const Contract::Argument map{"input", input}, regions{"rois", rois};
  contract.HasRank(map, 4, "[batch, channels, height, width]");
  contract.IsFloating(map);
  contract.IsNotEmpty(map, 1, "channel");
  contract.IsNotEmpty(map, 2, "row");
  contract.IsNotEmpty(map, 3, "column");
  contract.HasRank(regions, 2, "[rois, 5]");
  contract.IsBiasOf(regions, map);
  contract.HasCount(regions, 1, 5, "numbers per region");
  contract.IsFinite("spatial_scale", spatial_scale);
  contract.IsWithin("h", h, 1, kLargestOutput, "bins");
  contract.IsWithin("w", w, 1, kLargestOutput, "bins");
  if (sampling > 0)
    contract.IsWithin("sampling", sampling, 1, roi_align::kMostSamples, "samples per axis");
}

// Memory is read where these say.
void CheckImageIndices(const at::Tensor& rois, int64_t images) {
  const auto rows = rois.to(at::kDouble);
  const auto accessor = rows.accessor<double, 2>();
  for (int64_t k = 0; k < rows.size(0); ++k) {
    TORCH_CHECK(accessor[k][0] >= 0 && accessor[k][0] < static_cast<double>(images), kOp,
                ": rois must name an image in [0, ", images, ") (input's batch), got ",
                accessor[k][0], " in row ", k);
  }
}

at::Tensor AllocateOutput(const at::Tensor& input, const at::Tensor& rois, int64_t h, int64_t w) {
  const bool channels_last = input.sym_stride(1) == 1 && !input.is_contiguous();
  return at::empty_symint(
      {rois.sym_size(0), input.sym_size(1), h, w}, input.options(),
      channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

RoiAlignInputs MakeInputs(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                          int64_t h, int64_t w, int64_t sampling, bool aligned) {
  const at::ScalarType type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {input, rois.to(type).contiguous(),     spatial_scale, h,
          w,     std::max<int64_t>(sampling, 0), aligned};
}

at::Tensor Compute(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t h,
                   int64_t w, int64_t sampling, bool aligned) {
  CheckContract(input, rois, spatial_scale, h, w, sampling);
  if (rois.is_cpu()) CheckImageIndices(rois, input.size(0));
  at::Tensor output = AllocateOutput(input, rois, h, w);
  if (output.numel() == 0) return output;
  const RoiAlignInputs in = MakeInputs(input, rois, spatial_scale, h, w, sampling, aligned);
  switch (
      ChooseImplementation(RoiAlignCapabilities(), input.device().type(), input.scalar_type())) {
    case Implementation::kReference:
      output.copy_(RoiAlignReference(in));
      break;
    case Implementation::kCpu:
      RoiAlignCpu(in, output);
      break;
    case Implementation::kCuda:
#ifdef FOVEA_KERNELS_CUDA
      RoiAlignCuda(in, output);
#endif
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& input, const at::Tensor& rois, double spatial_scale, int64_t h,
                int64_t w, int64_t sampling, bool /*aligned*/) {
  CheckContract(input, rois, spatial_scale, h, w, sampling);
  return AllocateOutput(input, rois, h, w);
}

at::Tensor Autograd(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                    int64_t h, int64_t w, int64_t sampling, bool aligned) {
  return ApplyWithReferenceGradient(
      {input, rois}, {.forward =
                          [=](const std::vector<at::Tensor>& t) {
                            return RoiAlign(t[0], t[1], spatial_scale, h, w, sampling, aligned);
                          },
                      .reference =
                          [=](const std::vector<at::Tensor>& t) {
                            return RoiAlignReference(MakeInputs(t[0], t[1].detach(), spatial_scale,
                                                                h, w, sampling, aligned));
                          }});
}

// Called by the reference alone, which has checked what goes in.
at::Tensor ComputeWeights(const at::Tensor& begin, const at::Tensor& end, double spatial_scale,
                          int64_t bins, int64_t pixels, int64_t sampling, bool aligned) {
  return RoiAlignWeightsReference(begin, end, {spatial_scale, bins, pixels, sampling, aligned});
}

at::Tensor MetaWeights(const at::Tensor& begin, const at::Tensor& /*end*/, double, int64_t bins,
                       int64_t pixels, int64_t, bool) {
  return at::empty_symint({begin.sym_size(0), bins, pixels}, begin.options());
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "roi_align_weights(Tensor begin, Tensor end, float spatial_scale, int bins, int pixels, "
      "int sampling, bool aligned) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "roi_align(Tensor input, Tensor rois, float spatial_scale, int h, int w, int sampling, "
      "bool aligned) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("roi_align", Compute);
  m.impl("roi_align_weights", ComputeWeights);
}
TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  m.impl("roi_align", Compute);
  m.impl("roi_align_weights", ComputeWeights);
}
TORCH_LIBRARY_IMPL(fovea, Meta, m) {
  m.impl("roi_align", Meta);
  m.impl("roi_align_weights", MetaWeights);
}
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("roi_align", Autograd); }

}  // namespace

Capabilities RoiAlignCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor RoiAlign(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                    int64_t h, int64_t w, int64_t sampling, bool aligned) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::roi_align", "")
                             .typed<decltype(Compute)>();
  return op.call(input, rois, spatial_scale, h, w, sampling, aligned);
}

at::Tensor RoiAlignWeights(const at::Tensor& begin, const at::Tensor& end,
                           const RoiAlignGrid& grid) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::roi_align_weights", "")
                             .typed<decltype(ComputeWeights)>();
  return op.call(begin, end, grid.spatial_scale, grid.bins, grid.pixels, grid.sampling,
                 grid.aligned);
}

}  // namespace fovea::kernels
