// What is measured, remembered and forced.
#include "kernels/choice/choice.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fovea::kernels {
namespace {

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
  static Asking Undisturbed() {
    return {.waited = [] { return 0.0; }};
  }

  std::string HowAnswered() const {
    for (const Answered& answered : Answers()) {
      if (answered.question == question_) return answered.answer + " " + answered.how;
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
  const Asking disturbed = {.waited = [&] { return waited += 10; }};
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
  const Asking once = {.waited = [&] { return asked++ == 0 ? 0.0 : 10.0; }};
  EXPECT_EQ(Fastest(question_, Taking({{"slow", 2}, {"fast", 1}}), once), 1);
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
  text.replace(text.find(line), line.size(), line + ",\"anothers\": \"slow\",\"broken\": 3");
  std::ofstream(file_) << text;
  const auto how = [](const std::string& question) {
    for (const Answered& known : KnownAnswers()) {
      if (known.question == question) return known.answer + " " + known.how;
    }
    return std::string("not known");
  };
  EXPECT_EQ(how(question_), "fast measured");
  EXPECT_EQ(how("anothers"), "slow remembered");
  EXPECT_EQ(how("broken"), "not known");
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
  setenv("FOVEA_CHOOSE", ("other=x," + question_ + "=slow").c_str(), 1);
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

TEST_F(ChoiceTest, OneAloneIsNotMeasured) {
  EXPECT_EQ(Fastest(question_, Taking({{"only", 1}})), 0);
  EXPECT_EQ(HowAnswered(), "only alone");
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
  // Where time goes backwards.
  const auto seconds = [](const std::function<void()>& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return 1.0 / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_EQ(Fastest(question_, candidates, {.device = "another", .seconds = seconds}), 0);
  EXPECT_EQ(Fastest(question_, candidates), 1);
}

TEST_F(ChoiceTest, EqualsAreTheFirst) {
  EXPECT_EQ(Fastest(question_, Taking({{"first", 8}, {"second", 8}})), 0);
}

}  // namespace
}  // namespace fovea::kernels
