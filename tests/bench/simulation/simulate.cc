// The scheduler in virtual time, against batching with a fixed delay: simulate [FILE.csv].
// 100 models, 10,000 requests a second, three kinds of arrivals, devices of three sizes. The same
// numbers on every machine; only how long it takes differs.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/simulation/schedulers.h"

namespace fovea::bench {
namespace {

constexpr double kLoads[] = {0.7, 1.0, 2.0};  // of the device, where every batch is full
constexpr ArrivalProcess kProcesses[] = {ArrivalProcess::kPoisson, ArrivalProcess::kBursty,
                                         ArrivalProcess::kDiurnal};

double Milliseconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-6; }

void Print(FILE* csv, const WorkloadOptions& options, ArrivalProcess process, double load,
           int threads, const std::string& scheduler, Outcome outcome, double wall_seconds) {
  const double seconds = static_cast<double>(options.duration) * 1e-9;
  const auto share = [&](int64_t count) { return 100.0 * count / outcome.arrived; };
  const double p50 = Milliseconds(outcome.Latency(0.5)), p99 = Milliseconds(outcome.Latency(0.99)),
               p999 = Milliseconds(outcome.Latency(0.999));
  std::printf(
      "%-8s %4.1f %7d  %-21s %9.0f %6.1f %6.1f %6.1f %6.1f %6.1f %8.1f %9.1f %9.1f %6.2f %5.0f\n",
      ArrivalProcessName(process).c_str(), load, threads, scheduler.c_str(),
      outcome.in_time / seconds, share(outcome.in_time), share(outcome.late),
      share(outcome.refused), share(outcome.expired), share(outcome.cancelled), p50, p99, p999,
      outcome.MeanBatch(), wall_seconds);
  std::fflush(stdout);
  if (csv == nullptr) return;
  std::fprintf(
      csv, "%s,%.1f,%d,\"%s\",%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.1f,%.3f,%.3f,%.3f,%.3f,%.4f\n",
      ArrivalProcessName(process).c_str(), load, threads, scheduler.c_str(),
      static_cast<long long>(outcome.arrived), static_cast<long long>(outcome.in_time),
      static_cast<long long>(outcome.late), static_cast<long long>(outcome.refused),
      static_cast<long long>(outcome.expired), static_cast<long long>(outcome.cancelled),
      static_cast<long long>(outcome.run_expired), outcome.in_time / seconds, p50, p99, p999,
      outcome.MeanBatch(), outcome.busy / (threads * seconds));
}

int Main(const char* csv_path) {
  FILE* csv = nullptr;
  if (csv_path != nullptr && (csv = std::fopen(csv_path, "w")) == nullptr) {
    std::perror(csv_path);
    return 1;
  }
  const WorkloadOptions options;
  if (csv != nullptr) {
    std::fprintf(csv,
                 "# %d models, %.0f requests/s for %.0f s of virtual time, seed %llu\n"
                 "arrivals,load,threads,scheduler,arrived,in_time,late,refused,expired,cancelled,"
                 "run_expired,goodput_per_s,p50_ms,p99_ms,p999_ms,mean_batch,busy\n",
                 options.models, options.requests_per_second, options.duration * 1e-9,
                 static_cast<unsigned long long>(options.seed));
  }
  std::printf("%-8s %4s %7s  %-21s %9s %6s %6s %6s %6s %6s %8s %9s %9s %6s %5s\n", "arrivals",
              "load", "threads", "scheduler", "goodput/s", "good%", "late%", "ref%", "exp%",
              "canc%", "p50 ms", "p99 ms", "p99.9 ms", "batch", "took");
  for (const ArrivalProcess process : kProcesses) {
    const Workload workload = MakeWorkload(options, process);
    for (const double load : kLoads) {
      const int threads = static_cast<int>(std::round(workload.threads_wanted / load));
      const auto run = [&](const std::string& name, auto simulate) {
        const auto start = std::chrono::steady_clock::now();
        Outcome outcome = simulate();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        Print(csv, options, process, load, threads, name, std::move(outcome), took.count());
      };
      run("fovea", [&] { return RunDispatcher(workload, threads, {}); });
      run("fovea, weights",
          [&] { return RunDispatcher(workload, threads, {.weights_by_demand = true}); });
      run("fixed delay", [&] { return RunFixedDelay(workload, threads, {}); });
      run("fixed delay, timeouts",
          [&] { return RunFixedDelay(workload, threads, {.timeouts = true}); });
    }
  }
  return csv != nullptr && std::fclose(csv) != 0 ? 1 : 0;
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) { return fovea::bench::Main(argc > 1 ? argv[1] : nullptr); }
