// What is measured, remembered and forced.
#include "kernels/choice/choice.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/key_only_layer/path.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/cpu_windows.h"
#include "kernels/choice/cached_answer.h"
#include "kernels/choice/questions.h"
#include "kernels/linear/linear_way.h"
#include "kernels/linear/onednn_linear.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/scoped_choose.h"

namespace fovea::kernels {
namespace {

std::string TextOf(const ChoiceAnswer& answer) {
  return answer.answer + " " + std::string(TextOf(answer.source));
}

class ChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("fovea_choices_" + std::to_string(getpid())) /
            "choices.json";
    std::filesystem::remove_all(file_.parent_path());
    setenv("FOVEA_CHOICES", file_.c_str(), 1);
    unsetenv("FOVEA_CHOOSE");
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    question_ = test->name();  // a process answers each once
  }
  void TearDown() override {
    unsetenv("FOVEA_CHOOSE");
    setenv("FOVEA_CHOICES", "off", 1);
    std::filesystem::remove_all(file_.parent_path());
  }

  // Candidates that take so many milliseconds; runs_ counts.
  std::vector<Candidate> Taking(const std::vector<std::pair<std::string_view, int>>& all) {
    std::vector<Candidate> candidates;
    for (const auto& [name, milliseconds] : all) {
      candidates.push_back({name, [this, milliseconds] {
                              ++runs_;
                              std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
                            }});
    }
    return candidates;
  }

  // Other tests may run beside this one.
  static ChoiceOptions Undisturbed() {
    return {.waited = [] { return 0.0; }};
  }

  std::string HowAnswered() const {
    for (const ChoiceAnswer& answered : Answers()) {
      if (answered.question == question_) return TextOf(answered);
    }
    return "not asked";
  }

  std::filesystem::path file_;
  std::string question_;
  int runs_ = 0;
};

TEST_F(ChoiceTest, TheFastestIsMeasuredOnceAndKept) {
  const auto candidates = Taking({{"slow", 4}, {"fast", 1}});
  EXPECT_EQ(Fastest(question_, candidates, Undisturbed()), 1);
  EXPECT_EQ(HowAnswered(), "fast measured");
  EXPECT_GT(runs_, 2);
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, candidates), 1);
  EXPECT_EQ(runs_, 0);
  std::ifstream stored(file_);
  const std::string text((std::istreambuf_iterator<char>(stored)), {});
  EXPECT_NE(text.find("\"" + question_ + "\": \"fast\""), text.npos) << text;
}

TEST_F(ChoiceTest, WhatABusyMachineAnswersIsNotKeptForOtherProcesses) {
  double waited = 0;
  const ChoiceOptions disturbed = {.waited = [&] { return waited += 10; }};
  const auto candidates = Taking({{"slow", 4}, {"fast", 1}});
  EXPECT_EQ(Fastest(question_, candidates, disturbed), 1);
  EXPECT_EQ(HowAnswered(), "fast measured while busy");
  EXPECT_FALSE(std::filesystem::exists(file_));
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, candidates, disturbed), 1);  // this process has its answer
  EXPECT_EQ(runs_, 0);
}

TEST_F(ChoiceTest, ADisturbedMeasurementIsMadeAgain) {
  int asked = 0;  // twice for each measurement; the first is disturbed
  const ChoiceOptions once = {.waited = [&] { return asked++ == 0 ? 0.0 : 10.0; }};
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 8}, {"fast", 1}}), once), 1);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(HowAnswered(), "fast measured");
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(ChoiceTest, ThreadsThatWaitForAProcessorDisturb) {
  std::atomic<bool> done = false;
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < 4 * std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!done) {
      }
    });
  }
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 40}, {"fast", 1}})), 1);
  done = true;
  EXPECT_EQ(HowAnswered(), "fast measured while busy");
}

