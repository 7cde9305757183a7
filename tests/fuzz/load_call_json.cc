// HTTP's loads, which may bring files.
#include "server/core/clock.h"
#include "server/transport/http/read_load_call.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {

FOVEA_FUZZ_TARGET(load_call_json, input) {
  const TestMessage body(input.rest());
  MemoryBudget budget(64 << 20, SteadyClock());
  {
    HttpRequest request{.body = body.bytes(),
                        .body_bytes = static_cast<int64_t>(input.rest().size())};
    const absl::StatusOr<LoadCall> load = ReadLoadCall(request, budget);
    int64_t files = 0;
    for (size_t i = 0; load.ok() && i < load->parameters.size(); ++i) {
      const LoadCall::Parameter& parameter = load->parameters[i];
      FOVEA_CHECK(!parameter.text || !parameter.bytes);
      if (parameter.bytes) files += static_cast<int64_t>(parameter.bytes->size());
      for (size_t j = 0; j < i; ++j) FOVEA_CHECK(load->parameters[j].name != parameter.name);
    }
    if (load.ok()) files += load->LargestFile();
    FOVEA_CHECK(budget.held() == files);  // and nothing else is kept
  }
  FOVEA_CHECK(budget.held() == 0);
}

}  // namespace fovea
