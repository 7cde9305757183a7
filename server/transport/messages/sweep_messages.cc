#include "server/transport/messages/sweep_messages.h"

#include <optional>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/request.h"
#include "server/transport/messages/checked_fields.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/variant_messages.h"

namespace fovea {
namespace {

constexpr char kBadRequest[] = "sweep.bad_request";

absl::StatusOr<SweepAxis> FromMessage(int axis) {
  switch (axis) {
    case v1::SweepRequest::RESOLUTION:
      return SweepAxis::kResolution;
    case v1::SweepRequest::BATCH:
      return SweepAxis::kBatch;
    case v1::SweepRequest::K:
      return SweepAxis::kK;
    case v1::SweepRequest::TEMPERATURE:
      return SweepAxis::kTemperature;
    case v1::SweepRequest::HEADS:
      return SweepAxis::kHeads;
    case v1::SweepRequest::THREADS:
      return SweepAxis::kThreads;
    case v1::SweepRequest::PRECISION:
      return SweepAxis::kPrecision;
    default:
      return InvalidArgument(kBadRequest,
                             "it is not said what the sweep goes over: resolution, batch, k, "
                             "temperature, heads, threads or precision");
  }
}

v1::SweepRequest::Axis ToMessage(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::kResolution:
      return v1::SweepRequest::RESOLUTION;
    case SweepAxis::kBatch:
      return v1::SweepRequest::BATCH;
    case SweepAxis::kK:
      return v1::SweepRequest::K;
    case SweepAxis::kTemperature:
      return v1::SweepRequest::TEMPERATURE;
    case SweepAxis::kHeads:
      return v1::SweepRequest::HEADS;
    case SweepAxis::kThreads:
      return v1::SweepRequest::THREADS;
    case SweepAxis::kPrecision:
      return v1::SweepRequest::PRECISION;
  }
  return v1::SweepRequest::AXIS_UNSPECIFIED;
}

void FillPoint(const SweptPoint& point, v1::SweptPoint* message) {
  if (!point.failure.empty()) {
    message->set_failure(point.failure);
    return;
  }
  message->set_attention(point.attention);
  Fill(point.compute_ms, message->mutable_compute_ms());
  if (point.compute_estimate_ms) {
    Fill(*point.compute_estimate_ms, message->mutable_compute_estimate_ms());
  }
  if (point.attention_ms) Fill(*point.attention_ms, message->mutable_attention_ms());
  message->set_attention_left_out(point.attention_left_out);
  message->set_images_per_second(point.images_per_second);
  message->set_peak_bytes(point.peak_bytes);
  message->set_weight_bytes(point.weight_bytes);
  message->set_multiply_adds(point.multiply_adds);
}

void FillCurve(const SweptCurve& curve, v1::SweptCurve* message) {
  message->set_model_name(curve.model_name);
  message->set_model_version(curve.model_version);
  message->set_backbone(curve.backbone);
  message->set_attention(curve.attention);
  message->set_weights_of_attention(curve.weights_of_attention);
  message->set_untrained(curve.untrained);
  for (const SweptPoint& point : curve.points) FillPoint(point, message->add_points());
  const auto fill = [](const std::optional<FittedExponent>& fitted, auto&& exponent) {
    if (!fitted) return;
    v1::FittedExponent& told = *exponent();
    Fill(fitted->exponent, told.mutable_exponent());
    told.set_points(fitted->points);
    told.set_worst_ratio(fitted->worst_ratio);
  };
  fill(curve.compute_exponent, [&] { return message->mutable_compute_exponent(); });
  fill(curve.attention_exponent, [&] { return message->mutable_attention_exponent(); });
  fill(curve.peak_exponent, [&] { return message->mutable_peak_exponent(); });
}

}  // namespace

absl::StatusOr<SweepRequest> ReadSweepRequest(v1::SweepRequest& message) {
  SweepRequest request;
  FOVEA_RETURN_IF_ERROR(
      CheckLength(kBadRequest, "the id", message.id().size(), limits::kMaxRequestIdBytes));
  FOVEA_ASSIGN_OR_RETURN(request.variants, ReadVariants(message.variants(), kBadRequest));
  FOVEA_ASSIGN_OR_RETURN(request.axis, FromMessage(message.over()));
  for (std::string& value : *message.mutable_values()) {
    FOVEA_RETURN_IF_ERROR(
        CheckLength(kBadRequest, "a value", value.size(), limits::kMaxSweptValueBytes));
    request.values.push_back(std::move(value));
  }
  request.image = std::move(*message.mutable_image());
  request.id = std::move(*message.mutable_id());
  FOVEA_ASSIGN_OR_RETURN(request.rounds,
                         NumberOr(kBadRequest, "rounds", message.rounds(), request.rounds));
  FOVEA_ASSIGN_OR_RETURN(request.batch_size, NumberOr(kBadRequest, "batch_size",
                                                      message.batch_size(), request.batch_size));
  FOVEA_ASSIGN_OR_RETURN(request.threads, NumberOr(kBadRequest, "threads", message.threads(), 0));
  if (message.max_time_us() != 0) request.max_time = ShortenedTimeout(message.max_time_us());
  return request;
}

void FillSweep(const Sweep& sweep, v1::Sweep* message) {
  message->set_id(sweep.id);
  message->set_over(ToMessage(sweep.axis));
  for (const std::string& value : sweep.values) message->add_values(value);
  for (const double place : sweep.places) message->add_places(place);
  for (const SweptCurve& curve : sweep.curves) FillCurve(curve, message->add_curves());
  message->set_rounds(sweep.rounds);
  message->set_batch_size(sweep.batch_size);
  message->set_threads(sweep.threads);
  message->set_device(sweep.device);
  if (!sweep.measured.at.empty()) Fill(sweep.measured, message->mutable_measured());
}

}  // namespace fovea