TEST_F(ChoiceTest, WhatTheFileSaysIsNotMeasuredAgain) {
  // Written as this process writes it, under another question.
  EXPECT_EQ(Fastest(question_ + "Before", Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  std::ifstream stored(file_);
  std::string text((std::istreambuf_iterator<char>(stored)), {});
  text.replace(text.find(question_ + "Before"), question_.size() + 6, question_);
  text.replace(text.find("\"fast\""), 6, "\"slow\"");
  std::ofstream(file_) << text;
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}})), 0);
  EXPECT_EQ(HowAnswered(), "slow remembered");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ChoiceTest, WhatOtherProcessesHaveAskedIsKnown) {
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  std::ifstream stored(file_);
  std::string text((std::istreambuf_iterator<char>(stored)), {});
  const std::string line = "\"" + question_ + "\": \"fast\"";
  text.replace(text.find(line), line.size(),
               line + ",\"key_only_layer_fp16_n2_c2\": \"slow\"," +
                   "\"key_only_layer_fp16_n4_c2\": 3,\"question_of_old\": \"slow\"");
  std::ofstream(file_) << text;
  const auto how = [](const std::string& question) {
    for (const ChoiceAnswer& known : KnownAnswers()) {
      if (known.question == question) return TextOf(known);
    }
    return std::string("not known");
  };
  EXPECT_EQ(how(question_), "fast measured");
  EXPECT_EQ(how("key_only_layer_fp16_n2_c2"), "slow remembered");
  EXPECT_EQ(how("key_only_layer_fp16_n4_c2"), "not known") << "no answer is a number";
  EXPECT_EQ(how("question_of_old"), "not known") << "FOVEA_CHOOSE would refuse it";
  setenv("FOVEA_CHOOSE", "key_only_layer_fp16_n2_c2=fast", 1);
  EXPECT_EQ(how("key_only_layer_fp16_n2_c2"), "fast forced");
}

TEST_F(ChoiceTest, AFileThatIsNoSuchFileIsAsGoodAsNone) {
  std::filesystem::create_directories(file_.parent_path());
  for (const char* text : {"", "[1, 2]", "{\"x\":", "\"text\""}) {
    std::ofstream(file_) << text;
    EXPECT_EQ(Fastest(question_ + text, Taking({{"slow", 4}, {"fast", 1}})), 1) << text;
  }
}

TEST_F(ChoiceTest, WhereNothingCanBeWrittenItIsMeasured) {
  setenv("FOVEA_CHOICES", "/proc/no/choices.json", 1);
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  EXPECT_EQ(HowAnswered(), "fast measured");
}

TEST_F(ChoiceTest, AForcedOneIsNotMeasuredAndNotKept) {
  setenv("FOVEA_CHOOSE", ("linear_fp32=onednn," + question_ + "=slow").c_str(), 1);
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}})), 0);
  EXPECT_EQ(HowAnswered(), "slow forced");
  EXPECT_EQ(runs_, 0);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ChoiceTest, ForcingWhatIsNotThereIsAnError) {
  setenv("FOVEA_CHOOSE", (question_ + "=fastest").c_str(), 1);
  EXPECT_THROW(Fastest(question_, Taking({{"slow", 0}})), c10::Error);
  setenv("FOVEA_CHOOSE", "linear", 1);
  EXPECT_THROW(Fastest(question_, Taking({{"slow", 0}})), c10::Error);
}

TEST_F(ChoiceTest, ForcingWhatNobodyAsksIsAnError) {
  for (const char* question :
       {"lineer_fp32", "linear_fp16", "dense_attention_fp32_n512", "window_attention_fp32",
        "key_only_layer_fp32_n197_c192", "key_only_layer_fp32_n_c192",
        "key_only_layer_fp32_n99999999999999999999_c64", "dense_attention_bf16_d64_n384_h8", ""}) {
    SCOPED_TRACE(question);
    setenv("FOVEA_CHOOSE", (question_ + "=slow," + question + "=fast").c_str(), 1);
    EXPECT_THROW(Fastest(question_, Taking({{"slow", 0}})), c10::Error);
  }
}

// What the library asks: `fovea kernels` prints it, so that it can be copied.
TEST_F(ChoiceTest, EveryQuestionMayBeForced) {
  std::string choices;
  std::set<std::string> asked;
  const auto take_answers = [&] {
    for (const ChoiceAnswer& answered : Answers()) {
      const bool ours = std::ranges::any_of(
          std::array{"linear_", "dense_", "knn_", "conv_static_key_", "window_", "key_only_"},
          [&](const char* beginning) { return answered.question.starts_with(beginning); });
      if (!ours) continue;
      choices += answered.question + "=" + answered.answer + ",";
      asked.insert(answered.question);
    }
  };
  for (const c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kChar}) {
    for (const int64_t channels : {kMaxNarrow, kMaxNarrow + 1}) FastestLinearWay(type, channels);
  }
  for (const c10::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t tokens : {1, 64, 65, 256, 257, 5000}) {
      FastestDenseAttentionWay(type, tokens);
      FastestKnnAttentionWay(type, tokens);
      attend::FastestWindowsWay(type, tokens, 32);
    }
    FastestConvStaticKeyWay(type);
    for (const bool prepared : {false, true}) {
      FastestKeyOnlyPath({197, 48, 3, type, at::kCPU, prepared});
    }
  }
  take_answers();
  // Linear layers are not asked about where nothing but ATen has them.
  size_t linear = 2;  // of 8 bits, which vectors have
  if (OneDnnLinear::Supports(at::kFloat) || simd::HasFp32Gemm()) linear += 2;
  if (OneDnnLinear::Supports(at::kBFloat16) || simd::HasBf16Gemm()) linear += 2;
  if (simd::BestIsa() == simd::Isa::kNone) linear = 0;
  EXPECT_GE(asked.size(), linear + 6 + 4 + 2 + 4 + 4);
  // On a GPU.
  choices +=
      "key_only_layer_fp16_n1536_c64_unprepared=plain,dense_attention_fp16_d64_n256_h32=sdpa";
  setenv("FOVEA_CHOOSE", choices.c_str(), 1);
  EXPECT_EQ(Fastest(question_, Taking({{"only", 0}})), 0) << choices;
}

