// Asks which is faster, panels or AMX's tiles.
#pragma once
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/choice/cached_answer.h"
#include "kernels/choice/choice.h"
#include "kernels/simd/gemm.h"

namespace fovea::kernels::attend {

// One operator's questions, asked apart while there are tiles and while oneDNN or an instruction
// set is forbidden that they need: simd::HasAmxTiles() may change from call to call.
template <size_t kSizes>
class PanelsOrTiles {
 public:
  PanelsOrTiles(std::string_view prefix, const std::array<int64_t, kSizes>& sizes)
      : with_tiles_(prefix, sizes), without_(prefix, sizes) {}

  // The answer for calls of this type and so many tokens. make(size) returns run(way), a typical
  // call of that size; its tensors are made when it first runs. Where there are no tiles, panels
  // are the only candidate.
  template <class Make>
  AttentionWay Faster(c10::ScalarType type, int64_t tokens, const Make& make) {
    constexpr AttentionWay kWays[] = {AttentionWay::kPanels, AttentionWay::kTiles};
    const bool tiles = simd::HasAmxTiles();
    auto& questions = tiles ? with_tiles_ : without_;
    return kWays[questions.Answer(type, tokens, [&](const std::string& question, int64_t size) {
      auto run = make(size);
      const Candidate candidates[] = {
          {"panels", [&run] { run(AttentionWay::kPanels); }},
          {"tiles", [&run] { run(AttentionWay::kTiles); }},
      };
      return Fastest(question, std::span(candidates, tiles ? 2 : 1));
    })];
  }

 private:
  QuestionsBySize<kSizes> with_tiles_, without_;
};

}  // namespace fovea::kernels::attend
