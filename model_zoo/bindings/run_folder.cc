// A folder of the model repository, read as the server reads it: torch.ops.fovea_models.run(folder,
// input), describe(folder, version) and preprocessing(folder, published). Only where the server is
// built, and model_zoo/folder with it.
#include <torch/library.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model_zoo/bindings/json.h"
#include "model_zoo/bindings/run.h"
#include "model_zoo/folder/describe_model_folder.h"

namespace fovea::models {
namespace {

// {"version", "labels", "untrained", "description": as DescriptionFromJson reads it}.
std::string Describe(const std::string& folder, std::optional<int64_t> version) {
  const ModelVersionOnDisk found = DescribeModelVersion(folder, version);
  return nlohmann::json{
      {"version", found.version},
      {"labels", found.labels},
      {"untrained", found.untrained},
      {"description", nlohmann::json::parse(DescriptionToJson(found.description))},
  }
      .dump();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea_models, library) {
  library.def("run(str folder, Tensor input) -> Tensor[]",
              [](const std::string& folder, const at::Tensor& input) {
                return LoadAndRun(DescribeModelFolder(folder), input);
              });
  library.def("describe(str folder, int? version=None) -> str", Describe);
  library.def("preprocessing(str folder, str published) -> str",
              [](const std::string& folder, const std::string& published) {
                return PreprocessingToJson(
                    PreprocessingOfModelFolder(folder, PreprocessingFromJson(published)));
              });
}

}  // namespace fovea::models
