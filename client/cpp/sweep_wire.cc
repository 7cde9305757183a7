#include "client/cpp/sweep_wire.h"

#include <algorithm>
#include <utility>

#include "client/cpp/comparison_wire.h"

namespace fovea::client {
namespace {

constexpr std::pair<SweepAxis, fovea::v1::SweepRequest::Axis> kAxes[] = {
    {SweepAxis::kResolution, fovea::v1::SweepRequest::RESOLUTION},
    {SweepAxis::kBatch, fovea::v1::SweepRequest::BATCH},
    {SweepAxis::kK, fovea::v1::SweepRequest::K},
    {SweepAxis::kTemperature, fovea::v1::SweepRequest::TEMPERATURE},
    {SweepAxis::kHeads, fovea::v1::SweepRequest::HEADS},
    {SweepAxis::kThreads, fovea::v1::SweepRequest::THREADS},
    {SweepAxis::kPrecision, fovea::v1::SweepRequest::PRECISION},
};

SweptPoint FromWire(const fovea::v1::SweptPoint& message) {
  SweptPoint point{.failure = message.failure(),
                   .attention = message.attention(),
                   .compute_ms = QuartilesFromWire(message.compute_ms()),
                   .images_per_second = message.images_per_second(),
                   .peak_bytes = message.peak_bytes(),
                   .weight_bytes = message.weight_bytes(),
                   .multiply_adds = message.multiply_adds()};
  if (message.has_attention_ms()) point.attention_ms = QuartilesFromWire(message.attention_ms());
  point.attention_left_out = message.attention_left_out();
  if (message.has_compute_estimate_ms()) {
    point.compute_estimate_ms = EstimateFromWire(message.compute_estimate_ms());
  }
  return point;
}

FittedExponent FromWire(const fovea::v1::FittedExponent& message) {
  return {.exponent = EstimateFromWire(message.exponent()),
          .points = message.points(),
          .worst_ratio = message.worst_ratio()};
}

SweptCurve FromWire(const fovea::v1::SweptCurve& message) {
  SweptCurve curve{.model = {message.model_name(), message.model_version()},
                   .backbone = message.backbone(),
                   .attention = message.attention(),
                   .weights_of_attention = message.weights_of_attention(),
                   .untrained = message.untrained()};
  for (const auto& point : message.points()) curve.points.push_back(FromWire(point));
  if (message.has_compute_exponent()) {
    curve.compute_exponent = FromWire(message.compute_exponent());
  }
  if (message.has_attention_exponent()) {
    curve.attention_exponent = FromWire(message.attention_exponent());
  }
  if (message.has_peak_exponent()) curve.peak_exponent = FromWire(message.peak_exponent());
  return curve;
}

}  // namespace

fovea::v1::SweepRequest ToWire(const SweepRequest& request) {
  fovea::v1::SweepRequest message;
  AddToWire(request.variants, message.mutable_variants());
  for (const auto& [axis, wire] : kAxes) {
    if (axis == request.over) message.set_over(wire);
  }
  for (const std::string& value : request.values) message.add_values(value);
  message.set_image(request.image);
  message.set_rounds(request.rounds);
  message.set_max_time_us(MicrosecondsToWire(request.max_time));
  message.set_batch_size(request.batch_size);
  message.set_threads(request.threads);
  return message;
}

absl::StatusOr<Sweep> FromWire(const fovea::v1::Sweep& message) {
  Sweep sweep{.values = {message.values().begin(), message.values().end()},
              .places = {message.places().begin(), message.places().end()},
              .rounds = message.rounds(),
              .batch_size = message.batch_size(),
              .threads = message.threads(),
              .device = message.device(),
              .measured = ProvenanceFromWire(message.measured())};
  const auto* const axis = std::find_if(std::begin(kAxes), std::end(kAxes), [&](const auto& known) {
    return known.second == message.over();
  });
  if (axis == std::end(kAxes)) {
    return absl::InternalError("the server's sweep has an axis that this client does not know");
  }
  sweep.over = axis->first;
  bool whole = sweep.places.empty() || sweep.places.size() == sweep.values.size();
  for (const auto& curve : message.curves()) {
    whole &= static_cast<size_t>(curve.points_size()) == sweep.values.size();
    sweep.curves.push_back(FromWire(curve));
  }
  if (!whole || sweep.curves.empty()) {
    return absl::InternalError("the server's sweep has not a point for each value");
  }
  return sweep;
}

}  // namespace fovea::client
