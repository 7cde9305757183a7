// The part of ModelRepository that asks the canaries of what serves, and takes out of service what
// answers wrongly or no more.
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/repository/canary.h"
#include "server/repository/model_repository.h"

namespace fovea {

void ModelRepository::WatchCanaries() {
  while (true) {
    struct Asked {
      std::string name;
      int64_t version;
      std::shared_ptr<VersionLoad> load;
    };
    std::vector<Asked> round;
    {
      MutexLock lock(mutex_);
      const Nanos next = clock_.Now() + options_.canary_interval;
      while (!stopping_ && clock_.Now() < next) clock_.WaitUntil(changed_, mutex_, next);
      if (stopping_) return;
      for (const auto& [name, record] : models_) {
        for (auto& [version, load] : record.ReadyLoads()) {
          if (load->canary && !load->lost) round.push_back({name, version, load});
        }
      }
    }
    for (const Asked& asked : round) {
      std::shared_ptr<Servable> servable;
      {
        // Who waits for its turn keeps no version loaded.
        MutexLock lock(mutex_);
        if (stopping_) return;
        if (asked.load->state() != ModelState::kReady) continue;
        servable = asked.load->servable;
      }
      const absl::Status status =
          AskCanary(std::move(servable), *asked.load->canary, clock_, *cancellation_);
      if (!absl::IsUnavailable(status)) OnCanary(asked.name, asked.version, *asked.load, status);
    }
  }
}

void ModelRepository::OnCanary(const std::string& name, int64_t version, VersionLoad& load,
                               const absl::Status& status) {
  {
    MutexLock notify(notify_mutex_);
    {
      MutexLock lock(mutex_);
      // Replaced or unloaded meanwhile: another load answers for the version.
      if (load.state() != ModelState::kReady || load.lost) return;
      const bool serves = load.out_of_service.empty();
      load.out_of_service = std::string(status.message());
      if (status.ok() == serves) return;
    }
    Publish();
  }
  observer_.OnCanary({.model = name, .version = version, .status = status});
}

void ModelRepository::OnLost(const std::string& name, int64_t version, VersionLoad& load,
                             const absl::Status& why) {
  {
    MutexLock notify(notify_mutex_);
    {
      MutexLock lock(mutex_);
      load.lost = true;
      const bool served = load.state() == ModelState::kReady && load.out_of_service.empty();
      load.out_of_service = std::string(why.message());
      if (!served) return;
    }
    Publish();
  }
  observer_.OnLost(name, version, why);
}

}  // namespace fovea
