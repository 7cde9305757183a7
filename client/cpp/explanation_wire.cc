#include "client/cpp/explanation_wire.h"

#include <utility>

namespace fovea::client {
namespace {

using Wire = fovea::v1::ExplainRequest;

Wire::Method ToWire(ExplainMethod method) {
  switch (method) {
    case ExplainMethod::kMaps:
      return Wire::MAPS;
    case ExplainMethod::kRollout:
      return Wire::ROLLOUT;
    case ExplainMethod::kAttribution:
      return Wire::ATTRIBUTION;
    case ExplainMethod::kGradientRollout:
      return Wire::GRADIENT_ROLLOUT;
    case ExplainMethod::kMeasures:
      return Wire::MEASURES;
  }
  return Wire::METHOD_UNSPECIFIED;
}

std::optional<ExplainMethod> FromWire(Wire::Method method) {
  for (const ExplainMethod known :
       {ExplainMethod::kMaps, ExplainMethod::kRollout, ExplainMethod::kAttribution,
        ExplainMethod::kGradientRollout, ExplainMethod::kMeasures}) {
    if (ToWire(known) == method) return known;
  }
  return std::nullopt;
}

Wire::PictureForm ToWire(PictureForm form) {
  switch (form) {
    case PictureForm::kOverlay:
      return Wire::OVERLAY;
    case PictureForm::kHeat:
      return Wire::HEAT;
    case PictureForm::kNone:
      return Wire::NO_PICTURES;
  }
  return Wire::OVERLAY;
}

absl::StatusOr<ExplainedMap> FromWire(fovea::v1::ExplainedMap& message) {
  const std::optional<ExplainMethod> method = FromWire(message.method());
  const int64_t places = int64_t{message.rows()} * message.columns();
  if (!method || message.rows() < 1 || message.columns() < 1 || places != message.values_size()) {
    return absl::InternalError("a map of the server's explanation is not whole");
  }
  ExplainedMap map{.method = *method,
                   .layer = message.layer(),
                   .rows = message.rows(),
                   .columns = message.columns(),
                   .values = {message.values().begin(), message.values().end()},
                   .png = std::move(*message.mutable_png())};
  if (message.has_layer_number()) map.layer_number = message.layer_number();
  if (message.has_head()) map.head = message.head();
  return map;
}

MeasuredLayer FromWire(const fovea::v1::MeasuredLayer& message) {
  MeasuredLayer layer{.layer = message.layer(),
                      .cosine_similarity = message.cosine_similarity(),
                      .attention_norm_ratio = message.attention_norm_ratio(),
                      .mlp_norm_ratio = message.mlp_norm_ratio(),
                      .nonlocality = {message.nonlocality().begin(), message.nonlocality().end()}};
  if (message.has_attention_standard_deviation()) {
    layer.attention_standard_deviation = message.attention_standard_deviation();
  }
  return layer;
}

}  // namespace

fovea::v1::ExplainRequest ToWire(const ExplainRequest& request) {
  Wire message;
  message.set_model_name(request.variant.model.name);
  message.set_model_version(request.variant.model.version);
  message.set_attention(request.variant.attention);
  message.set_image(request.image);
  for (const ExplainMethod method : request.methods) message.add_methods(ToWire(method));
  for (const int layer : request.layers) message.add_layers(layer);
  for (const int head : request.heads) message.add_heads(head);
  message.set_every_head(request.every_head);
  if (request.place) {
    message.set_x(request.place->x);
    message.set_y(request.place->y);
  }
  if (request.target_class) message.set_target_class(*request.target_class);
  message.set_picture_form(ToWire(request.form));
  return message;
}

absl::StatusOr<Explanation> FromWire(fovea::v1::Explanation message) {
  Explanation explanation{.model = {message.model_name(), message.model_version()},
                          .backbone = message.backbone(),
                          .attention = message.attention(),
                          .weights_of_attention = message.weights_of_attention(),
                          .untrained = message.untrained(),
                          .height = message.height(),
                          .width = message.width(),
                          .measures_plot = std::move(*message.mutable_measures_plot())};
  if (message.has_target_class()) {
    explanation.target = ClassScore{.index = message.target_class(),
                                    .label = message.target_label(),
                                    .confidence = static_cast<float>(message.target_probability())};
  }
  for (auto& wire : *message.mutable_maps()) {
    absl::StatusOr<ExplainedMap> map = FromWire(wire);
    if (!map.ok()) return map.status();
    explanation.maps.push_back(*std::move(map));
  }
  for (const auto& layer : message.measures()) explanation.measures.push_back(FromWire(layer));
  return explanation;
}

}  // namespace fovea::client
