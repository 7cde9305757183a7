// Asks which is faster, panels or AMX's tiles.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/choice/asked_once.h"
#include "kernels/choice/choice.h"

namespace fovea::kernels::attend {

// What `questions` answer for calls of this type and so many tokens. make(size) makes what is
// measured where it is: run(way), a typical call of a question's size, which makes its tensors when
// it is first called. Where there are no tiles, panels are the only candidate.
template <size_t kSizes, class Make>
AttentionWay FasterOfPanelsAndTiles(QuestionsBySize<kSizes>& questions, c10::ScalarType type,
                                    int64_t tokens, const Make& make) {
  constexpr AttentionWay kWays[] = {AttentionWay::kPanels, AttentionWay::kTiles};
  return kWays[questions.Answer(type, tokens, [&](const std::string& question, int64_t size) {
    auto run = make(size);
    const Candidate candidates[] = {
        {"panels", [&run] { run(AttentionWay::kPanels); }},
        {"tiles", [&run] { run(AttentionWay::kTiles); }},
    };
    return Fastest(question, std::span(candidates, HasAmxTiles() ? 2 : 1));
  })];
}

}  // namespace fovea::kernels::attend
