#include "server/observe/triton_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "server/observe/metrics.h"
#include "tests/server/observe/exposition.h"

namespace fovea {
namespace {

using ::testing::DoubleEq;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr ImageSize kSize = {64, 64};

ModelView View() {
  ModelView view;
  view.name = "cats";
  view.version = "3";
  view.attention = "dense";
  view.device = "CPU";
  view.sizes = {kSize};
  return view;
}

StageTimes Spent(Nanos each) {
  StageTimes times(0);
  for (int stage = 0; stage < kStageCount; ++stage) {
    times.EndStage(static_cast<Stage>(stage), (stage + 1) * each);
  }
  return times;
}

class TritonMetricsTest : public ::testing::Test {
 protected:
  Exposition Scrape() const { return Exposition(metrics_.Text()); }

  Metrics metrics_{{.triton = true, .nvml = FOVEA_FAKE_NVML}};
};

TEST_F(TritonMetricsTest, RequestsAndTheirTimesHaveTritonsNamesLabelsAndUnits) {
  const auto meter = metrics_.Meter(View());
  for (int i = 0; i < 2; ++i) {
    meter->OnAnswered(Protocol::kGrpc, absl::StatusCode::kOk, Spent(10 * kMicrosecond));
  }
  meter->OnAnswered(Protocol::kHttp, absl::StatusCode::kInternal, Spent(kSecond));
  meter->OnBatch({.images = 5, .size = kSize});
  meter->OnQueueDepth(7);
  const Exposition text = Scrape();
  const std::map<std::string, double> expected = {
      {"nv_inference_request_success", 2},
      {"nv_inference_count", 5},
      {"nv_inference_exec_count", 1},
      {"nv_inference_request_duration_us", 2 * 70},
      {"nv_inference_queue_duration_us", 2 * 10},
      {"nv_inference_compute_input_duration_us", 2 * 30},
      {"nv_inference_compute_infer_duration_us", 2 * 10},
      {"nv_inference_compute_output_duration_us", 2 * 20},
      {"nv_inference_pending_request_count", 7}};
  for (const auto& [name, value] : expected) {
    const std::vector<Sample> samples = text.Find(name);
    ASSERT_THAT(samples, SizeIs(1)) << name;
    EXPECT_EQ(samples[0].labels,
              (std::map<std::string, std::string>{{"model", "cats"}, {"version", "3"}}));
    EXPECT_EQ(samples[0].value, value) << name;
    EXPECT_EQ(text.type(name), name.ends_with("pending_request_count") ? "gauge" : "counter");
  }
}

TEST_F(TritonMetricsTest, FailuresHaveTritonsReasons) {
  const auto meter = metrics_.Meter(View());
  for (int code = 1; code < 17; ++code) {
    meter->OnAnswered(Protocol::kGrpc, static_cast<absl::StatusCode>(code), Spent(1));
  }
  const Exposition text = Scrape();
  const auto failed = [&](const char* reason) {
    return text.Sum("nv_inference_request_failure", {{"reason", reason}});
  };
  EXPECT_THAT(text.Find("nv_inference_request_failure"), SizeIs(4));
  EXPECT_EQ(failed("REJECTED"), 2) << "DEADLINE_EXCEEDED, UNAVAILABLE";
  EXPECT_EQ(failed("CANCELED"), 1);
  EXPECT_EQ(failed("BACKEND"), 1) << "INTERNAL";
  EXPECT_EQ(failed("OTHER"), 12);
}

TEST_F(TritonMetricsTest, AReloadGoesOnCounting) {
  auto old = metrics_.Meter(View());
  old->OnAnswered(Protocol::kGrpc, absl::StatusCode::kCancelled, Spent(1));
  ModelView changed = View();
  changed.attention = "knn:k=0.5";
  const auto fresh = metrics_.Meter(changed);
  old.reset();
  EXPECT_EQ(Scrape().Sum("nv_inference_request_failure", {{"reason", "CANCELED"}}), 1);
}

TEST_F(TritonMetricsTest, TheMachineIsDescribed) {
  const Exposition text = Scrape();
  EXPECT_GE(text.Sum("nv_cpu_utilization"), 0);
  EXPECT_LE(text.Sum("nv_cpu_utilization"), 1);
  EXPECT_GT(text.Sum("nv_cpu_memory_used_bytes"), 1 << 20);
  EXPECT_GT(text.Sum("nv_cpu_memory_total_bytes"), text.Sum("nv_cpu_memory_used_bytes"));
}

// The library of tests/server/observe/fake_nvml.c: two GPUs, of which the second tells its memory
// and nothing else.
TEST_F(TritonMetricsTest, GpusAreToldAsPerfAnalyzerReadsThem) {
  const std::string text = metrics_.Text();
  for (const char* line : {R"(nv_gpu_utilization\{gpu_uuid="GPU-first"\} (\d+\.?\d*))",
                           R"(nv_gpu_power_usage\{gpu_uuid="GPU-first"\} (\d+\.?\d*))",
                           R"(nv_gpu_memory_used_bytes\{gpu_uuid="GPU-first"\} (\d+\.?\d*))",
                           R"(nv_gpu_memory_total_bytes\{gpu_uuid="GPU-first"\} (\d+\.?\d*))"}) {
    EXPECT_TRUE(std::regex_search(text, std::regex(std::string("\n") + line + "\n"))) << line;
  }
  const Exposition told(text);
  const std::map<std::string, std::string> first = {{"gpu_uuid", "GPU-first"}};
  EXPECT_EQ(told.Sum("nv_gpu_memory_total_bytes", first), 80e9);
  EXPECT_EQ(told.Sum("nv_gpu_memory_used_bytes", first), 3e9);
  EXPECT_EQ(told.Sum("nv_gpu_utilization", first), 0.42);
  EXPECT_EQ(told.Sum("nv_gpu_power_usage", first), 150.5);
  EXPECT_EQ(told.Sum("nv_gpu_power_limit", first), 700);
  // A joule more at each reading, two of which came before.
  EXPECT_EQ(told.Sum("nv_energy_consumption", first) + 1,
            Scrape().Sum("nv_energy_consumption", first));
  EXPECT_THAT(told.Find("nv_gpu_memory_total_bytes"), SizeIs(2));
  EXPECT_THAT(told.Find("nv_gpu_power_usage"), SizeIs(1));
  EXPECT_EQ(told.Sum("fovea_gpu_memory_bytes", {{"gpu", "GPU-second"}, {"kind", "used"}}), 1e9);
  EXPECT_EQ(told.Sum("fovea_gpu_utilization_ratio"), 0.42);
}

TEST(TritonMetricsOffTest, WithoutTheFlagThereAreNoneOfThem) {
  Metrics metrics({.nvml = "no such library"});
  const auto meter = metrics.Meter(View());
  const Exposition text(metrics.Text());
  for (const Sample& sample : text.samples()) EXPECT_FALSE(sample.name.starts_with("nv_"));
  EXPECT_THAT(text.Find("fovea_gpu_memory_bytes"), IsEmpty());
}

TEST(GpuSamplerTest, AMachineWithoutTheDriverHasNone) {
  EXPECT_EQ(GpuSampler::Open("libfovea_no_such_library.so.1"), nullptr);
  EXPECT_EQ(GpuSampler::Open("libc.so.6"), nullptr) << "a library without its functions";
}

class HostSamplerTest : public ::testing::Test {
 protected:
  HostSamplerTest() { std::filesystem::create_directories(folder_); }
  ~HostSamplerTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& file, const std::string& text) {
    std::ofstream(folder_ + "/" + file) << text;
  }

