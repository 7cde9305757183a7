#include "server/transport/messages/variant_messages.h"

#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/transport/messages/checked_fields.h"

namespace fovea {

absl::StatusOr<Variant> ReadVariant(const v1::Variant& message, std::string_view reason) {
  FOVEA_RETURN_IF_ERROR(CheckLength(reason, "the name of a model", message.model_name().size(),
                                    limits::kMaxModelNameBytes));
  FOVEA_RETURN_IF_ERROR(CheckLength(reason, "the version of a model",
                                    message.model_version().size(), limits::kMaxModelNameBytes));
  FOVEA_RETURN_IF_ERROR(CheckLength(reason, "an attention", message.attention().size(),
                                    limits::kMaxAttentionTextBytes));
  return Variant{.model_name = message.model_name(),
                 .model_version = message.model_version(),
                 .attention = message.attention()};
}

absl::StatusOr<std::vector<Variant>> ReadVariants(
    const google::protobuf::RepeatedPtrField<v1::Variant>& messages, std::string_view reason) {
  std::vector<Variant> variants;
  for (const v1::Variant& message : messages) {
    FOVEA_ASSIGN_OR_RETURN(variants.emplace_back(), ReadVariant(message, reason));
  }
  return variants;
}

absl::StatusOr<ServeRequest> ReadServeRequest(const v1::ServeRequest& message) {
  ServeRequest request;
  FOVEA_ASSIGN_OR_RETURN(request.variants, ReadVariants(message.variants(), "serve.bad_request"));
  return request;
}

void FillServed(const std::vector<ServedVariant>& variants, v1::ServedVariants* message) {
  for (const ServedVariant& variant : variants) {
    v1::ServedVariant& served = *message->add_variants();
    served.set_served_as(variant.served_as);
    served.set_model_name(variant.model_name);
    served.set_model_version(variant.model_version);
    served.set_backbone(variant.backbone);
    served.set_attention(variant.attention);
    served.set_weights_of_attention(variant.weights_of_attention);
    served.set_untrained(variant.untrained);
  }
}

}  // namespace fovea
