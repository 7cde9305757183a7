#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/quantize/quantize.h"

namespace fovea {
namespace {

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

int64_t ByScales(const QuantizeReport& report) {
  return std::ranges::count_if(
      report.layers, [](const models::CalibratedLayer& layer) { return layer.scales.defined(); });
}

std::string SpeedText(const Speeds& speeds, int batch) {
  return absl::StrFormat("  batch %d: %.1f images/s in fp32, %.1f in int8, %.2f times\n", batch,
                         speeds.fp32, speeds.other, speeds.other / speeds.fp32);
}

}  // namespace

std::string ReportText(const QuantizeReport& report) {
  const ClassAgreement& found = report.agreement;
  std::string text = absl::StrFormat(
      "%s: %s in 8 bits\n%d of %d linear layers by channel, calibrated with %d pictures; the "
      "others "
      "by token\nweights: %.1f MB in fp32, %.1f MB in int8\n",
      report.out.string(), report.model, ByScales(report), report.layers.size(),
      report.calibrated_with, static_cast<double>(report.weight_bytes_fp32) / 1e6,
      static_cast<double>(report.weight_bytes) / 1e6);
  absl::StrAppendFormat(&text, "against fp32 on %d pictures%s:\n", found.pictures,
                        report.measured_on_its_own ? ", with which it was calibrated"
                        : found.labelled > 0       ? " of the data set"
                                                   : ", with which it was not calibrated");
  absl::StrAppendFormat(&text, "  the same class: %.2f%% (%d)\n",
                        100 * Share(found.same_class, found.pictures), found.same_class);
  absl::StrAppendFormat(&text, "  KL of the probabilities: %.2g nats\n", found.divergence);
  if (found.labelled > 0) {
    absl::StrAppendFormat(&text, "  accuracy: %.2f%% in fp32, %.2f%% in int8\n",
                          100 * Share(found.right_in_fp32, found.labelled),
                          100 * Share(found.right, found.labelled));
  }
  return text + "speed on this machine:\n" + SpeedText(report.at_batch_1, 1) +
         SpeedText(report.at_batch_8, 8);
}

std::string ReportJson(const QuantizeReport& report) {
  const ClassAgreement& found = report.agreement;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const models::CalibratedLayer& layer : report.layers) {
    layers.push_back({{"name", layer.name},
                      {"scales", layer.scales.defined() ? "channel" : "token"},
                      {"error_by_channel", layer.by_scales},
                      {"error_by_token", layer.by_row}});
  }
  const auto speed = [](const Speeds& speeds) {
    return nlohmann::ordered_json{{"fp32", speeds.fp32}, {"int8", speeds.other}};
  };
  nlohmann::ordered_json json = {
      {"model", report.model},
      {"out", report.out.string()},
      {"calibration_pictures", report.calibrated_with},
      {"pictures", found.pictures},
      {"measured_on_calibration_pictures", report.measured_on_its_own},
      {"agreement", Share(found.same_class, found.pictures)},
      {"kl_nats", found.divergence},
      {"weight_bytes", {{"fp32", report.weight_bytes_fp32}, {"int8", report.weight_bytes}}},
      {"images_per_second",
       {{"batch_1", speed(report.at_batch_1)}, {"batch_8", speed(report.at_batch_8)}}}};
  if (found.labelled > 0) {
    json["accuracy"] = {{"fp32", Share(found.right_in_fp32, found.labelled)},
                        {"int8", Share(found.right, found.labelled)}};
  }
  json["layers"] = layers;
  return json.dump(2) + "\n";
}

}  // namespace fovea
