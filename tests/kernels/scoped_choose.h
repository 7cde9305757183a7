// Choices by measurement, forced for a while.
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace fovea::kernels {

// Sets FOVEA_CHOOSE, and puts back what was there.
class ScopedChoose {
 public:
  explicit ScopedChoose(const std::string& choices) {
    if (const char* before = std::getenv("FOVEA_CHOOSE")) before_ = before;
    setenv("FOVEA_CHOOSE", choices.c_str(), /*overwrite=*/1);
  }
  ~ScopedChoose() {
    if (before_) {
      setenv("FOVEA_CHOOSE", before_->c_str(), /*overwrite=*/1);
    } else {
      unsetenv("FOVEA_CHOOSE");
    }
  }
  ScopedChoose(const ScopedChoose&) = delete;
  ScopedChoose& operator=(const ScopedChoose&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace fovea::kernels