// Also those that this machine is not asked.
TEST_F(ChoiceTest, EveryFamilyOfQuestionsIsKnown) {
  for (const char* question :
       {"linear_int8", "linear_fp32_c768", "dense_attention_fp32_n64", "window_attention_bf16_n256",
        "knn_attention_fp32_n256", "knn_attention_bf16_n1024",
        "conv_static_key_attention_bf16_n256", "key_only_layer_fp32_n768_c192",
        "key_only_layer_bf16_n64_c128_unprepared", "dense_attention_fp16_d64_n1024_h8"}) {
    EXPECT_TRUE(IsQuestion(question)) << question;
  }
  for (const char* question : {"knn_attention_fp32_n64", "conv_static_key_attention_fp32_n64"}) {
    EXPECT_FALSE(IsQuestion(question)) << question;
  }
}

TEST_F(ChoiceTest, OneAloneIsNotMeasured) {
  EXPECT_EQ(Fastest(question_, Taking({{"only", 1}})), 0);
  EXPECT_EQ(HowAnswered(), "only alone");
  EXPECT_EQ(Fastest(question_, Taking({{"other", 1}})), 0);
  EXPECT_EQ(HowAnswered(), "other alone");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ChoiceTest, WhoMayNotMeasureGetsWhatIsKnownOrTheFirst) {
  const auto candidates = Taking({{"slow", 4}, {"fast", 1}});
  EXPECT_EQ(Fastest(question_, candidates, {.may_measure = false}), 0);
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(HowAnswered(), "not asked");
  EXPECT_EQ(Fastest(question_, candidates), 1);
  EXPECT_EQ(Fastest(question_, candidates, {.may_measure = false}), 1);
}

TEST_F(ChoiceTest, AnAnswerHoldsForItsDeviceAndItsOwnWayOfTiming) {
  const auto candidates = Taking({{"slow", 4}, {"fast", 1}});
  EXPECT_EQ(Fastest(question_, candidates), 1);
  // By a clock to which the slow one is the faster.
  const auto seconds = [turn = 0](const std::function<void()>& run) mutable {
    run();
    return turn++ % 2 == 0 ? 0.5 : 1.0;
  };
  EXPECT_EQ(Fastest(question_, candidates, {.device = "another", .seconds = seconds}), 0);
  EXPECT_EQ(Fastest(question_, candidates), 1);
}

TEST_F(ChoiceTest, AnAnswerHoldsForItsThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_EQ(Fastest(question_, Taking({{"a", 1}, {"b", 4}}), Undisturbed()), 0);
  at::set_num_threads(2);
  EXPECT_EQ(Fastest(question_, Taking({{"a", 4}, {"b", 1}}), Undisturbed()), 1);
  at::set_num_threads(1);
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, Taking({{"a", 4}, {"b", 1}})), 0);
  EXPECT_EQ(runs_, 0);
  at::set_num_threads(before);
}

TEST_F(ChoiceTest, AnAnswerHoldsForItsInstructionSet) {
  if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "this processor has no other";
  EXPECT_EQ(Fastest(question_, Taking({{"a", 1}, {"b", 4}}), Undisturbed()), 0);
  {
    const simd::ScopedIsa narrower(simd::Isa::kNone);
    EXPECT_EQ(Fastest(question_, Taking({{"a", 4}, {"b", 1}}), Undisturbed()), 1);
  }
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, Taking({{"a", 4}, {"b", 1}})), 0);
  EXPECT_EQ(runs_, 0);
}

