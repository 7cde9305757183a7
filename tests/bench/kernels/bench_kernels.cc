// Measures the CPU kernels against what they replace, prints a table, and exits 1 where a floor of
// tests/bench/targets.csv is missed.
//
//   bench_kernels [--csv=FILE] [--scaling=FILE] [--benchmark_filter=REGEX] [other Google Benchmark
//   flags]
//
// Competitors take turns inside each iteration, and a ratio is the median of the turns' ratios: a
// machine that slows down for a while slows both.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/bench/kernels/contest.h"
#include "tests/bench/kernels/floors.h"
#include "tests/bench/kernels/scaling.h"
#include "tests/bench/kernels/stopwatch.h"

namespace fovea::bench {
namespace {

struct Result {
  Contest contest;
  double ours_ms, peer_ms;
  double ratio;  // as the floor has it: the peer's time over ours, or ours over the peer's
  double ours_mib, peer_mib;
  // Where the peer is made of SDPA: with our dense attention, and the ratio to the faster of both.
  std::optional<double> dense_ms, best_dense_ratio;
};

std::vector<Result>& Results() {
  static std::vector<Result> results;
  return results;
}

// Bytes that one call holds at its peak, its output included.
double PeakMib(const std::function<at::Tensor()>& run) {
  const kernels::MemoryLedger ledger;
  benchmark::DoNotOptimize(run());
  return static_cast<double>(ledger.peak_bytes()) / (1 << 20);
}

void Run(benchmark::State& state, const Contest& contest, const Floor& floor) {
  const c10::InferenceMode inference;
  at::manual_seed(1);
  at::set_num_threads(contest.threads);
  const Contest::Sides sides = contest.set_up();
  benchmark::DoNotOptimize(sides.ours());
  benchmark::DoNotOptimize(sides.peer());
  if (sides.dense) benchmark::DoNotOptimize(sides.dense());
  std::vector<double> ours, peer, dense;
  for (auto _ : state) {
    peer.push_back(Milliseconds(sides.peer));
    if (sides.dense) dense.push_back(Milliseconds(sides.dense));
    ours.push_back(Milliseconds(sides.ours));
    state.SetIterationTime(ours.back() / 1e3);
  }
  const auto ratio_to = [&](const std::vector<double>& other) {
    std::vector<double> ratios;
    for (size_t turn = 0; turn < ours.size(); ++turn) {
      ratios.push_back(floor.at_least ? other[turn] / ours[turn] : ours[turn] / other[turn]);
    }
    return Median(ratios);
  };
  Result result{contest,        Median(ours),        Median(peer),
                ratio_to(peer), PeakMib(sides.ours), PeakMib(sides.peer)};
  if (sides.dense) {
    result.dense_ms = Median(dense);
    result.best_dense_ratio = ratio_to(*result.dense_ms < result.peer_ms ? dense : peer);
  }
  Results().push_back(std::move(result));
}

// A benchmark for each contest; returns how many.
size_t Register(const Floors& floors) {
  size_t registered = 0;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const auto& family : {KnnContests, ModelContests, WindowContests, StaticKeyContests,
                             KeyOnlyContests, ConvolutionContests}) {
    for (const Contest& contest : family(cores)) {
      const Floor floor = floors.at(contest.floor);
      ++registered;
      const std::string name = contest.floor + "/" + c10::toString(contest.type) + "/" +
                               contest.shape + "/threads" + std::to_string(contest.threads);
      benchmark::RegisterBenchmark(
          name.c_str(), [contest, floor](benchmark::State& state) { Run(state, contest, floor); })
          ->Iterations(contest.turns)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  return registered;
}

std::string Machine() {
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%F", std::gmtime(&now));
  return kernels::simd::ProcessorName() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         std::string(kernels::simd::IsaName(kernels::simd::BestIsa())) +
         (kernels::simd::HasBf16Gemm() ? " with bf16 products" : "") +
         ", torch " TORCH_VERSION ", " + date;
}

std::string Printed(std::optional<double> value, const char* format, const char* none) {
  if (!value) return none;
  char text[32];
  std::snprintf(text, sizeof(text), format, *value);
  return text;
}

// Of a contest with a dense peer, against the faster of SDPA and our dense attention.
std::string BestDenseRow(const Result& result) { return result.contest.floor + "_best_dense"; }

bool Met(const Result& r, const Floors& floors) {
  return floors.at(r.contest.floor).MetBy(r.ratio) &&
         (!r.best_dense_ratio || floors.at(BestDenseRow(r)).MetBy(*r.best_dense_ratio));
}

// "1.21 <= 1.5"
std::string BestDenseText(const Result& r, const Floors& floors) {
  if (!r.best_dense_ratio) return "-";
  const Floor& floor = floors.at(BestDenseRow(r));
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %s %g", *r.best_dense_ratio,
                floor.at_least ? ">=" : "<=", floor.bound);
  return text;
}

bool PrintTable(const Floors& floors) {
  std::printf(
      "\n%s\nms are medians; MiB is what one call holds at its peak, output included\n"
      "dense ms: the peer with dense_attention in SDPA's place; to best: against the faster one, "
      "and its floor\n",
      Machine().c_str());
  std::printf("%-26s %-37s %-24s %-8s %2s %9s %9s %9s %8s %8s  %-8s %-8s %-12s %-6s %s\n", "ours",
              "peer", "shape", "type", "th", "ours ms", "peer ms", "dense ms", "MiB", "peer MiB",
              "ratio", "solid", "to best", "met", "moonshot");
  bool all_met = true;
  for (const Result& r : Results()) {
    const Floor& floor = floors.at(r.contest.floor);
    all_met &= Met(r, floors);
    const char* sense = floor.at_least ? ">=" : "<=";
    std::printf(
        "%-26s %-37s %-24s %-8s %2d %9.3f %9.3f %9s %8.1f %8.1f  %-8.2f %s %-5g %-12s %-6s %s "
        "%g%s\n",
        r.contest.ours.c_str(), r.contest.peer.c_str(), r.contest.shape.c_str(),
        c10::toString(r.contest.type), r.contest.threads, r.ours_ms, r.peer_ms,
        Printed(r.dense_ms, "%.3f", "-").c_str(), r.ours_mib, r.peer_mib, r.ratio, sense,
        floor.bound, BestDenseText(r, floors).c_str(), Met(r, floors) ? "met" : "MISSED", sense,
        floor.moonshot, floor.MoonshotMetBy(r.ratio) ? " met" : "");
  }
  return all_met;
}

void WriteCsv(const std::string& path, const Floors& floors) {
  std::ofstream file(path);
  file << "# " << Machine()
       << "\nfloor,ours,peer,shape,type,threads,ours_ms,peer_ms,dense_ms,ours_peak_mib,"
          "peer_peak_mib,ratio,best_dense_ratio,sense,solid,moonshot,met\n";
  for (const Result& r : Results()) {
    const Floor& floor = floors.at(r.contest.floor);
    file << r.contest.floor << ",\"" << r.contest.ours << "\",\"" << r.contest.peer << "\","
         << r.contest.shape << ',' << c10::toString(r.contest.type) << ',' << r.contest.threads
         << ',' << r.ours_ms << ',' << r.peer_ms << ',' << Printed(r.dense_ms, "%g", "") << ','
         << r.ours_mib << ',' << r.peer_mib << ',' << r.ratio << ','
         << Printed(r.best_dense_ratio, "%g", "") << ',' << (floor.at_least ? ">=" : "<=") << ','
         << floor.bound << ',' << floor.moonshot << ',' << (Met(r, floors) ? "yes" : "no") << '\n';
  }
}

// Whether every row was measured; names those that were not.
bool AllMeasured(std::set<std::string> measured, const Floors& floors) {
  for (const Result& r : Results()) {
    measured.insert(r.contest.floor);
    if (r.best_dense_ratio) measured.insert(BestDenseRow(r));
  }
  const std::vector<std::string> unmeasured = floors.Unmeasured(measured);
  for (const std::string& row : unmeasured) {
    std::fprintf(stderr, "nothing was measured for the row %s of targets.csv\n", row.c_str());
  }
  return unmeasured.empty();
}

// Google Benchmark's own lines would repeat the table's.
class Progress : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) std::fprintf(stderr, "measured %s\n", run.benchmark_name().c_str());
  }
};

