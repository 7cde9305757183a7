#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

std::string MeanBatch(const ModelStatistics& statistics) {
  if (statistics.batches == 0) return "-";
  return Fixed(static_cast<double>(statistics.images) / static_cast<double>(statistics.batches), 1);
}

std::string MeanOf(const DurationSum& sum) {
  return sum.count == 0 ? "-" : Milliseconds(sum.mean());
}

std::string Memory(const ModelStatistics& statistics) {
  if (statistics.memory_bytes.empty()) return "-";
  uint64_t bytes = 0;
  for (const auto& [kind, size] : statistics.memory_bytes) bytes += size;
  return Mebibytes(static_cast<double>(bytes));
}

}  // namespace

ExitCode RunStats(Client& client, const StatsOptions& options, const Console& console) {
  ModelId model;
  if (!options.model.empty()) {
    auto parsed = ParseModel(options.model);
    if (!parsed.ok()) return ReportUsage(console, std::string(parsed.status().message()));
    model = *std::move(parsed);
  }
  const auto statistics = client.Statistics(model, options.call);
  if (!statistics.ok()) {
    return Report(console, WhyNotReady(client, model, statistics.status(), options.call));
  }
  if (options.json) {
    console.out << StatisticsJson(*statistics) << '\n';
    return kOk;
  }
  if (statistics->empty()) {
    console.out << "No model is loaded.\n";
    return kOk;
  }
  using Align = Table::Align;
  Table table({{"NAME"},
               {"VERSION", Align::kRight},
               {"REQUESTS", Align::kRight},
               {"FAILED", Align::kRight},
               {"IMAGES", Align::kRight},
               {"BATCHES", Align::kRight},
               {"IMAGES/BATCH", Align::kRight},
               {"QUEUE ms", Align::kRight},
               {"COMPUTE ms", Align::kRight},
               {"TOTAL ms", Align::kRight},
               {"MEMORY MiB", Align::kRight},
               {"LAST REQUEST"}});
  for (const ModelStatistics& row : *statistics) {
    table.AddRow({row.name, row.version, absl::StrCat(row.success.count),
                  absl::StrCat(row.fail.count), absl::StrCat(row.images), absl::StrCat(row.batches),
                  MeanBatch(row), MeanOf(row.queue), MeanOf(row.compute_infer), MeanOf(row.success),
                  Memory(row), Ago(absl::Now() - row.last_inference)});
  }
  table.Print(console.out, console.colour);
  console.out
      << "\nSince each version was loaded; times are means of the requests that succeeded.\n";
  return kOk;
}

}  // namespace fovea::client
