// What is timed as attention: of each module the operators between its projections, whole, and
// nothing else. Operators are made slow for it, so that what is counted shows.
#include "model_zoo/measures/attention_time.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/registry/attentions.h"

namespace fovea::models {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlow(100);
constexpr Grid kGrid{.height = 8, .width = 8};

// Whether an operator is made slow, by name; the outermost ones that ran, where it is not null.
thread_local bool (*is_slow)(const std::string& name) = nullptr;
thread_local std::set<std::string>* ran = nullptr;

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction& function) {
  const std::string name(function.name());
  if (ran != nullptr) ran->insert(name);
  if (is_slow != nullptr && is_slow(name)) std::this_thread::sleep_for(kSlow);
  return nullptr;
}
// At both ends: whichever callback is first, what times such an operator sees one of them.
void Leave(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (is_slow != nullptr && is_slow(std::string(function.name()))) {
    std::this_thread::sleep_for(kSlow);
  }
}

class AttentionTimeTest : public testing::TestWithParam<const char*> {
 protected:
  AttentionTimeTest()
      : callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(Enter, Leave).scopes({at::RecordScope::FUNCTION}))) {}
  ~AttentionTimeTest() override {
    at::removeCallback(callback_);
    is_slow = nullptr;
    ran = nullptr;
  }

  // Of one pass of the module, as it serves.
  std::optional<std::chrono::nanoseconds> Time() {
    const at::NoGradGuard no_grad;
    if (module_ == nullptr) {
      module_ = AttentionFactory(Attentions(), AttentionSpec::Parse(GetParam(), Attentions()),
                                 "a test", nullptr)
                    .Module({.channels = 32, .heads = 4, .grid = kGrid, .window = 4});
      for (at::Tensor& parameter : module_->parameters()) parameter.normal_(0, 0.1);
      module_->Prepare({});
      tokens_ = at::randn({1, kGrid.tokens(), 32});
    }
    const AttentionTime time;
    module_->forward(tokens_, kGrid);
    return time.total();
  }

 private:
  const at::CallbackHandle callback_;
  std::shared_ptr<AttentionModule> module_;
  at::Tensor tokens_;
};

TEST_P(AttentionTimeTest, HasTheOperatorsOfAttention) {
  Time();  // what a first pass does besides
  is_slow = [](const std::string& name) {
    return name == "aten::scaled_dot_product_attention" ||
           (name.starts_with("fovea::") && name.ends_with("_attention"));
  };
  const auto time = Time();
  ASSERT_TRUE(time.has_value());
  EXPECT_GE(*time, kSlow);
}

TEST_P(AttentionTimeTest, HasNoProjections) {
  Time();
  is_slow = [](const std::string& name) {
    // Linear layers, packed or not, and what has them inside.
    return name.find("linear") != std::string::npos || name.find("addmm") != std::string::npos ||
           name.ends_with("_layer");
  };
  std::set<std::string> names;
  ran = &names;
  const auto time = Time();
  ASSERT_TRUE(time.has_value());
  EXPECT_LT(*time, kSlow) << testing::PrintToString(names);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_slow)) << testing::PrintToString(names);
}

INSTANTIATE_TEST_SUITE_P(Attentions, AttentionTimeTest,
                         testing::Values("self/dense", "self/knn:k=9", "shifted_window/dense",
                                         "shifted_window/knn:k=3", "axial/dense", "criss_cross",
                                         "pale/dense", "cross_shaped/dense", "aewin/dense", "ska",
                                         "cska", "key_only"));

class NoAttentionTest : public AttentionTimeTest {};

TEST_P(NoAttentionTest, HasNoTime) { EXPECT_FALSE(Time().has_value()); }

INSTANTIATE_TEST_SUITE_P(Convolution, NoAttentionTest, testing::Values("conv"));

}  // namespace
}  // namespace fovea::models
