#include "server/compare/serve/variant_catalog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "base/variant_name.h"
#include "server/compare/variant_source.h"
#include "server/core/caller_cancelled.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

// What a variant takes to go beyond its drain: threads are joined, memory is given back.
constexpr Nanos kGoing = kSecond;
// Who waits asks so often whether its caller is still there.
constexpr Nanos kAsks = 50 * kMillisecond;

absl::Status ReservedName() {
  return InvalidArgument(
      "model.reserved_name",
      absl::StrCat("names that begin with ", std::string(kVariantPrefix),
                   " are those of variants that experiments serve: no model can have one"));
}

// FNV-1a, so that a name is the same in every run.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// What a batch of the largest size that runs holds, with the weights.
int64_t BytesOf(const ModelView& view) {
  int64_t bytes = 0;
  for (const int64_t of_size : view.device_bytes) {
    if (of_size <= view.max_device_bytes) bytes = std::max(bytes, of_size);
  }
  return bytes;
}

// "same weights, not fine-tuned" is said in the words that a comparison has for it.
std::string WhatIsServed(const ServedVariant& variant) {
  std::string text = absl::StrCat("a variant of ", variant.model_name, " version ",
                                  variant.model_version, " with ", variant.attention);
  if (!variant.weights_of_attention.empty()) {
    absl::StrAppend(&text, ": same weights as ", variant.weights_of_attention, ", not fine-tuned");
  }
  return text;
}

}  // namespace

std::string VariantName(std::string_view model, std::string_view version,
                        std::string_view attention) {
  std::string name = absl::StrCat(std::string(kVariantPrefix), std::string(model), ".",
                                  std::string(version), ".", std::string(attention));
  const std::string whole = name;
  bool ambiguous = name.size() > limits::kMaxModelNameBytes;
  for (char& c : name) {
    const bool alike = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (alike) continue;
    // "knn:k=3": no other attention has '-' there. What stands between two attentions is not alike.
    ambiguous = ambiguous || (c != ':' && c != '=');
    c = '-';
  }
  if (!ambiguous) return name;
  const std::string hash = absl::StrFormat("-%016x", Hash(whole));
  return name.substr(0, limits::kMaxModelNameBytes - hash.size()) + hash;
}

VariantCatalog::Lease::~Lease() {
  if (owner_ != nullptr) owner_->Release(variant_.served_as);
}

absl::StatusOr<std::unique_ptr<VariantCatalog>> VariantCatalog::Create(
    const VariantCatalogOptions& options, ModelCatalog& models,
    const ServedModel::Environment& environment) {
  std::unique_ptr<VariantCatalog> variants(new VariantCatalog(options, models, environment));
  FOVEA_RETURN_IF_ERROR(StartThreads([&] { variants->janitor_.emplace(); }));
  return variants;
}

VariantCatalog::~VariantCatalog() {
  {
    MutexLock lock(mutex_);
    FOVEA_CHECK(served_.empty());
  }
  janitor_.reset();
}

absl::StatusOr<std::unique_ptr<VariantCatalog::Lease>> VariantCatalog::Serve(
    const Variant& variant, CancellationPtr cancellation) {
  FOVEA_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> handle,
                         AcquireServed(models_, variant));
  const SourceModel source = SourceOf(*handle);
  const std::weak_ptr<const ServingModel> of = std::exchange(handle, nullptr);
  const ModelView& own = *source.view;
  if (variant.attention.empty() || variant.attention == own.attention) {
    return std::unique_ptr<Lease>(new Lease(nullptr, {.served_as = own.name,
                                                      .model_name = own.name,
                                                      .model_version = own.version,
                                                      .backbone = own.backbone,
                                                      .attention = own.attention,
                                                      .untrained = own.untrained}));
  }
  const std::string name = VariantName(own.name, own.version, variant.attention);
  const auto turn = load_turn_.Await([&] { return cancellation->Cancelled(); }, environment_.clock);
  if (turn == nullptr) return CallerCancelled("serve");
  FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<Lease> shared, Share(name, variant, of));
  if (shared != nullptr) return shared;
  FOVEA_ASSIGN_OR_RETURN(const int64_t room, AwaitRoom(BytesToLoad(source), *cancellation));
  FOVEA_ASSIGN_OR_RETURN(
      std::shared_ptr<Servable> servable,
      LoadVariant(name, source, variant.attention, room, std::move(cancellation)));
  const ModelView& loaded = *servable->view();
  Served served{.variant = {.served_as = name,
                            .model_name = own.name,
                            .model_version = own.version,
                            .backbone = loaded.backbone,
                            .attention = loaded.attention,
                            .weights_of_attention = WeightsOfAttention(own, loaded.attention),
                            .untrained = loaded.untrained},
                .attention = variant.attention,
                .of = of,
                .servable = std::move(servable)};
  return Publish(std::move(served));
}

