// What is timed as attention: of each module all that lies between its projections, and nothing
// else. Operators are made slow for it, so that what is counted shows.
#include "model_zoo/attention/attention_time.h"

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

std::shared_ptr<AttentionModule> MakeModule(const AttentionTable& table, const std::string& text) {
  const at::NoGradGuard no_grad;
  auto module = AttentionFactory(table, AttentionSpec::Parse(text, table), "a test", nullptr)
                    .Module({.channels = 32, .heads = 4, .grid = kGrid, .window = 4});
  for (at::Tensor& parameter : module->parameters()) parameter.normal_(0, 0.1);
  module->Prepare({});
  return module;
}

void Pass(const AttentionModule& module) {
  const at::NoGradGuard no_grad;
  module.forward(at::ones({1, kGrid.tokens(), 32}), kGrid);
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

  // Of one pass of the module, prepared as it serves, with its attention apart.
  std::optional<std::chrono::nanoseconds> Time() {
    if (module_ == nullptr) module_ = MakeModule(Attentions(), GetParam());
    const AttentionTime time(AttentionTime::Mode::kApart);
    Pass(*module_);
    return time.total();
  }

 private:
  const at::CallbackHandle callback_;
  std::shared_ptr<AttentionModule> module_;
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
  // The least of three: another program may take the core away for as long.
  const auto time = std::min({Time(), Time(), Time()});
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

// A module that was listed without a region of attention would have no time.
TEST(AttentionTime, EveryListedModuleThatHasAMapHasOne) {
  for (const AttentionModuleEntry& entry : AttentionModules()) {
    const std::string text = std::string(entry.name) + (entry.takes_core ? "/dense" : "");
    const auto module = MakeModule(Attentions(), text);
    const at::NoGradGuard no_grad;
    const bool has_map = module->Map(at::ones({1, kGrid.tokens(), 32}), kGrid).defined();
    const AttentionTime time;
    Pass(*module);
    EXPECT_EQ(time.total().has_value() || time.folded(), has_map) << text;
  }
}

// As a researcher adds one: queries and keys of its own making before the operator.
class SlowCore final : public AttentionCore {
 public:
  at::Tensor Map(const at::Tensor& query, const at::Tensor& key,
                 const std::optional<at::Tensor>& /*bias*/) const override {
    return at::matmul(query, key.mT()).softmax(-1);
  }
  at::Tensor Weigh(const at::Tensor& logits, const at::Tensor& /*query*/,
                   const at::Tensor& /*key*/) const override {
    return logits.softmax(-1);
  }

 private:
  at::Tensor DoAttend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& bias) const override {
    std::this_thread::sleep_for(kSlow);
    return at::scaled_dot_product_attention(query, key, value, bias);
  }
};

TEST(AttentionTime, HasACoresOwnOperations) {
  const CoreEntry cores[] = {{.name = "slow",
                              .summary = "dense attention after a pause",
                              .make = [](const AttentionSpec&, const CoreSite&) {
                                return std::shared_ptr<const AttentionCore>(new SlowCore());
                              }}};
  const AttentionTable table{.cores = cores, .modules = AttentionModules()};
  for (const char* text : {"self/slow", "shifted_window/slow", "axial/slow", "aewin/slow"}) {
    const auto module = MakeModule(table, text);
    const AttentionTime time;
    const auto start = std::chrono::steady_clock::now();
    Pass(*module);
    ASSERT_TRUE(time.total().has_value()) << text;
    EXPECT_GE(*time.total(), kSlow) << text;
    EXPECT_LE(*time.total(), std::chrono::steady_clock::now() - start)
        << text << ": windows within it count once";
  }
}

TEST(AttentionTime, LeavesServedModulesAsTheyAre) {
  const auto module = MakeModule(Attentions(), "key_only");
  {
    const AttentionTime served;
    Pass(*module);
    EXPECT_TRUE(served.folded());
    EXPECT_FALSE(served.total().has_value());
  }
  const AttentionTime apart(AttentionTime::Mode::kApart);
  Pass(*module);
  EXPECT_FALSE(apart.folded());
  EXPECT_TRUE(apart.total().has_value());
}

}  // namespace
}  // namespace fovea::models
