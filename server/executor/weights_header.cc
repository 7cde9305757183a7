#include "server/executor/weights_header.h"

#include "model_zoo/weights/safetensors.h"
#include "server/executor/torch_status.h"

namespace fovea {

absl::Status CheckWeightsHeader(const std::filesystem::path& file) {
  return RunTorchLoad("model.load_failed", [&] { models::SafetensorsFile opened(file); });
}

}  // namespace fovea
