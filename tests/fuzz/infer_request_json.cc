// HTTP's inference requests: two bytes say how much of the body is JSON, the rest is the body.
#include "server/core/clock.h"
#include "server/transport/http/read_infer_request.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {

FOVEA_FUZZ_TARGET(infer_request_json, input) {
  const auto binary_bytes = static_cast<size_t>(input.TakeInt(0, 65'535));
  const TestMessage body(input.rest());
  const size_t size = input.rest().size();
  MemoryBudget budget(64 << 20, SteadyClock());
  InferenceRequest request;
  OutputForms forms;
  const absl::Status read = ReadInferRequest(body.bytes(), size - std::min(size, binary_bytes),
                                             AnyModel, budget, &request, &forms);
  FOVEA_CHECK(budget.held() == 0);
  if (!read.ok()) return;
  const auto* tensors = std::get_if<NamedTensors>(&request.input);
  if (tensors == nullptr) return;
  for (const InputTensor& tensor : *tensors) {
    const std::optional<int64_t> elements = ElementCount(tensor.shape);
    FOVEA_CHECK(elements && *elements > 0);
    const size_t element = ElementSize(tensor.type);
    FOVEA_CHECK(element == 0 || tensor.data.size() == element * *elements);
    Text(tensor.data);
  }
}

}  // namespace fovea
