#include "server/repository/change_detector.h"

namespace fovea {

std::vector<ChangeDetector::Change> ChangeDetector::Next(const Scan& scan) {
  for (const auto& [name, fingerprint] : scan.fingerprints) models_[name];
  std::vector<Change> changed;
  for (auto next = models_.begin(); next != models_.end();) {
    auto& [name, model] = *next;
    const auto found = scan.fingerprints.find(name);
    const bool missing = found == scan.fingerprints.end();
    if (missing && !scan.complete) {
      ++next;
      continue;
    }
    const std::string now = missing ? "" : found->second;
    const bool seen_before = now == model.seen;
    if (!seen_before) model.since = scan.when;
    model.seen = now;
    const bool settled = seen_before && scan.when - model.since >= settle_;
    if (settled && !model.pending && now != model.handled) {
      model.pending = true;
      changed.push_back({name, now});
    }
    // Gone, and that was acted upon.
    const bool forgotten = settled && missing && !model.pending;
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
