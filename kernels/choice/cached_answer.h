// Answers to questions that are asked in every call, some of which take less time than asking.
#pragma once
#include <c10/core/ScalarType.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/choice/choice.h"
#include "kernels/choice/questions.h"

namespace fovea::kernels {

// One question's answer. Thread-safe.
class CachedAnswer {
 public:
  // What ask() answers. It is called once, and again where it threw or what FOVEA_CHOOSE forces has
  // changed since.
  template <class Ask>
  size_t Answer(const Ask& ask) {
    const uint32_t forced = HashOfForced();
    if (const uint64_t kept = kept_; IsFor(forced, kept)) return PlaceIn(kept);
    const std::lock_guard lock(mutex_);
    if (const uint64_t kept = kept_; IsFor(forced, kept)) return PlaceIn(kept);
    const size_t place = ask();
    kept_ = uint64_t{forced} << 32 | (place + 1);
    return place;
  }

 private:
  static bool IsFor(uint32_t forced, uint64_t kept) {
    return kept >> 32 == forced && static_cast<uint32_t>(kept) != 0;
  }
  static size_t PlaceIn(uint64_t kept) { return static_cast<uint32_t>(kept) - 1; }

  std::mutex mutex_;
  std::atomic<uint64_t> kept_ = 0;  // what was forced, and the place plus one
};

// The questions PREFIX_fp32_nSIZE and PREFIX_bf16_nSIZE: each stands for calls of up to so many
// tokens, the last also for larger ones. Thread-safe.
template <size_t kSizes>
class QuestionsBySize {
 public:
  // Sizes ascend.
  constexpr QuestionsBySize(std::string_view prefix, const std::array<int64_t, kSizes>& sizes)
      : prefix_(prefix), sizes_(sizes) {}

  // What ask(question, its size) has answered for fp32 or bf16 calls of so many tokens
  // (CachedAnswer).
  template <class Ask>
  size_t Answer(c10::ScalarType type, int64_t tokens, const Ask& ask) {
    size_t i = 0;
    while (i + 1 < kSizes && tokens > sizes_[i]) ++i;
    return (type == c10::kFloat ? of_fp32_ : of_bf16_)[i].Answer([&] {
      return ask(std::string(prefix_) + "_" + TypeName(type) + "_n" + std::to_string(sizes_[i]),
                 sizes_[i]);
    });
  }

 private:
  const std::string_view prefix_;
  const std::array<int64_t, kSizes> sizes_;
  std::array<CachedAnswer, kSizes> of_fp32_, of_bf16_;
};

}  // namespace fovea::kernels
