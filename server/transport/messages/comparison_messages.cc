#include "server/transport/messages/comparison_messages.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/request.h"
#include "server/transport/messages/checked_fields.h"
#include "server/transport/messages/variant_messages.h"

namespace fovea {
namespace {

constexpr char kBadRequest[] = "compare.bad_request";

v1::Verdict ToMessage(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBaseline:
      return v1::VERDICT_UNSPECIFIED;
    case Verdict::kFaster:
      return v1::FASTER;
    case Verdict::kSlower:
      return v1::SLOWER;
    case Verdict::kEquivalent:
      return v1::EQUIVALENT;
    case Verdict::kUndecided:
      return v1::UNDECIDED;
    case Verdict::kFewRounds:
      return v1::FEW_ROUNDS;
    case Verdict::kUnsteady:
      return v1::UNSTEADY;
    case Verdict::kControlOff:
      return v1::CONTROL_OFF;
    case Verdict::kWide:
      return v1::WIDE;
  }
  return v1::VERDICT_UNSPECIFIED;
}

v1::ComparisonProgress::Phase ToMessage(ComparisonProgress::Phase phase) {
  switch (phase) {
    case ComparisonProgress::Phase::kWaiting:
      return v1::ComparisonProgress::WAITING;
    case ComparisonProgress::Phase::kLoading:
      return v1::ComparisonProgress::LOADING;
    case ComparisonProgress::Phase::kMeasuring:
      return v1::ComparisonProgress::MEASURING;
    case ComparisonProgress::Phase::kAnalysing:
      return v1::ComparisonProgress::ANALYSING;
  }
  return v1::ComparisonProgress::PHASE_UNSPECIFIED;
}

void Fill(const ComparedTime& time, v1::ComparedTime* message) {
  Fill(time.ms, message->mutable_ms());
  if (time.ratio) Fill(*time.ratio, message->mutable_ratio());
  if (time.difference_ms) Fill(*time.difference_ms, message->mutable_difference_ms());
  message->set_verdict(ToMessage(time.verdict));
}

struct FillAgreement {
  v1::ComparedVariant* message;

  void operator()(std::monostate) const {}
  void operator()(const ClassAgreement& agreement) const {
    v1::ClassAgreement& classes = *message->mutable_classes();
    classes.set_images(agreement.images);
    classes.set_same_top1(agreement.same_top1);
    classes.set_top5_overlap(agreement.top5_overlap);
    classes.set_kl_divergence(agreement.kl_divergence);
    classes.set_max_confidence_difference(agreement.max_confidence_difference);
  }
  void operator()(const ObjectAgreement& agreement) const {
    v1::ObjectAgreement& objects = *message->mutable_objects();
    objects.set_baseline_objects(agreement.baseline_objects);
    objects.set_objects(agreement.objects);
    objects.set_matched(agreement.matched);
    objects.set_mean_box_iou(agreement.mean_box_iou);
    if (agreement.mean_mask_iou) objects.set_mean_mask_iou(*agreement.mean_mask_iou);
    objects.set_mean_score_difference(agreement.mean_score_difference);
  }
  void operator()(const MapAgreement& agreement) const {
    v1::MapAgreement& maps = *message->mutable_maps();
    maps.set_same_pixels(agreement.same_pixels);
    maps.set_mean_iou(agreement.mean_iou);
  }
};

void Fill(const ComparedVariant& variant, v1::ComparedVariant* message) {
  message->set_model_name(variant.model_name);
  message->set_model_version(variant.model_version);
  message->set_backbone(variant.backbone);
  message->set_attention(variant.attention);
  message->set_weights_of_attention(variant.weights_of_attention);
  message->set_untrained(variant.untrained);
  Fill(variant.compute, message->mutable_compute());
  Fill(variant.postprocess_ms, message->mutable_postprocess_ms());
  Fill(variant.decode_ms, message->mutable_decode_ms());
  Fill(variant.preprocess_ms, message->mutable_preprocess_ms());
  if (variant.attention_ms) Fill(*variant.attention_ms, message->mutable_attention_ms());
  message->set_attention_left_out(variant.attention_left_out);
  message->set_images_per_second(variant.images_per_second);
  message->set_peak_bytes(variant.peak_bytes);
  message->set_weight_bytes(variant.weight_bytes);
  message->set_parameters(variant.parameters);
  message->set_multiply_adds(variant.multiply_adds);
  std::visit(FillAgreement{message}, variant.agreement);
  for (const BriefAnswer& answer : variant.answers) {
    v1::BriefAnswer& brief = *message->add_answers();
    brief.set_label(answer.label);
    brief.set_confidence(answer.confidence);
    brief.set_objects(answer.objects);
  }
  if (variant.feature_cosine) message->set_feature_cosine(*variant.feature_cosine);
}

}  // namespace

