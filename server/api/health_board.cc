#include "server/api/health_board.h"

#include <algorithm>
#include <utility>

#include "base/variant_name.h"

namespace fovea {
namespace {

constexpr std::string_view kModelPrefix = "model/";

}  // namespace

void HealthBoard::AddService(std::string_view name) {
  MutexLock lock(mutex_);
  services_.emplace(name);
}

void HealthBoard::SetServing(bool serving) {
  {
    MutexLock lock(mutex_);
    serving_ = serving;
  }
  for (const auto& watcher : Watchers()) watcher->Refresh();
}

void HealthBoard::NeedModel() {
  MutexLock lock(mutex_);
  needs_model_ = true;
}

void HealthBoard::SetModel(std::string_view model, std::string_view version, Readiness readiness) {
  {
    MutexLock lock(mutex_);
    std::map<std::string, Readiness>& versions = models_[std::string(model)];
    versions[std::string(version)] = readiness;
    needs_model_ |= readiness == Readiness::kReady;
    const bool loaded = std::ranges::any_of(
        versions, [](const auto& one) { return one.second != Readiness::kGone; });
    std::erase_if(versions, [&](const auto& one) {
      return one.second == Readiness::kGone && (loaded || one.first != version);
    });
    if (!loaded && IsVariantName(model)) models_.erase(std::string(model));
  }
  for (const auto& watcher : Watchers()) watcher->Refresh();
}

bool HealthBoard::serving() const {
  MutexLock lock(mutex_);
  return ServingLocked();
}

bool HealthBoard::ServingLocked() const {
  if (!serving_ || !needs_model_) return serving_;
  return std::ranges::any_of(models_, [](const auto& model) {
    return std::ranges::any_of(
        model.second, [](const auto& version) { return version.second == Readiness::kReady; });
  });
}

ServingStatus HealthBoard::GetLocked(const std::string& name) const {
  const auto status = [serving = ServingLocked()](bool ready) {
    return ready && serving ? ServingStatus::kServing : ServingStatus::kNotServing;
  };
  if (services_.contains(name)) return status(true);
  if (!name.starts_with(kModelPrefix)) return ServingStatus::kUnknown;
  const std::string rest = name.substr(kModelPrefix.size());
  const size_t slash = rest.find('/');
  const auto model = models_.find(rest.substr(0, slash));
  if (model == models_.end()) return ServingStatus::kUnknown;
  if (slash == std::string::npos) {
    bool any = false;
    for (const auto& [version, readiness] : model->second) any |= readiness == Readiness::kReady;
    return status(any);
  }
  const auto version = model->second.find(rest.substr(slash + 1));
  if (version == model->second.end()) return ServingStatus::kUnknown;
  return status(version->second == Readiness::kReady);
}

ServingStatus HealthBoard::Get(const std::string& name) const {
  MutexLock lock(mutex_);
  return GetLocked(name);
}

std::map<std::string, ServingStatus> HealthBoard::List() const {
  MutexLock lock(mutex_);
  std::set<std::string> names = services_;
  for (const auto& [model, versions] : models_) {
    const std::string name = std::string(kModelPrefix) + model;
    names.insert(name);
    for (const auto& [version, readiness] : versions) names.insert(name + "/" + version);
  }
  std::map<std::string, ServingStatus> statuses;
  for (const std::string& name : names) statuses[name] = GetLocked(name);
  return statuses;
}

std::map<std::string, ServingStatus> HealthBoard::ListServices() const {
  MutexLock lock(mutex_);
  std::map<std::string, ServingStatus> statuses;
  for (const std::string& name : services_) statuses[name] = GetLocked(name);
  return statuses;
}

std::vector<std::shared_ptr<HealthWatcher>> HealthBoard::Watchers() const {
  std::vector<std::shared_ptr<HealthWatcher>> watchers;
  MutexLock lock(mutex_);
  for (const auto& [key, watcher] : watchers_) watchers.push_back(watcher);
  return watchers;
}

void HealthBoard::Add(std::shared_ptr<HealthWatcher> watcher) {
  bool closed;
  {
    MutexLock lock(mutex_);
    watchers_.emplace(watcher.get(), watcher);
    closed = closed_;
  }
  watcher->Refresh();
  if (closed) watcher->Close();
}

void HealthBoard::Remove(HealthWatcher* watcher) {
  std::shared_ptr<HealthWatcher> last;  // dropped outside the mutex
  MutexLock lock(mutex_);
  const auto found = watchers_.find(watcher);
  last = std::move(found->second);
  watchers_.erase(found);
}

void HealthBoard::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  for (const auto& watcher : Watchers()) watcher->Close();
}

}  // namespace fovea
