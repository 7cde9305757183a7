#include "client/cpp/comparison_wire.h"

#include <algorithm>

namespace fovea::client {
namespace {

Verdict FromWire(fovea::v1::Verdict verdict) {
  switch (verdict) {
    case fovea::v1::VERDICT_UNSPECIFIED:
      return Verdict::kBaseline;
    case fovea::v1::FASTER:
      return Verdict::kFaster;
    case fovea::v1::SLOWER:
      return Verdict::kSlower;
    case fovea::v1::EQUIVALENT:
      return Verdict::kEquivalent;
    case fovea::v1::NO_DIFFERENCE:  // of an earlier server
    case fovea::v1::UNDECIDED:
      return Verdict::kUndecided;
    case fovea::v1::FEW_ROUNDS:
      return Verdict::kFewRounds;
    case fovea::v1::UNSTEADY:
      return Verdict::kUnsteady;
    case fovea::v1::CONTROL_OFF:
      return Verdict::kControlOff;
    case fovea::v1::WIDE:
      return Verdict::kWide;
    default:
      return Verdict::kUnknown;
  }
}

ComparedTime FromWire(const fovea::v1::ComparedTime& time) {
  ComparedTime compared{.ms = QuartilesFromWire(time.ms()), .verdict = FromWire(time.verdict())};
  if (time.has_ratio()) compared.ratio = EstimateFromWire(time.ratio());
  if (time.has_difference_ms()) compared.difference_ms = EstimateFromWire(time.difference_ms());
  return compared;
}

ComparedVariant FromWire(const fovea::v1::ComparedVariant& message) {
  ComparedVariant variant{.model = {message.model_name(), message.model_version()},
                          .backbone = message.backbone(),
                          .attention = message.attention(),
                          .weights_of_attention = message.weights_of_attention(),
                          .untrained = message.untrained(),
                          .compute = FromWire(message.compute()),
                          .postprocess_ms = QuartilesFromWire(message.postprocess_ms()),
                          .decode_ms = QuartilesFromWire(message.decode_ms()),
                          .preprocess_ms = QuartilesFromWire(message.preprocess_ms()),
                          .images_per_second = message.images_per_second(),
                          .peak_bytes = message.peak_bytes(),
                          .weight_bytes = message.weight_bytes(),
                          .parameters = message.parameters(),
                          .multiply_adds = message.multiply_adds()};
  if (message.has_attention_ms()) variant.attention_ms = QuartilesFromWire(message.attention_ms());
  variant.attention_left_out = message.attention_left_out();
  switch (message.agreement_case()) {
    case fovea::v1::ComparedVariant::kClasses: {
      const auto& classes = message.classes();
      variant.agreement =
          ClassAgreement{.images = classes.images(),
                         .same_top1 = classes.same_top1(),
                         .top5_overlap = classes.top5_overlap(),
                         .kl_divergence = classes.kl_divergence(),
                         .max_confidence_difference = classes.max_confidence_difference()};
      break;
    }
    case fovea::v1::ComparedVariant::kObjects: {
      const auto& objects = message.objects();
      ObjectAgreement agreement{.baseline_objects = objects.baseline_objects(),
                                .objects = objects.objects(),
                                .matched = objects.matched(),
                                .mean_box_iou = objects.mean_box_iou(),
                                .mean_score_difference = objects.mean_score_difference()};
      if (objects.has_mean_mask_iou()) agreement.mean_mask_iou = objects.mean_mask_iou();
      variant.agreement = agreement;
      break;
    }
    case fovea::v1::ComparedVariant::kMaps:
      variant.agreement = MapAgreement{.same_pixels = message.maps().same_pixels(),
                                       .mean_iou = message.maps().mean_iou()};
      break;
    case fovea::v1::ComparedVariant::AGREEMENT_NOT_SET:
      break;
  }
  for (const auto& answer : message.answers()) {
    variant.answers.push_back({answer.label(), answer.confidence(), answer.objects()});
  }
  if (message.has_feature_cosine()) variant.feature_cosine = message.feature_cosine();
  return variant;
}

}  // namespace

Quartiles QuartilesFromWire(const fovea::v1::Quartiles& quartiles) {
  return {quartiles.lower(), quartiles.median(), quartiles.upper()};
}

Estimate EstimateFromWire(const fovea::v1::Estimate& estimate) {
  return {estimate.value(), estimate.lower(), estimate.upper()};
}

Provenance ProvenanceFromWire(const fovea::v1::Provenance& message) {
  Provenance provenance{.at = message.at(),
                        .by = message.by(),
                        .processor = message.processor(),
                        .cores = message.cores(),
                        .busy = message.busy()};
  if (message.has_other_cores()) provenance.other_cores = message.other_cores();
  return provenance;
}

void AddToWire(const std::vector<Variant>& variants,
               google::protobuf::RepeatedPtrField<fovea::v1::Variant>* messages) {
  for (const Variant& variant : variants) {
    fovea::v1::Variant& to = *messages->Add();
    to.set_model_name(variant.model.name);
    to.set_model_version(variant.model.version);
    to.set_attention(variant.attention);
  }
}

uint64_t MicrosecondsToWire(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Microseconds(duration)));
}

bool IsVerdict(Verdict verdict) {
  return verdict == Verdict::kFaster || verdict == Verdict::kSlower ||
         verdict == Verdict::kEquivalent;
}

fovea::v1::CompareRequest ToWire(const CompareRequest& request) {
  fovea::v1::CompareRequest message;
  AddToWire(request.variants, message.mutable_variants());
  for (const std::string& image : request.images) message.add_images(image);
  message.set_rounds(request.rounds);
  message.set_max_rounds(request.max_rounds);
  message.set_max_time_us(MicrosecondsToWire(request.max_time));
  message.set_batch_size(request.batch_size);
  message.set_threads(request.threads);
  return message;
}

MeasuringProgress FromWire(const fovea::v1::ComparisonProgress& message) {
  using Phase = MeasuringProgress::Phase;
  MeasuringProgress progress{.done = message.done(), .total = message.total()};
  switch (message.phase()) {
    case fovea::v1::ComparisonProgress::LOADING:
      progress.phase = Phase::kLoading;
      break;
    case fovea::v1::ComparisonProgress::MEASURING:
      progress.phase = Phase::kMeasuring;
      break;
    case fovea::v1::ComparisonProgress::ANALYSING:
      progress.phase = Phase::kAnalysing;
      break;
    default:
      break;
  }
  for (const fovea::v1::TimeSoFar& time : message.so_far()) {
    progress.so_far.push_back({QuartilesFromWire(time.compute_ms()), time.ratio()});
  }
  return progress;
}

absl::StatusOr<Comparison> FromWire(const fovea::v1::Comparison& message) {
  if (message.variants().empty()) {
    return absl::InternalError("the server's comparison has no variant");
  }
  Comparison comparison{.control = FromWire(message.control()),
                        .rounds = message.rounds(),
                        .batch_size = message.batch_size(),
                        .threads = message.threads(),
                        .device = message.device()};
  for (const auto& variant : message.variants()) {
    comparison.variants.push_back(FromWire(variant));
  }
  comparison.measured = ProvenanceFromWire(message.measured());
  for (const auto& image : message.images()) {
    comparison.images.push_back({image.height(), image.width()});
  }
  return comparison;
}

}  // namespace fovea::client
