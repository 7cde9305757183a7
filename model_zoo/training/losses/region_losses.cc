#include "model_zoo/training/losses/region_losses.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/vision/roi_align/op.h"
#include "model_zoo/heads/region_features.h"
#include "model_zoo/training/losses/box_losses.h"

namespace fovea::models::training {
namespace {

constexpr double kBeta = 1.0 / 9;

// What each pixel of an axis weighs in each bin of regions that begin and end there [K], in pixels
// of the map: [K, bins, pixels]. As RoIAlign (kernels/vision/roi_align/op.h) with `samples` in a
// bin.
at::Tensor AxisWeights(const at::Tensor& begin, const at::Tensor& bin, int64_t samples,
                       int64_t bins, int64_t pixels) {
  const at::Tensor of_bins = at::arange(bins, begin.options()).view({1, -1, 1});
  const at::Tensor of_samples = (at::arange(samples, begin.options()) + 0.5).view({1, 1, -1});
  const at::Tensor wide = bin.view({-1, 1, 1});
  const at::Tensor place =
      begin.view({-1, 1, 1}) + of_bins * wide + of_samples * wide / static_cast<double>(samples);
  const at::Tensor inside = (place >= -1).logical_and(place <= pixels).unsqueeze(3);
  const at::Tensor nearest = place.clamp(0, static_cast<double>(pixels - 1)).unsqueeze(3);
  const at::Tensor distance = (nearest - at::arange(pixels, begin.options())).abs();
  return ((1 - distance).clamp_min(0) * inside).mean(2);
}

// Of an axis of each region, as many samples in a bin as TORCHVISION (2) or MMDETECTION (one for
// each pixel) take.
at::Tensor AxisWeights(const at::Tensor& from, const at::Tensor& to, double scale, int64_t bins,
                       int64_t pixels, Conventions conventions) {
  const bool torchvision = conventions == Conventions::kTorchvision;
  const at::Tensor begin = from * scale - (torchvision ? 0 : 0.5);
  at::Tensor size = to * scale - (torchvision ? 0 : 0.5) - begin;
  if (torchvision) size = size.clamp_min(1);
  const at::Tensor bin = size / static_cast<double>(bins);
  if (torchvision) return AxisWeights(begin, bin, 2, bins, pixels);
  const at::Tensor samples = bin.ceil().to(at::kLong);
  const at::Tensor weights = at::zeros({from.size(0), bins, pixels}, from.options());
  const at::Tensor counts = std::get<0>(at::_unique(samples));
  for (int64_t i = 0; i < counts.size(0); ++i) {
    const int64_t count = counts[i].item<int64_t>();
    if (count <= 0) continue;
    const at::Tensor index = (samples == count).nonzero().squeeze(1);
    weights.index_copy_(
        0, index,
        AxisWeights(begin.index_select(0, index), bin.index_select(0, index), count, bins, pixels));
  }
  return weights;
}

}  // namespace

at::Tensor LearnableRegionFeatures(std::span<const at::Tensor> pyramid,
                                   std::span<const int64_t> strides,
                                   const std::vector<at::Tensor>& boxes, int64_t side,
                                   Conventions conventions) {
  std::vector<at::Tensor> features;  // of each image and level
  std::vector<at::Tensor> places;    // of each of them, among all
  int64_t first = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const at::Tensor levels = LevelsOf(boxes[i], strides);
    for (size_t level = 0; level < strides.size(); ++level) {
      const at::Tensor index = (levels == static_cast<int64_t>(level)).nonzero().squeeze(1);
      const int64_t count = index.size(0);
      if (count == 0) continue;
      const at::Tensor own = boxes[i].index_select(0, index);
      const at::Tensor map = pyramid[level][static_cast<int64_t>(i)].to(at::kFloat);
      const int64_t channels = map.size(0), height = map.size(1), width = map.size(2);
      const double scale = 1.0 / static_cast<double>(strides[level]);
      const auto weights = [&](int64_t axis, int64_t pixels) {
        return AxisWeights(own.select(1, axis), own.select(1, axis + 2), scale, side, pixels,
                           conventions);
      };
      const at::Tensor rows = weights(1, height).view({count * side, height});
      const at::Tensor columns = weights(0, width).transpose(1, 2);  // [K, W, side]
      const at::Tensor by_rows =
          rows.mm(map.permute({1, 0, 2}).reshape({height, channels * width}));
      features.push_back(by_rows.view({count, side * channels, width})
                             .bmm(columns)
                             .view({count, side, channels, side})
                             .permute({0, 2, 1, 3}));
      places.push_back(index + first);
    }
    first += boxes[i].size(0);
  }
  if (features.empty()) {
    return at::empty({0, pyramid[0].size(1), side, side}, pyramid[0].options().dtype(at::kFloat));
  }
  return at::cat(features).index_select(0, at::cat(places).argsort());
}

