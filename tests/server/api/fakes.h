// What a test of the api, or of a transport, has behind it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/api/request_observer.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/core/mutex.h"

namespace fovea {

// Echoes each request's inputs as outputs (to Classify and Detect it answers the same always, to
// Segment the images as class maps), at once; or holds the requests until the test has them
// answered.
class FakeInference final {
 public:
  struct Held {
    std::unique_ptr<InferenceRequest> request;
    InferenceCallback done;

    void Answer();  // echoes
    void Fail(const absl::Status& status);
  };

  void Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done);

  // From now on requests are kept until they are taken.
  void Hold();
  // Waits for a held request and takes it.
  Held Take();
  size_t held() const;
  // From now on each request takes so many bytes of its memory when it comes, as for its pictures
  // and masks, and fails where there are none.
  void TakeMemory(int64_t bytes);
  // From now on requests end with `status`, until it is OK.
  void FailWith(absl::Status status);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
};

class FakeCatalog final : public ModelCatalog, public StatisticsSource {
 public:
  // Has version 1 of "vit", whose requests go to `inference`.
  explicit FakeCatalog(FakeInference& inference);

  absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                        std::string_view version) const override;
  absl::StatusOr<std::shared_ptr<const ServingModel>> Acquire(
      std::string_view name, std::string_view version) const override;
  std::vector<IndexEntry> Index() const override;
  absl::Status Load(std::string_view name, std::string_view config_override) override;
  absl::Status LoadFiles(std::string_view name, std::string_view config_override,
                         std::vector<SentFile> files, absl::FunctionRef<void()> written) override;
  absl::Status Unload(std::string_view name) override;
  void OnReadinessChange(ReadinessListener listener) override;
  absl::StatusOr<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                          std::string_view version) const override;

  std::string last_config() const;
  std::vector<SentFile> last_files() const;
  // Load blocks until Unblock.
  void BlockLoads();
  void UnblockLoads();
  int loads_begun() const;
  // Index blocks until UnblockIndex, as on a disk that hangs.
  void BlockIndex();
  void UnblockIndex();
  int indexes_begun() const;

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  const std::shared_ptr<const ServingModel> model_;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = true;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool index_blocked_ ABSL_GUARDED_BY(mutex_) = false;
  int loads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int indexes_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string config_ ABSL_GUARDED_BY(mutex_);
  std::vector<SentFile> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadinessListener> listeners_ ABSL_GUARDED_BY(mutex_);
};

class RecordingObserver final : public RequestObserver {
 public:
  void OnRequestArrived() override;
  void OnRequestDone(const AnsweredRequest& request) override;
  int arrived() const;
  std::vector<AnsweredRequest> requests() const;

 private:
  mutable Mutex mutex_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<AnsweredRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
