#include "model_zoo/tools/profile_rows.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace fovea::models {
namespace {

void PrintProfileJson(const ProfiledModel& model, const PassProfile& profile) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const PassProfile::Part& part : profile.parts) {
    parts[std::string(part.name)] = part.time.count();
  }
  std::cout << nlohmann::ordered_json{{"model", model.backbone},
                                      {"attention", model.attention},
                                      {"precision", model.precision},
                                      {"batch", model.batch},
                                      {"threads", profile.threads},
                                      {"pass_ms", profile.unwatched.count()},
                                      {"one_thread_ms", profile.by_one_thread.count()},
                                      {"parallel_efficiency", profile.ParallelEfficiency()},
                                      {"watched_ms", profile.pass.count()},
                                      {"parts_ms", parts}}
                   .dump()
            << '\n';
}

}  // namespace

void PrintProfile(const ProfiledModel& model, const PassProfile& profile, bool json) {
  if (json) return PrintProfileJson(model, profile);
  std::printf(
      "%s with %s in %s, batch %lld: %.2f ms on %d threads, %.2f ms on one (parallel "
      "efficiency %.0f%%)\n\n",
      model.backbone.c_str(), model.attention.c_str(), model.precision.c_str(),
      static_cast<long long>(model.batch), profile.unwatched.count(), profile.threads,
      profile.by_one_thread.count(), 100 * profile.ParallelEfficiency());
  std::printf("| operators | ms | share |\n|---|---|---|\n");
  for (const PassProfile::Part& part : profile.parts) {
    std::printf("| %.*s | %.3f | %.1f%% |\n", static_cast<int>(part.name.size()), part.name.data(),
                part.time.count(), 100 * part.time / profile.pass);
  }
  std::printf("\n");
}

}  // namespace fovea::models
