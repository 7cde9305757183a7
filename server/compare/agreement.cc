#include "server/compare/agreement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/run_lengths.h"

namespace fovea {
namespace {

constexpr size_t kTop = 5;
constexpr double kLeastIou = 0.5;  // of boxes that show the same object

// log(1 + e^x)
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// Natural logarithms of the probabilities that a class is there, and that it is not.
struct LogProbability {
  double there = 0, absent = 0;
};

// By class.
std::map<int, LogProbability> LogProbabilities(const std::vector<ClassScore>& classes,
                                               ClassConfidence confidence) {
  std::map<int, LogProbability> logs;
  if (confidence == ClassConfidence::kSigmoid) {
    for (const ClassScore& score : classes) {
      logs[score.index] = {-Softplus(-score.logit), -Softplus(score.logit)};
    }
    return logs;
  }
  double largest = -INFINITY, sum = 0;
  for (const ClassScore& score : classes) largest = std::max<double>(largest, score.logit);
  for (const ClassScore& score : classes) sum += std::exp(score.logit - largest);
  const double most = std::nextafter(1.0, 0.0);  // a class next to which all others vanish
  for (const ClassScore& score : classes) {
    const double there = score.logit - largest - std::log(sum);
    logs[score.index] = {there, std::log1p(-std::min(std::exp(there), most))};
  }
  return logs;
}

// Kullback-Leibler divergence of q from p, in nats; infinite if q lacks a class of p. For softmax
// confidences that of the distribution over the classes, for sigmoids the mean over the classes.
double KlDivergence(const std::map<int, LogProbability>& log_p,
                    const std::map<int, LogProbability>& log_q, bool shares) {
  double divergence = 0;
  for (const auto& [index, p] : log_p) {
    const auto other = log_q.find(index);
    if (other == log_q.end()) return INFINITY;
    const LogProbability& q = other->second;
    divergence += std::exp(p.there) * (p.there - q.there);
    if (!shares) divergence += std::exp(p.absent) * (p.absent - q.absent);
  }
  if (!shares) divergence /= static_cast<double>(log_p.size());
  return std::max(divergence, 0.0);
}

void AddImage(const std::vector<ClassScore>& classes, const std::vector<ClassScore>& baseline,
              const ComparedConfidences& confidences, ClassAgreement& agreement) {
  FOVEA_CHECK(!classes.empty() && !baseline.empty());
  ++agreement.images;
  agreement.same_top1 += classes.front().index == baseline.front().index;
  const size_t top = std::min({kTop, classes.size(), baseline.size()});
  const auto in_baseline = [&](const ClassScore& score) {
    return std::any_of(baseline.begin(), baseline.begin() + top,
                       [&](const ClassScore& one) { return one.index == score.index; });
  };
  agreement.top5_overlap +=
      static_cast<double>(std::count_if(classes.begin(), classes.begin() + top, in_baseline)) / top;
  const auto log_p = LogProbabilities(baseline, confidences.baseline);
  const auto log_q = LogProbabilities(classes, confidences.results);
  const bool shares = confidences.baseline == ClassConfidence::kSoftmax &&
                      confidences.results == ClassConfidence::kSoftmax;
  agreement.kl_divergence += KlDivergence(log_p, log_q, shares);
  for (const auto& [index, log] : log_p) {
    const auto other = log_q.find(index);
    const double difference =
        std::exp(log.there) - (other == log_q.end() ? 0.0 : std::exp(other->second.there));
    agreement.max_confidence_difference =
        std::max(agreement.max_confidence_difference, std::abs(difference));
  }
}

double BoxIou(const Box& a, const Box& b) {
  if (a == b) return 1;  // without an area too
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Box& box) {
    return static_cast<double>(box.right - box.left) * (box.bottom - box.top);
  };
  const double shared = width * height;
  return shared / (area(a) + area(b) - shared);
}

// Walks over two masks of one picture, run by run: visit(in the first, in the second, pixels).
template <typename Visit>
void WalkMasks(const std::vector<int64_t>& a, const std::vector<int64_t>& b, Visit visit) {
  size_t at_a = 0, at_b = 0;
  int64_t left_a = a.empty() ? 0 : a[0], left_b = b.empty() ? 0 : b[0];
  while (at_a < a.size() && at_b < b.size()) {
    const int64_t pixels = std::min(left_a, left_b);
    if (pixels > 0) visit(at_a % 2 == 1, at_b % 2 == 1, pixels);
    if ((left_a -= pixels) == 0 && ++at_a < a.size()) left_a = a[at_a];
    if ((left_b -= pixels) == 0 && ++at_b < b.size()) left_b = b[at_b];
  }
}

std::vector<int64_t> Runs(const std::string& text, const ImageSize& image) {
  std::optional<std::vector<int64_t>> runs = ReadRunLengths(text, image.height * image.width);
  FOVEA_CHECK(runs.has_value());  // they are our own
  return *std::move(runs);
}

// 1 where neither shows a pixel.
double MaskIou(const InstanceMask& a, const InstanceMask& b, const ImageSize& image) {
  int64_t both = 0, either = 0;
  WalkMasks(Runs(a.run_lengths, image), Runs(b.run_lengths, image),
            [&](bool in_a, bool in_b, int64_t pixels) {
              if (in_a && in_b) both += pixels;
              if (in_a || in_b) either += pixels;
            });
  return either == 0 ? 1 : static_cast<double>(both) / static_cast<double>(either);
}

// Sums over what matches, until the end.
struct Matches {
  ObjectAgreement agreement;
  double mask_iou = 0;
  int masks = 0;
};

// Each object, the surest first, takes the baseline's object that it overlaps most.
void AddImage(const ImageDetections& found, const ImageDetections& baseline, Matches& matches) {
  ObjectAgreement& agreement = matches.agreement;
  agreement.objects += static_cast<int>(found.detections.size());
  agreement.baseline_objects += static_cast<int>(baseline.detections.size());
  std::vector<bool> taken(baseline.detections.size());
  for (const Detection& object : found.detections) {
    double best = 0;
    size_t with = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      const Detection& other = baseline.detections[i];
      if (taken[i] || other.class_index != object.class_index) continue;
      const double iou = BoxIou(object.box, other.box);
      if (iou > best) best = iou, with = i;
    }
    if (best < kLeastIou) continue;
    taken[with] = true;
    const Detection& other = baseline.detections[with];
    ++agreement.matched;
    agreement.mean_box_iou += best;
    agreement.mean_score_difference += std::abs(object.score - other.score);
    if (!object.mask || !other.mask) continue;
    matches.mask_iou += MaskIou(*object.mask, *other.mask, found.image);
    ++matches.masks;
  }
}

