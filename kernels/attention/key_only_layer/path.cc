#include "kernels/attention/key_only_layer/path.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/attention/key_only_layer/implementations.h"
#include "kernels/choice/choice.h"
#include "kernels/choice/questions.h"

namespace fovea::kernels {
namespace {

constexpr KeyOnlyPath kPaths[] = {KeyOnlyPath::kPlain, KeyOnlyPath::kHalfFolded,
                                  KeyOnlyPath::kFolded};
constexpr int64_t kMostTokens = 4096;

// To 2^n or 1.5 * 2^n.
int64_t RoundedUp(int64_t size) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
  return power >= 4 && size <= power / 4 * 3 ? power / 4 * 3 : power;
}

int64_t TokensOf(const KeyOnlyLayerShape& shape) {
  return std::min(RoundedUp(shape.tokens), kMostTokens);
}

KeyOnlyLayerInputs TypicalInputs(const KeyOnlyLayerShape& shape) {
  const auto options = at::TensorOptions(shape.type).device(shape.device);
  const int64_t channels = RoundedUp(shape.channels);
  // As many as there are, where they divide the rounded number of channels.
  const int64_t heads = channels % shape.heads == 0 ? shape.heads : 1;
  const auto weight = [&] {
    return TypicalNumbers({channels, channels}, options) / std::sqrt(static_cast<double>(channels));
  };
  const auto bias = [&] { return TypicalNumbers({channels}, options); };
  KeyOnlyLayerInputs in{
      TypicalNumbers({1, TokensOf(shape), channels}, options),
      {weight(), bias(), weight(), bias(), TypicalNumbers({heads, channels / heads}, options),
       weight(), bias(), weight(), bias()},
      1 / std::sqrt(static_cast<double>(channels / heads)),
      std::nullopt};
  if (shape.prepared) in.folded = Fold(in.weights);
  return in;
}

// What a GPU takes for a call with what launching it takes the host: it has nothing else to do.
double SecondsUntilRead(const std::function<void()>& run, const at::Tensor& x) {
  const auto wait = [&x] { x.view(-1)[0].item(); };
  wait();
  const auto start = std::chrono::steady_clock::now();
  run();
  wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string_view NameOfPath(KeyOnlyPath path) {
  switch (path) {
    case KeyOnlyPath::kPlain:
      return "plain";
    case KeyOnlyPath::kHalfFolded:
      return "half_folded";
    case KeyOnlyPath::kFolded:
      return "folded";
  }
  TORCH_INTERNAL_ASSERT(false, "no such path");
}

std::string KeyOnlyQuestion(const KeyOnlyLayerShape& shape) {
  return c10::str("key_only_layer_", TypeName(shape.type), "_n", TokensOf(shape), "_c",
                  RoundedUp(shape.channels), shape.prepared ? "" : "_unprepared");
}

KeyOnlyPath FastestKeyOnlyPath(const KeyOnlyLayerShape& shape) {
  // Made when one is measured: most processes never do.
  std::unique_ptr<KeyOnlyLayerInputs> inputs;
  std::vector<Candidate> candidates;
  for (const KeyOnlyPath path : kPaths) {
    candidates.push_back({NameOfPath(path), [&inputs, &shape, path] {
                            if (!inputs) {
                              inputs = std::make_unique<KeyOnlyLayerInputs>(TypicalInputs(shape));
                            }
                            KeyOnlyLayerFast(*inputs, path);
                          }});
  }
  ChoiceOptions options = ChoiceOptionsFor(shape.device);
  if (!shape.device.is_cpu()) {
    options.seconds = [&](const std::function<void()>& run) {
      return SecondsUntilRead(run, inputs->x);
    };
  }
  return kPaths[Fastest(KeyOnlyQuestion(shape), candidates, options)];
}

}  // namespace fovea::kernels
