// What the repository remembers of one model: the loads of its versions, and why the last of them
// failed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/model_catalog.h"
#include "server/repository/canary.h"
#include "server/repository/servable.h"

namespace fovea {

// One load of one version. Its state only goes forward: loading -> ready -> unloading ->
// unavailable, or from loading to unavailable where it failed. Loading a version again is another
// one.
class VersionLoad {
 public:
  explicit VersionLoad(std::string fingerprint) : fingerprint_(std::move(fingerprint)) {}

  // Any other step ends the process.
  void Advance(ModelState to);

  ModelState state() const { return state_; }
  const std::string& fingerprint() const { return fingerprint_; }

  // The handle that keeps it serving; held from ready to unloading.
  std::shared_ptr<Servable> servable;
  // Set before the load is ready, and not changed from then on.
  std::optional<Canary> canary;
  bool sent = false;     // its weights came with a call
  std::string progress;  // of a load that is under way: what it does now
  // Why a ready load takes no requests, as its canary or itself says; empty: it takes them.
  std::string out_of_service;
  bool lost = false;  // it stays out of service

 private:
  const std::string fingerprint_;
  ModelState state_ = ModelState::kLoading;
};

// Invariant: of one version at most one load is ready and at most one loading; any number are
// unloading, because requests still hold them. Not thread-safe: the repository's mutex guards it.
class ModelRecord {
 public:
  // A version begins to load, beside the one that may be serving.
  std::shared_ptr<VersionLoad> Begin(int64_t version, std::string fingerprint);
  // The load is ready, and replaces the one that was serving.
  void Succeed(int64_t version, VersionLoad& load, std::shared_ptr<Servable> servable);
  // It failed; what was serving serves on.
  void Fail(int64_t version, VersionLoad& load, std::string reason);
  // The version stops serving. Its row of the index stays with `reason`; an empty one forgets the
  // version once its last request is done. Does nothing where it does not serve.
  void Retire(int64_t version, std::string reason);
  // The last request of an unloading load is done.
  void Gone(int64_t version, VersionLoad& load);

  // Makes each of `wanted` stand for its version once that serves, or where what it stood for does
  // not serve either.
  void MoveLabels(const std::map<std::string, int64_t>& wanted);
  // The version that `version`, a number or a label, stands for; 0: none that is known.
  int64_t NumberOf(std::string_view version) const;

  // Forgets why other versions failed that hold no load.
  void ForgetAllBut(const std::vector<int64_t>& versions);

  // The load that is ready, or null.
  const VersionLoad* Ready(int64_t version) const;
  std::map<int64_t, std::shared_ptr<VersionLoad>> ReadyLoads() const;
  std::vector<int64_t> ReadyVersions() const;
  // Ready, and not out of service.
  bool Serves(int64_t version) const;
  bool ServesAny() const;
  bool Unloading() const;
  // Whether the version, or any one where it is 0, is loading and none of it ready.
  bool LoadingForTheFirstTime(int64_t version) const;
  // Nothing serves, loads or unloads.
  bool Idle() const;

  // Whether the version, or where it is 0 the newest ready one, is ready and out of service.
  bool OutOfService(int64_t version) const;

  // Why the version does not serve, or where it is 0 the model: the newest of the versions that
  // have a reason. Empty where nothing is known, because nobody has tried or it does serve.
  std::string WhyNotReady(int64_t version) const;

  // State of the model as a whole: "ready" (a version serves), "loading", "out_of_service",
  // "failed" (it could not be read, or its last load failed) or "unloaded".
  std::string_view Summary() const;

  // A row per version; one for the model where it has none and did not leave the disk.
  std::vector<IndexEntry> Rows(std::string_view name) const;

  // Why the model as a whole could not be read the last time; empty where it could.
  std::string problem;
  // Jobs that wait for a loader thread or run on one.
  int pending = 0;
  // What its versions are called besides their numbers.
  std::map<std::string, int64_t, std::less<>> labels;
  // What the last successful load was told.
  std::string config_override;
  bool shares_weights = false;  // weights_of
  bool gone = false;            // it left the disk, and is to be forgotten once it is idle

 private:
  struct Version {
    std::vector<std::shared_ptr<VersionLoad>> loads;  // none of them unavailable
    std::string reason;   // why the last load failed, or what became of it
    bool failed = false;  // the former
  };

  std::map<int64_t, Version> versions_;
};

}  // namespace fovea