// By class, over all images.
struct Overlap {
  int64_t both = 0, either = 0;
};

void AddImage(const ImageSegmentation& map, const ImageSegmentation& baseline,
              std::map<int, Overlap>& overlaps) {
  const auto runs_by_class = [](const ImageSegmentation& of) {
    std::map<int, std::vector<int64_t>> runs;
    for (const ClassArea& area : of.classes) {
      runs[area.class_index] = Runs(area.run_lengths, of.image);
    }
    return runs;
  };
  auto ours = runs_by_class(map), theirs = runs_by_class(baseline);
  const std::vector<int64_t> nowhere = {map.image.height * map.image.width};
  for (const auto& [index, runs] : ours) theirs.try_emplace(index, nowhere);
  for (const auto& [index, runs] : theirs) {
    const auto own = ours.find(index);
    Overlap& overlap = overlaps[index];
    WalkMasks(own == ours.end() ? nowhere : own->second, runs,
              [&](bool in_a, bool in_b, int64_t pixels) {
                if (in_a && in_b) overlap.both += pixels;
                if (in_a || in_b) overlap.either += pixels;
              });
  }
}

std::string LabelOf(const std::string& label, int index) {
  return label.empty() ? absl::StrCat(index) : label;
}

Agreement AgreeOnClasses(std::span<const Results> results, std::span<const Results> baseline,
                         const ComparedConfidences& confidences) {
  ClassAgreement agreement;
  for (size_t i = 0; i < results.size(); ++i) {
    AddImage(std::get<ClassifyResults>(results[i]).at(0),
             std::get<ClassifyResults>(baseline[i]).at(0), confidences, agreement);
  }
  agreement.top5_overlap /= agreement.images;
  agreement.kl_divergence /= agreement.images;
  return agreement;
}

Agreement AgreeOnObjects(std::span<const Results> results, std::span<const Results> baseline) {
  Matches matches;
  for (size_t i = 0; i < results.size(); ++i) {
    AddImage(std::get<DetectResults>(results[i]).at(0), std::get<DetectResults>(baseline[i]).at(0),
             matches);
  }
  ObjectAgreement& agreement = matches.agreement;
  if (agreement.matched > 0) {
    agreement.mean_box_iou /= agreement.matched;
    agreement.mean_score_difference /= agreement.matched;
  }
  if (matches.masks > 0) agreement.mean_mask_iou = matches.mask_iou / matches.masks;
  return agreement;
}

Agreement AgreeOnMaps(std::span<const Results> results, std::span<const Results> baseline) {
  std::map<int, Overlap> overlaps;
  int64_t pixels = 0, same = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const ImageSegmentation& map = std::get<SegmentResults>(results[i]).at(0);
    AddImage(map, std::get<SegmentResults>(baseline[i]).at(0), overlaps);
    pixels += map.image.height * map.image.width;
  }
  MapAgreement agreement;
  for (const auto& [index, overlap] : overlaps) {
    same += overlap.both;
    agreement.mean_iou += static_cast<double>(overlap.both) / static_cast<double>(overlap.either);
  }
  agreement.mean_iou /= static_cast<double>(overlaps.size());
  agreement.same_pixels = static_cast<double>(same) / static_cast<double>(pixels);
  return agreement;
}

}  // namespace

Agreement Agree(std::span<const Results> results, std::span<const Results> baseline,
                const ComparedConfidences& confidences) {
  FOVEA_CHECK(!results.empty() && results.size() == baseline.size());
  FOVEA_CHECK(results[0].index() == baseline[0].index());
  if (std::holds_alternative<ClassifyResults>(results[0])) {
    return AgreeOnClasses(results, baseline, confidences);
  }
  if (std::holds_alternative<DetectResults>(results[0])) return AgreeOnObjects(results, baseline);
  return AgreeOnMaps(results, baseline);
}

BriefAnswer Brief(const Results& results) {
  if (const auto* classified = std::get_if<ClassifyResults>(&results)) {
    const ClassScore& best = classified->at(0).at(0);
    return {.label = LabelOf(best.label, best.index), .confidence = best.confidence};
  }
  if (const auto* detected = std::get_if<DetectResults>(&results)) {
    const std::vector<Detection>& objects = detected->at(0).detections;
    if (objects.empty()) return {};
    return {.label = LabelOf(objects[0].label, objects[0].class_index),
            .confidence = objects[0].score,
            .objects = static_cast<int>(objects.size())};
  }
  const ImageSegmentation& map = std::get<SegmentResults>(results).at(0);
  const ClassArea& largest = map.classes.at(0);
  return {.label = LabelOf(largest.label, largest.class_index),
          .confidence = static_cast<double>(largest.pixels) /
                        static_cast<double>(map.image.height * map.image.width)};
}

}  // namespace fovea
