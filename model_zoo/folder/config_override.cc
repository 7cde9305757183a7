#include "model_zoo/folder/config_override.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "base/unique_json.h"
#include "proto/fovea/v1/model_spec.pb.h"
#include "proto/inference/model_config.pb.h"

namespace fovea {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::array<std::string_view, 5> kFields = {"name", "max_batch_size", "dynamic_batching",
                                                     "instance_group", "version_policy"};
constexpr std::array<std::string_view, 6> kBatchingFields = {
    "preferred_batch_size",   "max_queue_delay_microseconds", "priority_levels",
    "default_priority_level", "default_queue_policy",         "priority_queue_policy"};
constexpr std::array<std::string_view, 4> kInstanceFields = {"kind", "count", "gpus",
                                                             "rate_limiter"};
constexpr std::array<std::string_view, 1> kRateLimiterFields = {"priority"};

absl::Status Error(std::string_view text) {
  return InvalidArgument("config.invalid", "config: " + std::string(text));
}

// Fields of ours exist in Triton's message, but not all of Triton's mean something here: those are
// refused, because a caller who sets one expects an effect.
absl::Status OnlySets(const Message& message, std::span<const std::string_view> known) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (std::find(known.begin(), known.end(), field->name()) == known.end()) {
      return Error(field->name() + " cannot be overridden");
    }
  }
  return absl::OkStatus();
}

v1::QueuePolicy ToQueuePolicy(const inference::ModelQueuePolicy& from) {
  v1::QueuePolicy to;
  if (from.timeout_action() == inference::ModelQueuePolicy::DELAY) {
    to.set_timeout_action(v1::QueuePolicy::DELAY);
  }
  to.set_default_timeout_microseconds(from.default_timeout_microseconds());
  if (from.has_allow_timeout_override()) {
    to.set_allow_timeout_override(from.allow_timeout_override());
  }
  to.set_max_queue_size(from.max_queue_size());
  return to;
}

void CopyBatching(const inference::ModelDynamicBatching& from, v1::DynamicBatching* to) {
  to->Clear();
  to->mutable_preferred_batch_size()->CopyFrom(from.preferred_batch_size());
  to->set_max_queue_delay_microseconds(from.max_queue_delay_microseconds());
  to->set_priority_levels(from.priority_levels());
  to->set_default_priority_level(from.default_priority_level());
  if (from.has_default_queue_policy()) {
    *to->mutable_default_queue_policy() = ToQueuePolicy(from.default_queue_policy());
  }
  for (const auto& [level, policy] : from.priority_queue_policy()) {
    (*to->mutable_priority_queue_policy())[level] = ToQueuePolicy(policy);
  }
}

v1::InstanceGroup::Kind ToKind(inference::ModelInstanceGroup::Kind kind) {
  switch (kind) {
    case inference::ModelInstanceGroup::KIND_CPU:
      return v1::InstanceGroup::KIND_CPU;
    case inference::ModelInstanceGroup::KIND_GPU:
      return v1::InstanceGroup::KIND_GPU;
    default:
      return v1::InstanceGroup::KIND_AUTO;
  }
}

void CopyVersionPolicy(const inference::ModelVersionPolicy& from, v1::VersionPolicy* to) {
  to->Clear();
  if (from.has_latest()) to->mutable_latest()->set_num_versions(from.latest().num_versions());
  if (from.has_all()) to->mutable_all();
  if (from.has_specific()) {
    to->mutable_specific()->mutable_versions()->CopyFrom(from.specific().versions());
  }
}

}  // namespace

absl::Status ApplyConfigOverride(std::string_view json, std::string_view model,
                                 v1::ModelSpec* spec) {
  if (json.size() > static_cast<size_t>(limits::kMaxConfigOverrideBytes)) {
    return Error("it is longer than " + std::to_string(limits::kMaxConfigOverrideBytes) + " bytes");
  }
  // The keys first: the message cannot tell a number that is 0 from one that is absent.
  auto object = ParseUniqueJson(json);
  if (!object || !object->is_object()) {
    return Error("it is not a JSON object, or an object in it has one key twice");
  }
  std::erase_if(object->get_ref<nlohmann::json::object_t&>(),
                [](const auto& member) { return member.second.is_null(); });
  for (const auto& [key, value] : object->items()) {
    if (std::find(kFields.begin(), kFields.end(), key) != kFields.end()) continue;
    const FieldDescriptor* field = inference::ModelConfig::descriptor()->FindFieldByName(key);
    return Error((field == nullptr ? "a field that ModelConfig lacks" : field->name()) +
                 " cannot be overridden; max_batch_size, dynamic_batching, instance_group and "
                 "version_policy can be");
  }
  inference::ModelConfig config;
  const google::protobuf::StringPiece text(json.data(), json.size());
  if (!google::protobuf::util::JsonStringToMessage(text, &config).ok()) {
    return Error("it is not the JSON form of a ModelConfig");
  }
  if (!config.name().empty() && config.name() != model) {
    return Error("its name is another model's");
  }
  if (object->contains("max_batch_size")) {
    spec->set_max_batch_size(config.max_batch_size());
  }
  if (config.has_dynamic_batching()) {
    FOVEA_RETURN_IF_ERROR(OnlySets(config.dynamic_batching(), kBatchingFields));
    CopyBatching(config.dynamic_batching(), spec->mutable_dynamic_batching());
  }
  if (config.instance_group_size() > 1) return Error("more than one instance_group");
  if (config.instance_group_size() == 1) {
    const inference::ModelInstanceGroup& group = config.instance_group(0);
    FOVEA_RETURN_IF_ERROR(OnlySets(group, kInstanceFields));
    FOVEA_RETURN_IF_ERROR(OnlySets(group.rate_limiter(), kRateLimiterFields));
    if (group.kind() == inference::ModelInstanceGroup::KIND_MODEL) {
      return Error("only KIND_AUTO, KIND_CPU and KIND_GPU instances can be asked for");
    }
    v1::InstanceGroup& to = *spec->mutable_instance_group();
    to.set_count(group.count());
    // Protobuf takes an object where a list of one is meant.
    const nlohmann::json& groups = (*object)["instance_group"];
    if (!groups.is_array() || groups.size() != 1 || !groups[0].is_object()) {
      return Error("instance_group is not a list of one object");
    }
    if (!groups[0].value("kind", nlohmann::json()).is_null()) {
      to.set_kind(ToKind(group.kind()));
      to.clear_gpus();
    }
    if (group.has_rate_limiter()) {
      to.mutable_rate_limiter()->set_priority(group.rate_limiter().priority());
    }
    if (group.gpus_size() > 0) to.mutable_gpus()->CopyFrom(group.gpus());
  }
  if (config.has_version_policy()) {
    CopyVersionPolicy(config.version_policy(), spec->mutable_version_policy());
  }
  return absl::OkStatus();
}

}  // namespace fovea
