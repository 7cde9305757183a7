// A model version that answers requests, as the repository holds it: it knows when to build one,
// when to let go of it, and nothing of how it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/folder/model_spec.h"
#include "model_zoo/folder/weights_file.h"
#include "server/core/cancellation.h"
#include "server/core/model_catalog.h"

namespace fovea {

// One version of a model, read from its folder and checked as far as that goes without its
// framework.
struct VersionToLoad {
  std::string name;
  int64_t version = 0;
  // spec.description.weights is a path that opens the very file that was checked, whatever happens
  // to its name, for as long as the factory runs; empty where the weights are random.
  ModelSpec spec;
  // Where that file was found, to be opened anew later; none: it is random, or was sent with the
  // load and is not kept. The repository outlives what the factory makes.
  std::optional<WeightsFile> weights_file;
  std::vector<std::string> labels;  // by class index; empty where there is no labels.txt
  // Set when the server stops: a long load asks it between its steps, and gives up with
  // UNAVAILABLE. Shared by all loads.
  CancellationPtr cancellation;
  // For what the factory makes: it can answer nothing any more, whatever it is asked, and why.
  // Called at most once, on any thread, as long as the servable is there; returns quickly. Null:
  // nobody wants to know.
  std::function<void(const absl::Status& why)> on_lost;
  // Hears what the load does now, a short text without a path. Returns quickly. May be null.
  std::function<void(std::string doing)> on_progress;
  // Number of loads that were asked for together, this one included: they share the time that
  // warm-ups may take.
  int loads_together = 1;
};

// Thread-safe. Requests reach it through a handle (ModelRepository::Acquire); it takes work until
// it is destroyed.
class Servable : public ServingModel {
 public:
  // Finishes what it was given, joins its threads and frees its memory. Blocks. Runs on the
  // repository's janitor thread, once no request holds a handle.
  ~Servable() override = default;
};

// Makes a version ready to serve: its weights loaded and prepared, every batch size run once.
// Blocks; runs on a loader thread, for several models at a time where the repository has several
// loaders. An error leaves nothing behind: FAILED_PRECONDITION where this model cannot run here,
// UNAVAILABLE where trying again may help.
using ServableFactory =
    std::function<absl::StatusOr<std::shared_ptr<Servable>>(const VersionToLoad& model)>;

}  // namespace fovea