absl::StatusOr<std::unique_ptr<VariantCatalog::Lease>> VariantCatalog::Share(
    const std::string& name, const Variant& variant, const std::weak_ptr<const ServingModel>& of) {
  MutexLock lock(mutex_);
  const auto found = served_.find(name);
  if (found == served_.end()) return std::unique_ptr<Lease>();
  Served& served = found->second;
  const bool same_load = !served.of.owner_before(of) && !of.owner_before(served.of);
  if (!same_load || served.attention != variant.attention) {
    return Unavailable("serve.busy", absl::StrCat(name,
                                                  " is still served as it was before its "
                                                  "model was loaded again: try again when "
                                                  "its experiment has ended"));
  }
  ++served.leases;
  return std::unique_ptr<Lease>(new Lease(this, served.variant));
}

absl::Status VariantCatalog::TooLarge() const {
  return ResourceExhausted("serve.too_large",
                           absl::StrCat("the variants that are served would hold more than the ",
                                        options_.max_bytes >> 20,
                                        " MiB that experiments may hold "
                                        "(--experiment-memory); ",
                                        bytes_ >> 20, " MiB are held"));
}

absl::Status VariantCatalog::CheckRoom(int64_t bytes) const {
  if (bytes_ + bytes > options_.max_bytes) return TooLarge();
  if (served_.size() + going_.size() >= options_.max_variants) {
    return Unavailable("serve.busy",
                       absl::StrCat("as many variants are served as may be at a time, ",
                                    options_.max_variants, ": try again later"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> VariantCatalog::AwaitRoom(int64_t least_bytes,
                                                  const Cancellation& cancellation) {
  const Nanos until =
      environment_.clock.Now() + kGoing + environment_.drain_timeout_us * kMicrosecond;
  MutexLock lock(mutex_);
  for (;;) {
    const absl::Status room = CheckRoom(least_bytes);
    if (room.ok()) return options_.max_bytes - bytes_;
    if (going_.empty() || environment_.clock.Now() >= until) return room;
    if (cancellation.Cancelled()) return CallerCancelled("serve");
    Clock& clock = environment_.clock;
    clock.WaitUntil(changed_, mutex_, std::min(until, clock.Now() + kAsks));
  }
}

absl::StatusOr<std::shared_ptr<Servable>> VariantCatalog::LoadVariant(
    const std::string& name, const SourceModel& of, const std::string& attention, int64_t room,
    CancellationPtr cancellation) {
  FOVEA_ASSIGN_OR_RETURN(VariantSource source,
                         OpenVariantSource(of, attention, std::move(cancellation)));
  source.version.name = name;
  source.version.labels = *of.view->labels;
  ServedModel::Environment environment = environment_;
  environment.max_device_bytes = std::min(environment.max_device_bytes, room);
  environment.give_up_at = environment.clock.Now() + options_.max_load;
  absl::StatusOr<std::shared_ptr<Servable>> created =
      OrOutOfMemory([&] { return ServedModel::Create(source.version, environment); });
  if (ReasonOf(created.status()) == "model.too_large") {
    MutexLock lock(mutex_);
    return TooLarge();
  }
  if (ReasonOf(created.status()) == "model.load_stopped" &&
      environment.clock.Now() >= environment.give_up_at) {
    return Unavailable("model.load_stopped",
                       absl::StrCat(name, " takes longer than ", options_.max_load / kSecond,
                                    " seconds to load, while others wait"));
  }
  if (created.ok() && source.weights != nullptr) {
    // A file that somebody writes into while it is read may be half old and half new.
    FOVEA_ASSIGN_OR_RETURN(const FileIdentity identity, source.weights->Identity());
    if (identity != source.version.weights_file->identity) {
      return Unavailable("repository.changed",
                         source.version.weights_file->shown + " changed while it was loaded");
    }
  }
  return created;
}

std::unique_ptr<VariantCatalog::Lease> VariantCatalog::Publish(Served served) {
  const std::string name = served.variant.served_as;
  auto view = std::make_shared<ModelView>(*served.servable->view());
  view->served_versions = {view->version};
  view->properties["fovea.variant_of"] =
      absl::StrCat(served.variant.model_name, "/", served.variant.model_version);
  if (!served.variant.weights_of_attention.empty()) {
    view->properties["fovea.weights_of_attention"] = served.variant.weights_of_attention;
    view->properties["fovea.not_fine_tuned"] = "true";
  }
  const int64_t bytes = BytesOf(*view);
  served.servable =
      janitor_->Adopt(std::move(served.servable), [this, name, bytes] { OnGone(name, bytes); });
  served.view = std::move(view);
  served.leases = 1;
  Log(LogLevel::kInfo, absl::StrCat(name, ": serves ", WhatIsServed(served.variant)));
  std::unique_ptr<Lease> lease(new Lease(this, served.variant));
  const std::string version = served.view->version;
  MutexLock notify(notify_mutex_);
  {
    MutexLock lock(mutex_);
    bytes_ += bytes;
    served_.emplace(name, std::move(served));
  }
  for (const ReadinessListener& listener : listeners_) listener(name, version, Readiness::kReady);
  return lease;
}

void VariantCatalog::Release(const std::string& name) {
  Served last;  // its handle is released outside the locks
  MutexLock notify(notify_mutex_);
  {
    MutexLock lock(mutex_);
    const auto found = served_.find(name);
    FOVEA_CHECK(found != served_.end());
    if (--found->second.leases > 0) return;
    last = std::move(found->second);
    served_.erase(found);
    going_.emplace(name, last.view->version);
  }
  for (const ReadinessListener& listener : listeners_) {
    listener(name, last.view->version, Readiness::kGone);
  }
}

void VariantCatalog::OnGone(const std::string& name, int64_t bytes) {
  Log(LogLevel::kInfo, absl::StrCat(name, ": no longer served"));
  MutexLock lock(mutex_);
  const auto going = going_.find(name);
  FOVEA_CHECK(going != going_.end());
  going_.erase(going);
  bytes_ -= bytes;
  changed_.NotifyAll();
}

const VariantCatalog::Served* VariantCatalog::FindServed(std::string_view name,
                                                         std::string_view version) const {
  const auto found = served_.find(name);
  if (found == served_.end()) return nullptr;
  return version.empty() || version == found->second.view->version ? &found->second : nullptr;
}

absl::StatusOr<std::shared_ptr<const ModelView>> VariantCatalog::Find(
    std::string_view name, std::string_view version) const {
  if (IsVariantName(name)) {
    MutexLock lock(mutex_);
    if (const Served* const served = FindServed(name, version)) return served->view;
  }
  return models_.Find(name, version);
}

absl::StatusOr<std::shared_ptr<const ServingModel>> VariantCatalog::Acquire(
    std::string_view name, std::string_view version) const {
  if (IsVariantName(name)) {
    MutexLock lock(mutex_);
    if (const Served* const served = FindServed(name, version)) return served->servable;
  }
  return models_.Acquire(name, version);
}

std::vector<IndexEntry> VariantCatalog::Index() const {
  std::vector<IndexEntry> index = models_.Index();
  {
    MutexLock lock(mutex_);
    for (const auto& [name, served] : served_) {
      index.push_back({.name = name,
                       .version = served.view->version,
                       .state = ModelState::kReady,
                       .reason = WhatIsServed(served.variant)});
    }
    for (const auto& [name, version] : going_) {
      if (served_.contains(name)) continue;
      index.push_back({.name = name,
                       .version = version,
                       .state = ModelState::kUnloading,
                       .reason = "its experiment has ended"});
    }
  }
  std::stable_sort(index.begin(), index.end(), [](const IndexEntry& one, const IndexEntry& other) {
    return one.name < other.name;
  });
  return index;
}

absl::Status VariantCatalog::Load(std::string_view name, std::string_view config_override) {
  return IsVariantName(name) ? ReservedName() : models_.Load(name, config_override);
}

absl::Status VariantCatalog::LoadFiles(std::string_view name, std::string_view config_override,
                                       std::vector<SentFile> files,
                                       absl::FunctionRef<void()> written) {
  if (IsVariantName(name)) return ReservedName();
  return models_.LoadFiles(name, config_override, std::move(files), written);
}

absl::Status VariantCatalog::Unload(std::string_view name) {
  return IsVariantName(name) ? ReservedName() : models_.Unload(name);
}

void VariantCatalog::OnReadinessChange(ReadinessListener listener) {
  models_.OnReadinessChange(listener);
  MutexLock notify(notify_mutex_);
  {
    MutexLock lock(mutex_);
    for (const auto& [name, served] : served_) {
      listener(name, served.view->version, Readiness::kReady);
    }
  }
  listeners_.push_back(std::move(listener));
}

}  // namespace fovea
