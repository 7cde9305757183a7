#include "server/repository/model_record.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model_zoo/folder/names.h"

namespace fovea {
namespace {

bool MayStep(ModelState from, ModelState to) {
  switch (from) {
    case ModelState::kLoading:
      return to == ModelState::kReady || to == ModelState::kUnavailable;
    case ModelState::kReady:
      return to == ModelState::kUnloading;
    case ModelState::kUnloading:
      return to == ModelState::kUnavailable;
    case ModelState::kUnavailable:
      return false;
  }
  return false;
}

// What a version with several loads is to the outside: the best of them.
ModelState Best(const std::vector<std::shared_ptr<VersionLoad>>& loads) {
  for (const ModelState state :
       {ModelState::kReady, ModelState::kLoading, ModelState::kUnloading}) {
    for (const auto& load : loads) {
      if (load->state() == state) return state;
    }
  }
  return ModelState::kUnavailable;
}

}  // namespace

void VersionLoad::Advance(ModelState to) {
  FOVEA_CHECK(MayStep(state_, to));
  state_ = to;
  if (to != ModelState::kReady) servable.reset();
}

std::shared_ptr<VersionLoad> ModelRecord::Begin(int64_t version, std::string fingerprint) {
  auto load = std::make_shared<VersionLoad>(std::move(fingerprint));
  versions_[version].loads.push_back(load);
  return load;
}

void ModelRecord::Succeed(int64_t version, VersionLoad& load, std::shared_ptr<Servable> servable) {
  Retire(version, "");
  load.servable = std::move(servable);
  load.Advance(ModelState::kReady);
  versions_[version].reason.clear();
  versions_[version].failed = false;
}

void ModelRecord::Fail(int64_t version, VersionLoad& load, std::string reason) {
  load.Advance(ModelState::kUnavailable);
  Version& entry = versions_[version];
  std::erase_if(entry.loads, [&](const auto& other) { return other.get() == &load; });
  entry.reason = std::move(reason);
  entry.failed = true;
}

void ModelRecord::Retire(int64_t version, std::string reason) {
  const auto found = versions_.find(version);
  if (found == versions_.end()) return;
  found->second.reason = std::move(reason);
  found->second.failed = false;
  for (const auto& load : found->second.loads) {
    if (load->state() == ModelState::kReady) load->Advance(ModelState::kUnloading);
  }
  if (found->second.loads.empty() && found->second.reason.empty()) versions_.erase(found);
}

void ModelRecord::Gone(int64_t version, VersionLoad& load) {
  load.Advance(ModelState::kUnavailable);
  const auto found = versions_.find(version);
  FOVEA_CHECK(found != versions_.end());
  std::erase_if(found->second.loads, [&](const auto& other) { return other.get() == &load; });
  if (found->second.loads.empty() && found->second.reason.empty()) versions_.erase(found);
}

void ModelRecord::MoveLabels(const std::map<std::string, int64_t>& wanted) {
  for (const auto& [label, version] : wanted) {
    int64_t& at = labels.try_emplace(label, version).first->second;
    if (Serves(version) || !Serves(at)) at = version;
  }
}

int64_t ModelRecord::NumberOf(std::string_view version) const {
  if (const auto number = ParseVersion(version)) return *number;
  const auto label = labels.find(version);
  return label == labels.end() ? 0 : label->second;
}

void ModelRecord::ForgetAllBut(const std::vector<int64_t>& versions) {
  std::erase_if(versions_, [&](const auto& entry) {
    return entry.second.loads.empty() &&
           std::find(versions.begin(), versions.end(), entry.first) == versions.end();
  });
}

const VersionLoad* ModelRecord::Ready(int64_t version) const {
  const auto found = versions_.find(version);
  if (found == versions_.end()) return nullptr;
  for (const auto& load : found->second.loads) {
    if (load->state() == ModelState::kReady) return load.get();
  }
  return nullptr;
}

std::map<int64_t, std::shared_ptr<VersionLoad>> ModelRecord::ReadyLoads() const {
  std::map<int64_t, std::shared_ptr<VersionLoad>> ready;
  for (const auto& [version, entry] : versions_) {
    for (const auto& load : entry.loads) {
      if (load->state() == ModelState::kReady) ready[version] = load;
    }
  }
  return ready;
}

bool ModelRecord::Serves(int64_t version) const {
  const VersionLoad* const load = Ready(version);
  return load != nullptr && load->out_of_service.empty();
}

bool ModelRecord::ServesAny() const {
  return std::any_of(versions_.begin(), versions_.end(),
                     [this](const auto& entry) { return Serves(entry.first); });
}

bool ModelRecord::OutOfService(int64_t version) const {
  const std::vector<int64_t> ready = ReadyVersions();
  if (version == 0 && !ready.empty()) version = ready.back();
  return Ready(version) != nullptr && !Serves(version);
}

std::vector<int64_t> ModelRecord::ReadyVersions() const {
  std::vector<int64_t> ready;
  for (const auto& [version, entry] : versions_) {
    if (Ready(version) != nullptr) ready.push_back(version);
  }
  return ready;
}

bool ModelRecord::Unloading() const {
  return std::any_of(versions_.begin(), versions_.end(), [](const auto& version) {
    const auto& loads = version.second.loads;
    return std::any_of(loads.begin(), loads.end(),
                       [](const auto& load) { return load->state() == ModelState::kUnloading; });
  });
}

bool ModelRecord::LoadingForTheFirstTime(int64_t version) const {
  if (gone) return false;
  if (version == 0) {
    const bool loading = std::any_of(versions_.begin(), versions_.end(), [](const auto& entry) {
      return Best(entry.second.loads) == ModelState::kLoading;
    });
    return ReadyVersions().empty() && (pending > 0 || loading);
  }
  const auto found = versions_.find(version);
  return found != versions_.end() && Best(found->second.loads) == ModelState::kLoading;
}

bool ModelRecord::Idle() const {
  return pending == 0 && std::all_of(versions_.begin(), versions_.end(),
                                     [](const auto& entry) { return entry.second.loads.empty(); });
}

std::string ModelRecord::WhyNotReady(int64_t version) const {
  for (auto entry = versions_.rbegin(); entry != versions_.rend(); ++entry) {
    const auto& [number, known] = *entry;
    if (version != 0 && number != version) continue;
    if (const VersionLoad* const load = Ready(number)) {
      if (!load->out_of_service.empty()) return load->out_of_service;
    } else if (!known.reason.empty()) {
      return known.reason;
    }
  }
  return problem;
}

std::string_view ModelRecord::Summary() const {
  if (ServesAny()) return "ready";
  if (LoadingForTheFirstTime(0)) return "loading";
  if (OutOfService(0)) return "out_of_service";
  const bool failed = std::any_of(versions_.begin(), versions_.end(),
                                  [](const auto& version) { return version.second.failed; });
  return failed || !problem.empty() ? "failed" : "unloaded";
}

std::vector<IndexEntry> ModelRecord::Rows(std::string_view name) const {
  std::vector<IndexEntry> rows;
  for (const auto& [number, version] : versions_) {
    IndexEntry& row =
        rows.emplace_back(IndexEntry{.name = std::string(name),
                                     .version = std::to_string(number),
                                     .state = Best(version.loads),
                                     .reason = version.reason.empty() ? problem : version.reason});
    if (row.state == ModelState::kLoading && row.reason.empty()) {
      for (const auto& load : version.loads) {
        if (load->state() == ModelState::kLoading) row.reason = load->progress;
      }
    }
    if (OutOfService(number)) {
      row.state = ModelState::kUnavailable;
      row.reason = Ready(number)->out_of_service;
    } else if (row.state == ModelState::kReady && row.reason.empty()) {
      for (const auto& [label, labelled] : labels) {
        if (labelled == number) row.reason += (row.reason.empty() ? "labels: " : ", ") + label;
      }
      if (Ready(number)->sent) {
        row.reason += row.reason.empty() ? "" : "; ";
        row.reason += "its weights came with a call, and are not in the repository";
      }
    }
  }
  if (rows.empty() && !gone) {
    const ModelState state = pending > 0 ? ModelState::kLoading : ModelState::kUnavailable;
    rows.push_back({.name = std::string(name), .state = state, .reason = problem});
  }
  return rows;
}

}  // namespace fovea
