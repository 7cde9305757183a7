#include "server/transport/messages/model_messages.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/core/input_names.h"

namespace fovea {
namespace {

constexpr char kPlatform[] = "fovea_libtorch";
constexpr char kBackend[] = "fovea";

inference::DataType ConfigType(DataType type) {
  switch (type) {
    case DataType::kBool:
      return inference::TYPE_BOOL;
    case DataType::kUint8:
      return inference::TYPE_UINT8;
    case DataType::kUint16:
      return inference::TYPE_UINT16;
    case DataType::kUint32:
      return inference::TYPE_UINT32;
    case DataType::kUint64:
      return inference::TYPE_UINT64;
    case DataType::kInt8:
      return inference::TYPE_INT8;
    case DataType::kInt16:
      return inference::TYPE_INT16;
    case DataType::kInt32:
      return inference::TYPE_INT32;
    case DataType::kInt64:
      return inference::TYPE_INT64;
    case DataType::kFp16:
      return inference::TYPE_FP16;
    case DataType::kBf16:
      return inference::TYPE_BF16;
    case DataType::kFp32:
      return inference::TYPE_FP32;
    case DataType::kFp64:
      return inference::TYPE_FP64;
    case DataType::kBytes:
      return inference::TYPE_STRING;
  }
  return inference::TYPE_INVALID;
}

// The dimensions of a configuration omit the batch. Triton's may not be empty: one number an image
// is written as a dimension of 1 that `reshape` removes.
template <typename Message>
void FillTensorConfig(const TensorDescription& tensor, Message* message) {
  message->set_name(tensor.name);
  message->set_data_type(ConfigType(tensor.type));
  for (size_t i = 1; i < tensor.shape.size(); ++i) message->add_dims(tensor.shape[i]);
  if (message->dims().empty()) {
    message->add_dims(1);
    message->mutable_reshape();
  }
}

inference::ModelInput::Format FormatOf(std::string_view input) {
  if (input == kPixelValuesInput) return inference::ModelInput::FORMAT_NCHW;
  if (input == kImageRgbInput) return inference::ModelInput::FORMAT_NHWC;
  return inference::ModelInput::FORMAT_NONE;
}

void FillTensorMetadata(const TensorDescription& tensor,
                        inference::ModelMetadataResponse::TensorMetadata* message) {
  message->set_name(tensor.name);
  message->set_datatype(std::string(DataTypeName(tensor.type)));
  message->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
}

void FillDuration(const DurationSum& sum, inference::StatisticDuration* message) {
  message->set_count(sum.count);
  message->set_ns(sum.nanoseconds);
}

void FillQueuePolicy(const QueuePolicy& policy, inference::ModelQueuePolicy* message) {
  message->set_timeout_action(policy.timeout_action == TimeoutAction::kDelay
                                  ? inference::ModelQueuePolicy::DELAY
                                  : inference::ModelQueuePolicy::REJECT);
  message->set_default_timeout_microseconds(policy.default_timeout_us);
  message->set_allow_timeout_override(policy.allow_timeout_override);
  message->set_max_queue_size(policy.max_queue_size);
}

}  // namespace

const char* ModelStateName(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return "LOADING";
    case ModelState::kReady:
      return "READY";
    case ModelState::kUnloading:
      return "UNLOADING";
    case ModelState::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNAVAILABLE";
}

void FillServerMetadata(const ServerMetadata& server, inference::ServerMetadataResponse* response) {
  response->set_name(std::string(server.name));
  response->set_version(std::string(server.version));
  for (const std::string_view extension : server.extensions) {
    response->add_extensions(std::string(extension));
  }
}

void FillMetadata(const ModelView& model, inference::ModelMetadataResponse* response) {
  response->set_name(model.name);
  response->mutable_versions()->Add(model.served_versions.begin(), model.served_versions.end());
  response->set_platform(kPlatform);
  for (const TensorDescription& input : model.inputs) {
    FillTensorMetadata(input, response->add_inputs());
  }
  for (const TensorDescription& output : model.outputs) {
    FillTensorMetadata(output, response->add_outputs());
  }
  response->mutable_properties()->insert(model.properties.begin(), model.properties.end());
}

void FillConfig(const ModelView& model, inference::ModelConfig* config) {
  config->set_name(model.name);
  config->set_platform(kPlatform);
  config->set_backend(kBackend);
  config->set_max_batch_size(model.max_batch_size);
  for (const TensorDescription& input : model.inputs) {
    inference::ModelInput* message = config->add_input();
    FillTensorConfig(input, message);
    message->set_format(FormatOf(input.name));
  }
  for (const TensorDescription& output : model.outputs) {
    inference::ModelOutput* message = config->add_output();
    FillTensorConfig(output, message);
    if (!model.labels->empty()) message->set_label_filename("labels.txt");
  }

  inference::ModelDynamicBatching* batching = config->mutable_dynamic_batching();
  batching->mutable_preferred_batch_size()->Add(model.preferred_batch_sizes.begin(),
                                                model.preferred_batch_sizes.end());
  batching->set_max_queue_delay_microseconds(model.max_queue_delay_us);
  batching->set_priority_levels(model.priority_levels);
  batching->set_default_priority_level(model.default_priority_level);
  FillQueuePolicy(model.default_queue_policy, batching->mutable_default_queue_policy());
  for (const auto& [level, policy] : model.priority_queue_policy) {
    FillQueuePolicy(policy, &(*batching->mutable_priority_queue_policy())[level]);
  }

  inference::ModelInstanceGroup* group = config->add_instance_group();
  group->set_name(absl::StrCat(model.name, "_0"));
  auto kind = inference::ModelInstanceGroup::KIND_AUTO;  // of a device that Triton does not know
  inference::ModelInstanceGroup::Kind_Parse(absl::StrCat("KIND_", model.device), &kind);
  group->set_kind(kind);
  group->set_count(model.instances);
  group->mutable_rate_limiter()->set_priority(model.rate_limiter_priority);
  config->mutable_model_transaction_policy()->set_decoupled(false);
  for (const auto& [key, value] : model.properties) {
    (*config->mutable_parameters())[key].set_string_value(value);
  }
}

void FillStatistics(const ModelStatistics& statistics, inference::ModelStatistics* message) {
  message->set_name(statistics.name);
  message->set_version(statistics.version);
  message->set_last_inference(statistics.last_inference_ms);
  message->set_inference_count(statistics.inference_count);
  message->set_execution_count(statistics.execution_count);

  inference::InferStatistics* sums = message->mutable_inference_stats();
  FillDuration(statistics.success, sums->mutable_success());
  FillDuration(statistics.fail, sums->mutable_fail());
  FillDuration(statistics.queue, sums->mutable_queue());
  FillDuration(statistics.compute_input, sums->mutable_compute_input());
  FillDuration(statistics.compute_infer, sums->mutable_compute_infer());
  FillDuration(statistics.compute_output, sums->mutable_compute_output());
  // There is no cache; clients read the sums all the same.
  sums->mutable_cache_hit();
  sums->mutable_cache_miss();

  for (const auto& [size, batch] : statistics.batches) {
    inference::InferBatchStatistics* row = message->add_batch_stats();
    row->set_batch_size(size);
    FillDuration(batch.compute_input, row->mutable_compute_input());
    FillDuration(batch.compute_infer, row->mutable_compute_infer());
    FillDuration(batch.compute_output, row->mutable_compute_output());
  }
  // The protocol knows kinds of memory by place, not by use.
  int64_t bytes = 0;
  for (const auto& [kind, size] : statistics.memory_bytes) bytes += size;
  if (!statistics.memory_bytes.empty()) {
    inference::MemoryUsage* usage = message->add_memory_usage();
    usage->set_type("CPU");
    usage->set_byte_size(bytes);
  }
}

void FillRegion(const SharedMemoryRegionInfo& region,
                inference::SystemSharedMemoryStatusResponse::RegionStatus* message) {
  message->set_name(region.name);
  message->set_key(region.key);
  message->set_offset(region.offset);
  message->set_byte_size(region.byte_size);
}

void FillIndexEntry(const IndexEntry& entry,
                    inference::RepositoryIndexResponse::ModelIndex* message) {
  message->set_name(entry.name);
  message->set_version(entry.version);
  message->set_state(ModelStateName(entry.state));
  message->set_reason(entry.reason);
}

}  // namespace fovea