// Takes --NAME=VALUE out of the arguments.
std::string TakeFlag(int& argc, char** argv, const std::string& name) {
  const std::string prefix = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], prefix.c_str(), prefix.size()) != 0) continue;
    const std::string value = argv[i] + prefix.size();
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    return value;
  }
  return "";
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) {
  using namespace fovea::bench;
  const std::string csv = TakeFlag(argc, argv, "csv");
  const std::string scaling = TakeFlag(argc, argv, "scaling");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::ifstream targets(FOVEA_FLOORS);
  if (!targets) {
    std::fprintf(stderr, "cannot read %s\n", FOVEA_FLOORS);
    return 2;
  }
  const Floors floors(targets, "bench-kernels");
  const size_t registered = Register(floors);
  Progress progress;
  const size_t run = benchmark::RunSpecifiedBenchmarks(&progress);
  if (run == 0) {
    std::fprintf(stderr, "the filter matches no benchmark\n");
    return 2;
  }
  bool met = PrintTable(floors);
  if (!csv.empty()) WriteCsv(csv, floors);
  if (!scaling.empty()) {
    const ScalingResult against_tokens = MeasureScaling(scaling, Machine(), floors);
    met &= against_tokens.met;
    // With a filter some are not to be measured.
    if (run == registered) met &= AllMeasured(against_tokens.measured, floors);
  }
  return met ? 0 : 1;
}