ProposalLoss LossOfProposals(const AnchorOutputs& outputs, const std::vector<ImageTruth>& images,
                             const RegionOptions& options, Random& random) {
  std::vector<at::Tensor> logits, targets, deltas, wanted;
  for (size_t i = 0; i < images.size(); ++i) {
    const auto image = static_cast<int64_t>(i);
    const at::Tensor matched = MatchObjects(outputs.anchors, images[i], options.proposal_match);
    const auto [foreground, background] = SampleMatches(matched, options.proposal_sample, random);
    const at::Tensor all = outputs.logits[image].squeeze(1);
    logits.push_back(all.index_select(0, at::cat({foreground, background})));
    targets.push_back(at::cat({at::ones_like(foreground), at::zeros_like(background)}));
    deltas.push_back(outputs.deltas[image].index_select(0, foreground));
    if (foreground.size(0) == 0) continue;
    wanted.push_back(
        EncodeBoxes(images[i].boxes.index_select(0, matched.index_select(0, foreground)),
                    outputs.anchors.index_select(0, foreground), outputs.weights));
  }
  const at::Tensor sampled = at::cat(logits).to(at::kFloat);
  const at::Tensor moved = at::cat(deltas).to(at::kFloat);
  const double each = 1.0 / static_cast<double>(std::max<int64_t>(1, sampled.size(0)));
  return {.objectness =
              each * at::binary_cross_entropy_with_logits(sampled, at::cat(targets).to(at::kFloat),
                                                          {}, {}, at::Reduction::Sum),
          .boxes = wanted.empty() ? moved.sum()  // of none: zero, with a gradient
                                  : each * SmoothL1Sum(moved, at::cat(wanted), kBeta)};
}

RegionSample SampleRegions(const at::Tensor& proposals, const ImageTruth& image,
                           const RegionOptions& options, Random& random) {
  const at::Tensor boxes = at::cat({proposals, image.boxes});
  const at::Tensor matched = MatchObjects(boxes, image, options.region_match);
  const auto [foreground, background] = SampleMatches(matched, options.region_sample, random);
  return {.boxes = boxes.index_select(0, at::cat({foreground, background})),
          .objects = matched.index_select(0, foreground),
          .foreground = foreground.size(0)};
}

RegionLoss LossOfRegions(const at::Tensor& logits, const at::Tensor& deltas,
                         const std::vector<RegionSample>& regions,
                         const std::vector<ImageTruth>& images, const RegionCoding& coding) {
  const int64_t all = logits.size(0);
  const at::Tensor classes = at::full({all}, coding.background, at::kLong);
  std::vector<at::Tensor> index, labels, wanted;
  int64_t first = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const RegionSample& sample = regions[i];
    const int64_t count = sample.foreground;
    if (count > 0) {
      labels.push_back(images[i].labels.index_select(0, sample.objects));
      classes.narrow(0, first, count).copy_(labels.back());
      index.push_back(at::arange(first, first + count));
      wanted.push_back(EncodeBoxes(images[i].boxes.index_select(0, sample.objects),
                                   sample.boxes.slice(0, 0, count), coding.weights));
    }
    first += sample.boxes.size(0);
  }
  const at::Tensor numbers = deltas.view({all, -1, 4});
  RegionLoss loss{.classification = at::cross_entropy_loss(logits.to(at::kFloat), classes)};
  if (index.empty()) {
    loss.boxes = 0 * numbers.sum();
    return loss;
  }
  // A head that has one box for all classes has it in place 0.
  const at::Tensor place = numbers.size(1) == 1 ? at::zeros_like(at::cat(labels)) : at::cat(labels);
  const at::Tensor own = numbers.index({at::cat(index), place}).to(at::kFloat);
  loss.boxes = SmoothL1Sum(own, at::cat(wanted), kBeta) / static_cast<double>(all);
  return loss;
}

at::Tensor MasksWithin(const ImageTruth& image, const at::Tensor& objects, const at::Tensor& boxes,
                       int64_t height, int64_t width) {
  // As numbers a mask takes four times its bytes: of all objects, but for these, there may be many.
  const auto [shown, index, counts] =
      at::_unique2(objects, /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor masks = image.masks.index_select(0, shown).unsqueeze(1).to(at::kFloat);
  const at::Tensor places = at::cat({index.unsqueeze(1).to(at::kFloat), boxes}, 1);
  return kernels::RoiAlign(masks, places, /*spatial_scale=*/1, height, width, /*sampling=*/0,
                           /*aligned=*/false)
      .squeeze(1);
}

at::Tensor ForegroundLabels(const std::vector<RegionSample>& regions,
                            const std::vector<ImageTruth>& images) {
  std::vector<at::Tensor> labels;
  for (size_t i = 0; i < images.size(); ++i) {
    labels.push_back(images[i].labels.index_select(0, regions[i].objects));
  }
  return at::cat(labels);
}

at::Tensor LossOfMasks(const at::Tensor& logits, const std::vector<RegionSample>& regions,
                       const std::vector<ImageTruth>& images) {
  const int64_t side = logits.size(2);
  std::vector<at::Tensor> wanted;
  for (size_t i = 0; i < images.size(); ++i) {
    const RegionSample& sample = regions[i];
    if (sample.foreground == 0) continue;
    wanted.push_back(MasksWithin(images[i], sample.objects,
                                 sample.boxes.slice(0, 0, sample.foreground), side, side));
  }
  if (wanted.empty()) return 0 * logits.to(at::kFloat).sum();
  return at::binary_cross_entropy_with_logits(logits.to(at::kFloat), at::cat(wanted));
}

}  // namespace fovea::models::training
