// The models that serve, and beside them variants of them that experiments have served for a while:
// each under a name of its own, in ordinary batches, with metrics and statistics like any model's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/variant_source.h"
#include "server/core/cancellation.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"
#include "server/core/turn.h"
#include "server/core/variant_serving.h"
#include "server/pipeline/served_model.h"
#include "server/repository/janitor.h"

namespace fovea {

struct VariantCatalogOptions {
  // What all that are served at a time may hold together, weights and batches. Turn it up to serve
  // large models, or more of them.
  int64_t max_bytes = limits::kExperimentMemoryMb * limits::kMiB;
  size_t max_variants = limits::kMaxServedVariants;
  Nanos max_load = limits::kMaxVariantLoadSeconds * kSecond;  // of one; others wait meanwhile
};

// "variant.shapes.1.knn-k-9": one name for each model, version and attention's text, that a model
// can have.
std::string VariantName(std::string_view model, std::string_view version,
                        std::string_view attention);

// Thread-safe. As a catalog it answers for `models`, and for variants by their names. The models
// were made by ServedModel::Create with `environment`; all that it is given outlives it.
class VariantCatalog final : public ModelCatalog {
 public:
  // Of a variant, which is served as long as it has one; then it is taken out of the catalog, and
  // goes when the last request that holds it is done. May be destroyed on any thread, quickly, and
  // is before the VariantCatalog.
  class Lease {
   public:
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const ServedVariant& variant() const { return variant_; }

   private:
    friend class VariantCatalog;
    Lease(VariantCatalog* owner, ServedVariant variant)
        : owner_(owner), variant_(std::move(variant)) {}

    VariantCatalog* const owner_;  // null: it is a model's own attention, which serves without us
    const ServedVariant variant_;
  };

  // UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<VariantCatalog>> Create(
      const VariantCatalogOptions& options, ModelCatalog& models,
      const ServedModel::Environment& environment);
  // Waits until every variant is gone.
  ~VariantCatalog() override;

  // Loads the variant as a model is loaded, on the calling thread, one at a time, or shares it with
  // who has it served already. An empty attention, and the model's own, is the model itself, under
  // its own name and for nothing. `cancellation` ends the load, and the wait for another's or for
  // room: CANCELLED serve.cancelled. Acquire's errors of the models;
  // FAILED_PRECONDITION and UNAVAILABLE as LoadedVariant::Load's; RESOURCE_EXHAUSTED
  // serve.too_large; UNAVAILABLE serve.busy: as many variants as may be are served, or this one is
  // of an earlier load of its model; UNAVAILABLE model.load_stopped: it takes longer than max_load.
  absl::StatusOr<std::unique_ptr<Lease>> Serve(const Variant& variant,
                                               CancellationPtr cancellation);

  // As ModelCatalog's; a variant's name can be neither loaded nor unloaded: INVALID_ARGUMENT
  // model.reserved_name.
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

 private:
  struct Served {
    ServedVariant variant;
    std::string attention;                 // as it was asked for
    std::weak_ptr<const ServingModel> of;  // the load of its model that it was made of
    std::shared_ptr<Servable> servable;
    std::shared_ptr<const ModelView> view;
    int leases = 0;
  };

  VariantCatalog(const VariantCatalogOptions& options, ModelCatalog& models,
                 const ServedModel::Environment& environment)
      : options_(options), models_(models), environment_(environment) {}

  // A lease of what is served under `name` already; null: nothing is.
  absl::StatusOr<std::unique_ptr<Lease>> Share(const std::string& name, const Variant& variant,
                                               const std::weak_ptr<const ServingModel>& of);
  // How many bytes are left for one more variant; waits for those that are going where there is no
  // room for `least_bytes`.
  absl::StatusOr<int64_t> AwaitRoom(int64_t least_bytes, const Cancellation& cancellation);
  absl::Status CheckRoom(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TooLarge() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Servable>> LoadVariant(const std::string& name,
                                                        const SourceModel& of,
                                                        const std::string& attention, int64_t room,
                                                        CancellationPtr cancellation);
  std::unique_ptr<Lease> Publish(Served served);
  void Release(const std::string& name);
  void OnGone(const std::string& name, int64_t bytes);
  const Served* FindServed(std::string_view name, std::string_view version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const VariantCatalogOptions options_;
  ModelCatalog& models_;
  const ServedModel::Environment environment_;

  // Held while listeners are called, so that they hear of changes in their order; before mutex_.
  Mutex notify_mutex_;
  std::vector<ReadinessListener> listeners_ ABSL_GUARDED_BY(notify_mutex_);
  Turn load_turn_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Served, std::less<>> served_ ABSL_GUARDED_BY(mutex_);
  // By name, with their version; a name may be there twice, and be served again meanwhile.
  std::multimap<std::string, std::string> going_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of those that are served or going
  std::optional<Janitor> janitor_;             // last: its thread calls OnGone
};

}  // namespace fovea
