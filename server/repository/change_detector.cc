#include "server/repository/change_detector.h"

namespace fovea {

std::vector<std::string> ChangeDetector::Next(const Scan& scan) {
  for (const auto& [name, fingerprint] : scan.fingerprints) models_[name];
  std::vector<std::string> changed;
  for (auto next = models_.begin(); next != models_.end();) {
    auto& [name, model] = *next;
    const auto found = scan.fingerprints.find(name);
    const bool missing = found == scan.fingerprints.end();
    if (missing && !scan.complete) {
      ++next;
      continue;
    }
    const std::string now = missing ? "" : found->second;
    const bool stable = now == model.seen;
    model.seen = now;
    if (stable && !model.pending && now != model.handled) {
      model.pending = true;
      changed.push_back(name);
    }
    // Gone, and that was acted upon.
    const bool forgotten = stable && missing && !model.pending;
    next = forgotten ? models_.erase(next) : std::next(next);
  }
  return changed;
}

void ChangeDetector::Done(std::string_view name, std::string_view fingerprint) {
  Model& model = models_[std::string(name)];
  model.pending = false;
  model.handled = fingerprint;
}

}  // namespace fovea
