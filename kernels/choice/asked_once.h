// Answers that are needed in every call, some of which take less time than asking does.
#pragma once
#include <array>
#include <cstddef>
#include <mutex>

#include "kernels/choice/choice.h"

namespace fovea::kernels {

// Of so many questions. Thread-safe.
template <size_t kQuestions>
class AskedOnce {
 public:
  // What ask() has answered to this question: it is called once, but under FOVEA_CHOOSE each time.
  template <class Ask>
  size_t Answer(size_t question, const Ask& ask) {
    if (AnswersAreForced()) return ask();
    std::call_once(once_[question], [&] { answers_[question] = ask(); });
    return answers_[question];
  }

 private:
  std::array<std::once_flag, kQuestions> once_;
  std::array<size_t, kQuestions> answers_ = {};
};

}  // namespace fovea::kernels
