// Selection by counting, one row at a time: what the CUDA kernel runs per row, and the arithmetic
// it shares with the CPU's vectors of rows. Host and device code, C++17; tests run it on the host.
//
// Which keys a row attends is decided by a threshold: any t with exactly k logits >= t will do, the
// k-th largest itself is not needed. MomentSeed guesses one as if the row were normal; each round
// counts the logits at or above the guess and notes the two nearest to it, above and below
// (Neighbours), which shrinks the bracket that holds every good threshold. The next guess follows
// Newton's method once, then interpolates; bisection of the numbers' own order bounds the rounds.
// Where a round costs more than its comparisons, it counts at three guesses: fewer rounds do.
// Where equal logits straddle the k-th place no threshold counts right: the bracket closes on that
// value and `ties` says how many of it take part, the first by index.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_device.h"

namespace fovea::kernels::knn {

// After so many rounds of interpolation the search bisects.
inline constexpr int kInterpolationRounds = 12;

// The longest search: 32 bisections close any bracket of floats.
inline constexpr int kMostRounds = kInterpolationRounds + 32;

// A row where nothing is tied at the threshold: however many equal it, all take part.
inline constexpr int32_t kAllTies = 0x7FFFFFFF;

// x with probability p below it in a normal distribution, 0 < p < 1, within 5e-4.
// Abramowitz and Stegun, 26.2.23.
FOVEA_HOST_DEVICE float NormalQuantile(float p) {
  const float tail = p < 0.5f ? p : 1.0f - p;
  const float t = sqrtf(-2.0f * logf(tail));
  const float x = t - (2.515517f + t * (0.802853f + t * 0.010328f)) /
                          (1.0f + t * (1.432788f + t * (0.189269f + t * 0.001308f)));
  return p < 0.5f ? -x : x;
}

// Where in a normal row the k-th largest of n lies: `deviations` from the mean, and how many
// standard deviations one rank is wide there. 0 < k < n.
struct NormalRank {
  float deviations;
  float per_rank;
};

FOVEA_HOST_DEVICE NormalRank RankInNormal(int64_t k, int64_t n) {
  const float z = NormalQuantile(1.0f - static_cast<float>(k) / static_cast<float>(n));
  const float density = 0.39894228f * expf(-0.5f * z * z);
  return {z, 1.0f / (static_cast<float>(n) * density)};
}

// The classes below that device code creates have constructors with a body. Without one nvcc 13.0
// miscompiles arrays of arrays of them: it applies default member initialisers to the first row
// only and zeroes the other rows (tests/kernels/ptx/initialisers.cu).

// A row's finite logits: how many, their sum, sum of squares, least and largest.
struct Moments {
  FOVEA_HOST_DEVICE Moments() {}
  FOVEA_HOST_DEVICE Moments(int32_t count, float sum, float squares, float smallest, float largest)
      : count(count), sum(sum), squares(squares), smallest(smallest), largest(largest) {}

  int32_t count = 0;
  float sum = 0.0f;
  float squares = 0.0f;
  float smallest = INFINITY;
  float largest = -INFINITY;
};

// What one round of counting finds out about t.
struct Neighbours {
  FOVEA_HOST_DEVICE Neighbours() {}
  FOVEA_HOST_DEVICE Neighbours(int32_t count, float above, float below)
      : count(count), above(above), below(below) {}

  int32_t count = 0;        // logits >= t
  float above = INFINITY;   // the least of them
  float below = -INFINITY;  // the largest logit < t

