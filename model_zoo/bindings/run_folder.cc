// torch.ops.fovea_models.run(folder, input): a folder of the model repository, read as the server
// reads it. Only where the server is built, and model_zoo/folder with it.
#include <torch/library.h>

#include <string>

#include "model_zoo/bindings/run.h"
#include "model_zoo/folder/describe_model_folder.h"

namespace fovea::models {

TORCH_LIBRARY_FRAGMENT(fovea_models, library) {
  library.def("run(str folder, Tensor input) -> Tensor[]",
              [](const std::string& folder, const at::Tensor& input) {
                return LoadAndRun(DescribeModelFolder(folder), input);
              });
}

}  // namespace fovea::models
