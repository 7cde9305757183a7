// When the repository should look at a model again: the decision behind control mode `poll`. Pure:
// the time is given, and no file is read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/clock.h"

namespace fovea {

// A change is acted upon once it has settled: two scans in a row or more, over `settle` at least,
// have seen the same. A folder that is still being copied differs from scan to scan and is left
// alone. Not thread-safe.
class ChangeDetector {
 public:
  // The longest pause of a copy that is still under way; 0: two scans are enough.
  explicit ChangeDetector(Nanos settle = 0) : settle_(settle) {}

  struct Scan {
    Nanos when = 0;                                   // steady time
    std::map<std::string, std::string> fingerprints;  // by model
    bool complete = true;  // false: a repository could not be read, and models may be missing
  };

  struct Change {
    std::string model;
    std::string fingerprint;  // that has settled; empty: gone
  };
  // The models to look at again, in order of their names: new, changed or gone since they were last
  // looked at, and settled. Each is named once; Done says what came of it.
  std::vector<Change> Next(const Scan& scan);

  // The model was looked at: `fingerprint` is what was found, empty where that should be tried
  // again.
  void Done(std::string_view model, std::string_view fingerprint);

 private:
  struct Model {
    std::string seen;     // by the last scan; empty: gone
    Nanos since = 0;      // when a scan first saw that
    std::string handled;  // what was last acted upon; empty: nothing
    bool pending = false;
  };
  const Nanos settle_;
  std::map<std::string, Model, std::less<>> models_;
};

}  // namespace fovea
