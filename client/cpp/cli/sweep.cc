#include <string>
#include <utility>

#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/progress_line.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/sweep_json.h"
#include "client/cpp/cli/sweep_plots.h"
#include "client/cpp/cli/sweep_text.h"
#include "client/cpp/cli/variants.h"

namespace fovea::client {
namespace {

// Those of the files that were asked for.
absl::Status WriteFiles(const Sweep& sweep, const SweepOptions& options,
                        const std::string& command) {
  if (!options.report.empty()) {
    const absl::Status written = WriteFile(options.report, SweepReport(sweep, command));
    if (!written.ok()) return written;
  }
  if (options.png.empty()) return absl::OkStatus();
  const auto picture = SweepPicture(sweep);
  if (!picture.ok()) return picture.status();
  return WriteFile(options.png, *picture);
}

}  // namespace

ExitCode RunSweep(Client& client, const SweepOptions& options, const Console& console) {
  auto variants = VariantsOf(options.models, options.attentions, /*own_before_one=*/false);
  if (!variants.ok()) return ReportUsage(console, std::string(variants.status().message()));
  SweepRequest request{.variants = *std::move(variants),
                       .over = options.over,
                       .values = options.values,
                       .rounds = options.rounds,
                       .max_time = options.max_time,
                       .batch_size = options.batch_size,
                       .threads = options.threads};
  const Interruption interruption([&] { client.Stop(); });
  if (!options.image.empty()) {
    auto image = ReadFile(options.image, interruption.descriptor());
    if (!image.ok()) return Report(console, image.status(), options.image);
    request.image = *std::move(image);
  }
  const auto sweep = [&] {
    ProgressLine line(console);
    return client.Sweep(request, line.writer(), options.call);
  }();
  if (!sweep.ok()) {
    if (interruption.happened()) return kInterrupted;
    return Report(console, WhyNotReady(client, request.variants, sweep.status(), options.call));
  }
  if (const absl::Status written = WriteFiles(*sweep, options, console.command); !written.ok()) {
    return Report(console, written);
  }
  if (options.json) {
    console.out << SweepJson(*sweep, console.command) << '\n';
  } else if (options.csv) {
    console.out << SweepCsv(*sweep, console.command);
  } else {
    PrintSweep(*sweep, console.out, console.colour);
  }
  return HasPoints(*sweep) ? kOk : kRequestFailed;
}

}  // namespace fovea::client
