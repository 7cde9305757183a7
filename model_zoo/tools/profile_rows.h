// What `fovea zoo --profile` prints of a model.
#pragma once

#include <cstdint>
#include <string>

#include "model_zoo/measures/pass_profile.h"

namespace fovea::models {

struct ProfiledModel {
  std::string backbone;
  std::string attention;
  std::string precision;
  int64_t batch = 1;
};

// To standard output: a table, or an object of JSON on a line.
void PrintProfile(const ProfiledModel& model, const PassProfile& profile, bool json);

}  // namespace fovea::models
