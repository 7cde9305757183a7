#include "model_zoo/folder/quantized_spec.h"

#include <google/protobuf/text_format.h>

#include "base/status.h"
#include "proto/fovea/v1/model_spec.pb.h"

namespace fovea {

absl::StatusOr<std::string> QuantizedSpec(std::string_view text, std::string_view name,
                                          std::string_view summary) {
  v1::ModelSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(std::string(text), &spec)) {
    return absl::FailedPreconditionError("model.textproto cannot be read");
  }
  spec.set_name(std::string(name));
  spec.set_precision(v1::ModelSpec::INT8);
  if (spec.has_random_weights()) spec.set_untrained(true);
  spec.clear_random_weights();
  spec.clear_weights_of();
  spec.clear_version_policy();
  spec.clear_version_labels();
  spec.clear_canary();
  v1::InstanceGroup& instances = *spec.mutable_instance_group();
  if (instances.kind() == v1::InstanceGroup::KIND_GPU) {
    instances.clear_kind();
    instances.clear_gpus();
    instances.clear_count();  // that of batches on each GPU
  }
  std::string written;
  google::protobuf::TextFormat::PrintToString(spec, &written);
  return "# " + std::string(summary) + "\n" + written;
}

}  // namespace fovea
