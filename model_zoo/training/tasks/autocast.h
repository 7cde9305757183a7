// How matrix products are made while training.
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace fovea::models::training {

// Matrix products in bfloat16 while it lives.
class Autocast {
 public:
  explicit Autocast(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Autocast() {
    at::autocast::clear_cache();  // holds casts of weights that the next step changes
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool before_;
};

// Torch's fused attention for the CPU is made for long sequences: at 65 tokens its backward pass in
// bfloat16 takes six times as long as that of plain matrix products.
class PlainAttention {
 public:
  PlainAttention()
      : flash_before_(at::globalContext().userEnabledFlashSDP()),
        reduced_before_(at::globalContext().allowFP16BF16ReductionMathSDP()) {
    at::globalContext().setSDPUseFlash(false);
    at::globalContext().setAllowFP16BF16ReductionMathSDP(true);
  }
  ~PlainAttention() {
    at::globalContext().setSDPUseFlash(flash_before_);
    at::globalContext().setAllowFP16BF16ReductionMathSDP(reduced_before_);
  }
  PlainAttention(const PlainAttention&) = delete;
  PlainAttention& operator=(const PlainAttention&) = delete;

 private:
  const bool flash_before_, reduced_before_;
};

}  // namespace fovea::models::training
