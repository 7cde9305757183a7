// fovea-quantize MODEL --calibrate FOLDER: `fovea quantize` runs it, a program of its own, so that
// the command line does not have to load LibTorch.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "base/command_line.h"
#include "base/lost_output.h"
#include "server/core/version.h"
#include "server/observe/logging.h"
#include "server/quantize/quantize.h"

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-quantize");
  constexpr int kOk = 0, kFailed = 1, kUsage = 2;
  fovea::QuantizeOptions options;
  bool json = false;
  CLI::App app(
      "Writes a classifier's folder in 8 bits (INT8), calibrated on pictures of yours, and says "
      "what that changes; no server asked",
      "fovea quantize");
  app.set_version_flag("--version", std::string("fovea-quantize ") + fovea::kVersion);
  app.add_option("MODEL", options.model, "The model's folder")->required()->type_name("");
  app.add_option("--calibrate", options.calibration,
                 "A folder of pictures as the model will see; those below it count")
      ->required()
      ->type_name("FOLDER");
  app.add_option("--dataset", options.dataset,
                 "Measure on these: a folder of pictures for each class, called as in labels.txt. "
                 "Without, on a quarter of the calibration's pictures, which is kept back")
      ->type_name("FOLDER");
  app.add_option("--out", options.out, "The folder to write (MODEL_int8)")->type_name("FOLDER");
  app.add_option("--pictures", options.most_pictures, "Of each folder at most, spread evenly")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--json", json, "Print JSON instead of text");
  app.footer(
      "Examples:\n"
      "  fovea quantize models/cats --calibrate pictures\n"
      "  fovea quantize models/cats --calibrate pictures --dataset val --out models/cats_small\n"
      "Exit codes: 0 written, 1 not, 2 usage.\n");
  app.failure_message(fovea::RefusalMessage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  const auto fail = [](const absl::Status& status) {
    std::cerr << "fovea-quantize: " << std::string(status.message()) << "\n";
    return kFailed;
  };
  if (const absl::Status logging = fovea::SetUpLogging("error", "text"); !logging.ok()) {
    return fail(logging);
  }
  const auto report = fovea::Quantize(options);
  if (!report.ok()) return fail(report.status());
  std::cout << (json ? fovea::ReportJson(*report) : fovea::ReportText(*report));
  return kOk;
}