  const std::string folder_ = ::testing::TempDir() + "/fovea_proc_" + std::to_string(getpid());
};

TEST_F(HostSamplerTest, TellsTheShareOfTheTimeSinceTheLastReading) {
  Write("stat", "cpu  100 0 0 900 0 0 0 0 0 0\n");
  HostSampler host(folder_);
  Write("stat", "cpu  150 10 20 1000 10 5 3 2 50 50\n");
  EXPECT_THAT(host.CpuUtilization(), Optional(DoubleEq(90.0 / 200)));
  Write("stat", "cpu  154 10 20 1004 10 5 3 2 50 50\n");
  EXPECT_THAT(host.CpuUtilization(), Optional(DoubleEq(90.0 / 200))) << "too short a time";
  Write("stat", "cpu  200 10 20 1000 10 5 3 2 50 50\n");
  EXPECT_THAT(host.CpuUtilization(), Optional(DoubleEq(1)));
}

TEST_F(HostSamplerTest, TellsWhatNewProgramsCannotHave) {
  Write("meminfo", "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  400 kB\nBuffers: 1 kB\n");
  const HostSampler host(folder_);
  const auto memory = host.ReadMemory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->total_bytes, 1000 << 10);
  EXPECT_EQ(memory->used_bytes, 600 << 10);
}

TEST_F(HostSamplerTest, TellsNothingWhereNothingCanBeRead) {
  HostSampler host(folder_);
  EXPECT_EQ(host.CpuUtilization(), std::nullopt);
  EXPECT_EQ(host.ReadMemory(), std::nullopt);
  EXPECT_THAT(TritonHostFamilies(host), IsEmpty());
}

}  // namespace
}  // namespace fovea
