#include "client/cpp/retry.h"

#include "absl/strings/str_cat.h"

namespace fovea::client {

std::string ServiceConfig(int max_attempts, bool balance) {
  const char* balancing = balance ? R"("loadBalancingConfig":[{"round_robin":{}}])" : "";
  if (max_attempts == 1) return absl::StrCat("{", balancing, "}");
  return absl::StrCat("{", balancing, balance ? "," : "", R"("methodConfig":[{"name":[
      {"service":"fovea.v1.VisionService","method":"Classify"},
      {"service":"fovea.v1.VisionService","method":"Detect"},
      {"service":"fovea.v1.VisionService","method":"Segment"},
      {"service":"inference.GRPCInferenceService","method":"ModelInfer"},
      {"service":"inference.GRPCInferenceService","method":"ModelMetadata"},
      {"service":"inference.GRPCInferenceService","method":"ModelStatistics"},
      {"service":"inference.GRPCInferenceService","method":"RepositoryIndex"}],
    "retryPolicy":{"maxAttempts":)",
                      max_attempts, R"(,"initialBackoff":"0.1s","maxBackoff":"2s",
      "backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}],
    "retryThrottling":{"maxTokens":200,"tokenRatio":0.1}})");
}

}  // namespace fovea::client