void Fill(const Quartiles& quartiles, v1::Quartiles* message) {
  message->set_lower(quartiles.lower);
  message->set_median(quartiles.median);
  message->set_upper(quartiles.upper);
}

void Fill(const Estimate& estimate, v1::Estimate* message) {
  message->set_value(estimate.value);
  message->set_lower(estimate.lower);
  message->set_upper(estimate.upper);
}

absl::StatusOr<CompareRequest> ReadCompareRequest(v1::CompareRequest& message) {
  CompareRequest request;
  FOVEA_RETURN_IF_ERROR(
      CheckLength(kBadRequest, "the id", message.id().size(), limits::kMaxRequestIdBytes));
  FOVEA_ASSIGN_OR_RETURN(request.variants, ReadVariants(message.variants(), kBadRequest));
  for (std::string& image : *message.mutable_images()) request.images.push_back(std::move(image));
  request.id = std::move(*message.mutable_id());
  FOVEA_ASSIGN_OR_RETURN(request.rounds,
                         NumberOr(kBadRequest, "rounds", message.rounds(), request.rounds));
  FOVEA_ASSIGN_OR_RETURN(request.max_rounds,
                         NumberOr(kBadRequest, "max_rounds", message.max_rounds(),
                                  static_cast<int>(std::min<int64_t>(10 * int64_t{request.rounds},
                                                                     limits::kMaxComparedRounds))));
  FOVEA_ASSIGN_OR_RETURN(request.batch_size, NumberOr(kBadRequest, "batch_size",
                                                      message.batch_size(), request.batch_size));
  FOVEA_ASSIGN_OR_RETURN(request.threads, NumberOr(kBadRequest, "threads", message.threads(), 0));
  if (message.max_time_us() != 0) request.max_time = ShortenedTimeout(message.max_time_us());
  return request;
}

void Fill(const Provenance& provenance, v1::Provenance* message) {
  message->set_at(provenance.at);
  message->set_by(provenance.by);
  message->set_processor(provenance.processor);
  message->set_cores(provenance.cores);
  if (!provenance.other_cores) return;
  message->set_other_cores(*provenance.other_cores);
  message->set_busy(provenance.busy);
}

void FillProgress(const ComparisonProgress& progress, v1::ComparisonProgress* message) {
  message->set_phase(ToMessage(progress.phase));
  message->set_done(progress.done);
  message->set_total(progress.total);
  for (const TimeSoFar& time : progress.so_far) {
    v1::TimeSoFar& so_far = *message->add_so_far();
    Fill(time.compute_ms, so_far.mutable_compute_ms());
    so_far.set_ratio(time.ratio);
  }
}

void FillComparison(const Comparison& comparison, v1::Comparison* message) {
  message->set_id(comparison.id);
  for (const ComparedVariant& variant : comparison.variants) {
    Fill(variant, message->add_variants());
  }
  Fill(comparison.control, message->mutable_control());
  message->set_rounds(comparison.rounds);
  message->set_batch_size(comparison.batch_size);
  message->set_threads(comparison.threads);
  message->set_device(comparison.device);
  for (const ComparedImage& image : comparison.images) {
    v1::ComparedImage& size = *message->add_images();
    size.set_height(static_cast<int32_t>(image.size.height));
    size.set_width(static_cast<int32_t>(image.size.width));
  }
  Fill(comparison.measured, message->mutable_measured());
}

}  // namespace fovea