// What the file has of another processor, another LibTorch or another Fovea is no answer.
TEST_F(ChoiceTest, AnAnswerHoldsForItsProcessorAndItsVersions) {
  EXPECT_EQ(Fastest(question_ + "Before", Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  std::ifstream stored(file_);
  std::string text((std::istreambuf_iterator<char>(stored)), {});
  const std::string version =
      c10::str("torch ", TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH);
  const size_t place = text.find("fovea ");
  const std::string fovea = text.substr(place, text.find('"', place) - place);
  for (const std::string& told : {std::string(simd::ProcessorName()), version, fovea}) {
    SCOPED_TRACE(told);
    std::string changed = text;
    changed.replace(changed.find(told), told.size(), told + "0");
    changed.replace(changed.find(question_ + "Before"), question_.size() + 6, question_ + told);
    changed.replace(changed.find("\"fast\""), 6, "\"slow\"");
    std::ofstream(file_) << changed;
    EXPECT_EQ(Fastest(question_ + told, Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  }
}

TEST_F(ChoiceTest, WhoWasAloneIsMeasuredWhereThereIsAnother) {
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}})), 0);
  EXPECT_EQ(HowAnswered(), "slow alone");
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}}), Undisturbed()), 1);
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}})), 0);
  EXPECT_EQ(HowAnswered(), "fast measured");
  runs_ = 0;
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 4}, {"fast", 1}})), 1);
  EXPECT_EQ(runs_, 0);
}

TEST_F(ChoiceTest, WhoKnowsAnAnswerDoesNotWaitForWhatIsMeasured) {
  setenv("FOVEA_CHOICES", "off", 1);
  const std::string known = question_ + "Known";
  const Candidate of_known[] = {{"first", [] {}}, {"second", [] {}}};
  Fastest(known, of_known, Undisturbed());
  std::atomic<bool> told = false;
  std::jthread other;
  const auto ask_another = [&] {
    if (other.joinable()) return;
    other = std::jthread([&] {
      Fastest(known, of_known);
      told = true;
    });
    for (int i = 0; i < 10'000 && !told; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(told) << "it waits for the measurement";
  };
  const Candidate candidates[] = {{"asks", ask_another}, {"does not", [] {}}};
  Fastest(question_, candidates, Undisturbed());
  EXPECT_TRUE(other.joinable());
}

TEST_F(ChoiceTest, WhatTheRunsHoldIsNotCounted) {
  const MemoryLedger ledger;
  const auto hold = [] { EXPECT_TRUE(at::zeros({1 << 20}, at::kByte).defined()); };
  const Candidate candidates[] = {{"first", hold}, {"second", hold}};
  Fastest(question_, candidates, Undisturbed());
  EXPECT_LT(ledger.peak_bytes(), 1 << 20);
  hold();
  EXPECT_GE(ledger.peak_bytes(), 1 << 20);
}

TEST_F(ChoiceTest, TwoThatAskAtOnceMeasureOnce) {
  const auto candidates = Taking({{"slow", 4}, {"fast", 1}});
  EXPECT_EQ(Fastest(question_ + "Alone", candidates, Undisturbed()), 1);
  const int runs = std::exchange(runs_, 0);
  CachedAnswer asked;
  std::atomic<int> asks = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(Fastest(question_, candidates, Undisturbed()), 1); });
    threads.emplace_back([&] {
      const auto ask = [&] {
        ++asks;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return size_t{5};
      };
      EXPECT_EQ(asked.Answer(ask), 5);
    });
  }
  threads.clear();
  EXPECT_EQ(runs_, runs);
  EXPECT_EQ(asks, 1);
}

TEST_F(ChoiceTest, AKeptAnswerIsAskedAnewWhereAnotherIsForced) {
  CachedAnswer asked;
  int asks = 0;
  const auto answer = [&] {
    return asked.Answer([&] {
      ++asks;
      return Fastest(question_, Taking({{"slow", 4}, {"fast", 1}}));
    });
  };
  EXPECT_EQ(answer(), 1);
  {
    const ScopedChoose forced(question_ + "=slow");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(answer(), 0);
    EXPECT_EQ(asks, 2);
    const ScopedChoose wrong(question_ + "=fastest");
    EXPECT_THROW(answer(), c10::Error);
    EXPECT_THROW(answer(), c10::Error);
  }
  EXPECT_EQ(answer(), 1);
}

TEST_F(ChoiceTest, EqualsAreTheFirst) {
  // The second takes that much of the first's time, which is too little to count.
  for (const double second : {1.0, 0.98}) {
    const auto seconds = [second, turn = 0](const std::function<void()>& run) mutable {
      run();
      return turn++ % 2 == 0 ? 1.0 : second;
    };
    EXPECT_EQ(Fastest(question_ + std::to_string(second), Taking({{"first", 0}, {"second", 0}}),
                      {.seconds = seconds}),
              0)
        << second;
  }
}

}  // namespace
}  // namespace fovea::kernels
