#include "server/transport/messages/explanation_messages.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/messages/checked_fields.h"

namespace fovea {
namespace {

constexpr char kBadRequest[] = "explain.bad_request";

absl::StatusOr<ExplainMethod> FromMessage(int method) {
  switch (method) {
    case v1::ExplainRequest::MAPS:
      return ExplainMethod::kMaps;
    case v1::ExplainRequest::ROLLOUT:
      return ExplainMethod::kRollout;
    case v1::ExplainRequest::ATTRIBUTION:
      return ExplainMethod::kAttribution;
    case v1::ExplainRequest::GRADIENT_ROLLOUT:
      return ExplainMethod::kGradientRollout;
    case v1::ExplainRequest::MEASURES:
      return ExplainMethod::kMeasures;
    default:
      return InvalidArgument(kBadRequest, absl::StrCat("there is no method ", method));
  }
}

absl::StatusOr<PictureForm> FormFromMessage(int form) {
  switch (form) {
    case v1::ExplainRequest::OVERLAY:
      return PictureForm::kOverlay;
    case v1::ExplainRequest::HEAT:
      return PictureForm::kHeat;
    case v1::ExplainRequest::NO_PICTURES:
      return PictureForm::kNone;
    default:
      return InvalidArgument(kBadRequest, absl::StrCat("there is no form of pictures ", form));
  }
}

v1::ExplainRequest::Method ToMessage(ExplainMethod method) {
  switch (method) {
    case ExplainMethod::kMaps:
      return v1::ExplainRequest::MAPS;
    case ExplainMethod::kRollout:
      return v1::ExplainRequest::ROLLOUT;
    case ExplainMethod::kAttribution:
      return v1::ExplainRequest::ATTRIBUTION;
    case ExplainMethod::kGradientRollout:
      return v1::ExplainRequest::GRADIENT_ROLLOUT;
    case ExplainMethod::kMeasures:
      return v1::ExplainRequest::MEASURES;
  }
  return v1::ExplainRequest::METHOD_UNSPECIFIED;
}

void Fill(ExplainedMap& map, v1::ExplainedMap* message) {
  message->set_method(ToMessage(map.method));
  message->set_layer(map.layer);
  if (map.layer_number) message->set_layer_number(*map.layer_number);
  if (map.head) message->set_head(*map.head);
  message->set_rows(map.rows);
  message->set_columns(map.columns);
  message->mutable_values()->Assign(map.values.begin(), map.values.end());
  message->set_png(std::move(map.png));
}

void Fill(const MeasuredLayer& layer, v1::MeasuredLayer* message) {
  message->set_layer(layer.layer);
  message->set_cosine_similarity(layer.cosine_similarity);
  if (layer.attention_standard_deviation) {
    message->set_attention_standard_deviation(*layer.attention_standard_deviation);
  }
  message->set_attention_norm_ratio(layer.attention_norm_ratio);
  message->set_mlp_norm_ratio(layer.mlp_norm_ratio);
  message->mutable_nonlocality()->Assign(layer.nonlocality.begin(), layer.nonlocality.end());
}

}  // namespace

absl::StatusOr<ExplainRequest> ReadExplainRequest(v1::ExplainRequest& message) {
  FOVEA_RETURN_IF_ERROR(
      CheckLength(kBadRequest, "the id", message.id().size(), limits::kMaxRequestIdBytes));
  FOVEA_RETURN_IF_ERROR(CheckLength(kBadRequest, "the name of the model",
                                    message.model_name().size(), limits::kMaxModelNameBytes));
  FOVEA_RETURN_IF_ERROR(CheckLength(kBadRequest, "the version of the model",
                                    message.model_version().size(), limits::kMaxModelNameBytes));
  FOVEA_RETURN_IF_ERROR(CheckLength(kBadRequest, "the attention", message.attention().size(),
                                    limits::kMaxAttentionTextBytes));
  if (message.has_x() != message.has_y()) {
    return InvalidArgument(kBadRequest, "a place is x and y, and one of them is missing");
  }
  ExplainRequest request{.variant = {.model_name = std::move(*message.mutable_model_name()),
                                     .model_version = std::move(*message.mutable_model_version()),
                                     .attention = std::move(*message.mutable_attention())},
                         .image = std::move(*message.mutable_image()),
                         .id = std::move(*message.mutable_id()),
                         .every_head = message.every_head()};
  for (const int method : message.methods()) {
    FOVEA_ASSIGN_OR_RETURN(request.methods.emplace_back(), FromMessage(method));
    if (static_cast<int64_t>(request.methods.size()) > limits::kMaxExplainedMaps) {
      return InvalidArgument(kBadRequest, "too many methods");
    }
  }
  request.layers.assign(message.layers().begin(), message.layers().end());
  request.heads.assign(message.heads().begin(), message.heads().end());
  if (message.has_x()) request.place = ExplainRequest::Place{message.x(), message.y()};
  if (message.has_target_class()) request.target_class = message.target_class();
  FOVEA_ASSIGN_OR_RETURN(request.form, FormFromMessage(message.picture_form()));
  return request;
}

v1::Explanation ToMessage(Explanation explanation) {
  v1::Explanation message;
  message.set_id(explanation.id);
  message.set_model_name(explanation.model_name);
  message.set_model_version(explanation.model_version);
  message.set_backbone(explanation.backbone);
  message.set_attention(explanation.attention);
  message.set_weights_of_attention(explanation.weights_of_attention);
  message.set_untrained(explanation.untrained);
  message.set_height(static_cast<int32_t>(explanation.image.height));
  message.set_width(static_cast<int32_t>(explanation.image.width));
  if (explanation.target) {
    message.set_target_class(explanation.target->class_index);
    message.set_target_label(explanation.target->label);
    message.set_target_probability(explanation.target->probability);
  }
  for (ExplainedMap& map : explanation.maps) Fill(map, message.add_maps());
  for (const MeasuredLayer& layer : explanation.measures) Fill(layer, message.add_measures());
  message.set_measures_plot(std::move(explanation.measures_plot));
  return message;
}

}  // namespace fovea
