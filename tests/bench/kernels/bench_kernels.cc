// Measures the CPU kernels against what they replace, prints a table, and exits 1 where a floor of
// tests/bench/targets.csv is missed.
//
//   bench_kernels [--benchmark_filter=REGEX] [other Google Benchmark flags]
//
// Competitors take turns inside each iteration, and a ratio is the median of the turns' ratios: a
// machine that slows down for a while slows both.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/knn_attention/op.h"
#include "kernels/simd/bf16_gemm.h"
#include "kernels/simd/isa.h"
#include "tests/bench/kernels/floors.h"

namespace fovea::bench {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kHeads = 3;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <class F>
double Milliseconds(F&& run) {
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// What the paper's code does: a mask scattered from topk, in the input's type.
at::Tensor PublishedKnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        int64_t topk) {
  const at::Tensor logits =
      at::matmul(q, k.transpose(-2, -1)) * (1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const at::Tensor index = std::get<1>(at::topk(logits, topk, -1));
  const at::Tensor mask = at::zeros_like(logits).scatter_(-1, index, 1.0);
  const at::Tensor kept = at::where(
      mask.gt(0), logits, at::full_like(logits, -std::numeric_limits<double>::infinity()));
  return at::matmul(at::softmax(kept, -1), v);
}

struct Case {
  int64_t tokens;
  int64_t dim;
  at::ScalarType type;
  int threads;
};

struct Result {
  Case measured;
  double ours_ms, every_key_ms, dense_ms, published_ms;
  double to_dense, over_published;
};

std::vector<Result>& Results() {
  static std::vector<Result> results;
  return results;
}

void KnnAttention(benchmark::State& state, Case c) {
  const c10::InferenceMode inference;
  at::set_num_threads(c.threads);
  // Views of one QKV tensor, as in a model.
  const at::Tensor qkv = at::randn({kBatch, c.tokens, 3, kHeads, c.dim}).to(c.type);
  const std::vector<at::Tensor> parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor &q = parts[0], &k = parts[1], &v = parts[2];
  const int64_t topk = c.tokens / 2;
  const auto ours = [&] { return kernels::KnnAttention(q, k, v, topk); };
  // Dense attention by the same kernel; MakeDenseCore chooses between the two.
  const auto every_key = [&] { return kernels::KnnAttention(q, k, v, /*topk=*/c.tokens); };
  const auto dense = [&] { return at::scaled_dot_product_attention(q, k, v); };
  const auto published = [&] { return PublishedKnn(q, k, v, topk); };

  benchmark::DoNotOptimize(ours());
  benchmark::DoNotOptimize(dense());
  std::vector<double> ours_ms, every_key_ms, dense_ms, to_dense, published_ms, over_published;
  // The published form is slow: it takes part in one turn of ten.
  for (auto _ : state) {
    if (ours_ms.size() % 10 == 0) {
      published_ms.push_back(Milliseconds(published));
      over_published.push_back(published_ms.back() / Milliseconds(ours));
    }
    dense_ms.push_back(Milliseconds(dense));
    ours_ms.push_back(Milliseconds(ours));
    every_key_ms.push_back(Milliseconds(every_key));
    to_dense.push_back(ours_ms.back() / dense_ms.back());
    state.SetIterationTime(ours_ms.back() / 1e3);
  }
  Results().push_back({c, Median(ours_ms), Median(every_key_ms), Median(dense_ms),
                       Median(published_ms), Median(to_dense), Median(over_published)});
}

void RegisterKnnAttention() {
  for (const int threads : {2, 1}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t tokens : {197, 784}) {
        for (const int64_t dim : {32, 64}) {
          const std::string name = "knn_attention/" + std::string(c10::toString(type)) + "/N" +
                                   std::to_string(tokens) + "/d" + std::to_string(dim) +
                                   "/threads" + std::to_string(threads);
          const Case c{tokens, dim, type, threads};
          benchmark::RegisterBenchmark(name.c_str(),
                                       [c](benchmark::State& s) { KnnAttention(s, c); })
              ->Iterations(tokens < 500 ? 101 : 31)
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

std::string Processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "unknown processor";
}

// Whether `measured` meets the floor `id`; `verdict` says so in words.
bool Judge(const std::unordered_map<std::string, Floor>& floors, const std::string& id,
           double measured, std::string& verdict) {
  const Floor& floor = floors.at(id);
  char text[64];
  std::snprintf(text, sizeof(text), "%6.2f (%s %g) %-3s", measured,
                floor.at_least ? ">=" : "<=", floor.bound, floor.MetBy(measured) ? "met" : "NO");
  verdict = text;
  return floor.MetBy(measured);
}

bool PrintTable(const std::unordered_map<std::string, Floor>& floors) {
  std::printf(
      "\n%s; %s%s; torch %s; k-NN attention, k = N/2, batch %ld, %ld heads; ms, medians\n"
      "k = N: every key, which makes it dense; dense: torch's SDPA\n",
      Processor().c_str(), std::string(kernels::simd::IsaName(kernels::simd::BestIsa())).c_str(),
      kernels::simd::HasBf16Gemm() ? " with bf16 products" : "", TORCH_VERSION, kBatch, kHeads);
  std::printf("%7s %-8s %5s %3s %9s %9s %9s %10s  %-22s %-22s\n", "threads", "type", "N", "d",
              "ours", "k = N", "dense", "published", "ours / dense", "published / ours");
  bool all_met = true;
  for (const Result& r : Results()) {
    const std::string tokens = std::to_string(r.measured.tokens);
    std::string to_dense, over_published;
    all_met &= Judge(floors, "knn_to_dense_" + tokens, r.to_dense, to_dense);
    all_met &= Judge(floors, "knn_over_published_" + tokens, r.over_published, over_published);
    std::printf("%7d %-8s %5ld %3ld %9.3f %9.3f %9.3f %10.2f  %-22s %-22s\n", r.measured.threads,
                c10::toString(r.measured.type), r.measured.tokens, r.measured.dim, r.ours_ms,
                r.every_key_ms, r.dense_ms, r.published_ms, to_dense.c_str(),
                over_published.c_str());
  }
  return all_met;
}

// Google Benchmark's own lines would repeat the table's.
class Progress : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) std::fprintf(stderr, "measured %s\n", run.benchmark_name().c_str());
  }
};

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto floors = fovea::bench::ReadFloors(FOVEA_FLOORS);
  fovea::bench::RegisterKnnAttention();
  fovea::bench::Progress progress;
  if (benchmark::RunSpecifiedBenchmarks(&progress) == 0) {
    std::fprintf(stderr, "the filter matches no benchmark\n");
    return 2;
  }
  return fovea::bench::PrintTable(floors) ? 0 : 1;
}