  FOVEA_HOST_DEVICE void Count(float logit, float t) {
    if (logit >= t) {
      ++count;
      above = fminf(above, logit);
    } else {
      below = fmaxf(below, logit);
    }
  }
};

FOVEA_HOST_DEVICE uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Integers in the order of the floats they stand for, and back.
FOVEA_HOST_DEVICE int32_t OrderOf(float x) {
  const int32_t bits = static_cast<int32_t>(BitsOf(x + 0.0f));  // -0 counts as 0
  return bits >= 0 ? bits : static_cast<int32_t>(bits ^ 0x7FFFFFFF);
}
FOVEA_HOST_DEVICE float FloatAt(int32_t order) {
  const int32_t bits = order >= 0 ? order : static_cast<int32_t>(order ^ 0x7FFFFFFF);
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// The search for one row's threshold. While !Done(): count at the guesses, tell Observe(). It is
// done after kMostRounds rounds at most.
class ThresholdSearch {
 public:
  // Done, and takes nothing.
  FOVEA_HOST_DEVICE ThresholdSearch() {}

  // Takes min(k, moments.count) logits; k > 0. A row without a finite logit is done, taking none.
  FOVEA_HOST_DEVICE ThresholdSearch(int64_t k, const Moments& moments)
      : k_(static_cast<int32_t>(k)),
        low_(moments.smallest),
        high_(moments.largest),
        low_count_(moments.count),
        done_(false) {
    if (moments.count <= k) {
      Finish(moments.count == 0 ? INFINITY : moments.smallest, kAllTies);
    } else if (low_ == high_) {
      Finish(low_, k_);
    } else {
      MomentSeed(moments);
    }
  }

  FOVEA_HOST_DEVICE bool Done() const { return done_; }
  FOVEA_HOST_DEVICE int Rounds() const { return rounds_; }

  // The best guess, or one on either side of it (-1, 1), as far away as a guess is usually off.
  FOVEA_HOST_DEVICE float Guess(int side = 0) const {
    return side == 0 ? guess_ : guess_ + static_cast<float>(side) * spread_;
  }

  // What was found at Guess(), or at Guess(-1), Guess(0) and Guess(1).
  template <int kGuesses>
  FOVEA_HOST_DEVICE void Observe(const Neighbours (&found)[kGuesses]) {
    ++rounds_;
    for (const Neighbours& at_guess : found) {
      if (at_guess.count == k_) {
        Finish(at_guess.above, kAllTies);
        return;
      }
      if (at_guess.count > k_ && at_guess.above > low_) {
        low_ = at_guess.above;
        low_count_ = at_guess.count;
      } else if (at_guess.count < k_ && at_guess.below < high_) {
        high_ = at_guess.below;
        high_count_ = at_guess.count;
      }
    }
    if (low_ == high_) {
      Finish(low_, k_ - high_count_);
    } else {
      Propose(found[kGuesses / 2].count);
    }
  }

  // The outcome: logits above Threshold() take part, and of those equal to it the first Ties() by
  // index, which is kAllTies where they need not be counted.
  FOVEA_HOST_DEVICE float Threshold() const { return guess_; }
  FOVEA_HOST_DEVICE int32_t Ties() const { return ties_; }

 private:
  FOVEA_HOST_DEVICE void MomentSeed(const Moments& moments) {
    const float n = static_cast<float>(moments.count);
    const float mean = moments.sum / n;
    const float variance = moments.squares / n - mean * mean;
    const NormalRank rank = RankInNormal(k_, moments.count);
    const float deviation = sqrtf(variance > 0.0f ? variance : 0.0f);
    rank_width_ = deviation * rank.per_rank;
    SetGuess(mean + deviation * rank.deviations);
    spread_ = 0.5f * sqrtf(n) * rank_width_;
  }

  // `count`: of logits at or above the best guess of the round.
  FOVEA_HOST_DEVICE void Propose(int32_t count) {
    const float between = static_cast<float>(low_count_ - high_count_);
    if (rounds_ >= kInterpolationRounds) {
      const int32_t a = OrderOf(low_);
      const int32_t b = OrderOf(high_);
      SetGuess(FloatAt((a | b) - ((a ^ b) >> 1)));  // the mean, rounded up
    } else if (high_count_ == k_ - 1) {
      SetGuess(high_);
    } else if (low_count_ == k_ + 1) {
      SetGuess(FloatAt(OrderOf(low_) + 1));
    } else if (rounds_ == 1 && (count == low_count_ || count == high_count_)) {
      SetGuess(guess_ + static_cast<float>(count - k_) * rank_width_);
    } else {
      SetGuess(low_ + static_cast<float>(low_count_ - k_) / between * (high_ - low_));
    }
    // Counts of `between` logits that fall where they like are off by half the root of it.
    spread_ = 0.5f * (high_ - low_) / sqrtf(between);
  }

  // Keeps the guess in (low, high], where every one makes progress.
  FOVEA_HOST_DEVICE void SetGuess(float guess) {
    guess_ = guess > low_ && guess <= high_ ? guess : high_;
  }

  FOVEA_HOST_DEVICE void Finish(float threshold, int32_t ties) {
    guess_ = threshold;
    ties_ = ties;
    done_ = true;
  }

  int32_t k_ = 0;
  float low_ = INFINITY;    // a logit; low_count_ > k logits are >= it
  float high_ = -INFINITY;  // a logit; high_count_ < k logits are > it
  int32_t low_count_ = 0;
  int32_t high_count_ = 0;
  float guess_ = INFINITY;
  float spread_ = 0.0f;
  float rank_width_ = 0.0f;
  int32_t ties_ = kAllTies;
  int rounds_ = 0;
  bool done_ = true;
};

// Whether a logit takes no part; `equal_before` logits of lower index equal the threshold too. NaN
// is not left out, so that it spoils its row.
FOVEA_HOST_DEVICE bool IsLeftOut(float logit, float threshold, int32_t equal_before, int32_t ties) {
  return logit < threshold || (logit == threshold && equal_before >= ties);
}

// What a call of k-NN attention selects of every row.
struct Selection {
  int32_t topk;
  NormalRank rank;  // of topk in the keys; unused where they are equal
};

inline Selection SelectionOf(int64_t topk, int64_t keys) {
  return {static_cast<int32_t>(topk), topk < keys ? RankInNormal(topk, keys) : NormalRank{}};
}

}  // namespace fovea::kernels::knn
