// The variants of an experiment, as options of a path name them.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/transport/messages/comparison_messages.h"

namespace fovea {

// `model` (NAME or NAME/VERSION) and `attention`, both repeated: each attention over each model, or
// the model as it is. Or, repeated too, `variant` (NAME[/VERSION][:ATTENTION]): just these, before
// those.
class NamedVariants {
 public:
  // Whether the option is one of them; takes it then.
  bool Take(std::string_view name, std::string_view value);

  // `own_before_one`: of one attention, the model as it is before it. INVALID_ARGUMENT `reason`:
  // they are more than limits::kMaxComparedVariants.
  absl::Status AddTo(google::protobuf::RepeatedPtrField<v1::Variant>* variants, bool own_before_one,
                     std::string_view reason) const;

 private:
  std::vector<std::string> models_, attentions_;
  std::vector<v1::Variant> variants_;
};

}  // namespace fovea
