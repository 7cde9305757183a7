// When the repository should look at a model again: the decision behind control mode `poll`. Pure:
// no clock, no files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// A change is acted upon once two scans in a row have seen the same: a folder that is still being
// copied differs from scan to scan and is left alone. Not thread-safe.
class ChangeDetector {
 public:
  struct Scan {
    std::map<std::string, std::string> fingerprints;  // by model
    bool complete = true;  // false: a repository could not be read, and models may be missing
  };

  // The models to look at again, in order of their names: new, changed or gone since they were last
  // looked at, and stable. Each is named once; Done says what came of it.
  std::vector<std::string> Next(const Scan& scan);

  // The model was looked at: `fingerprint` is what was found, empty where that should be tried
  // again.
  void Done(std::string_view model, std::string_view fingerprint);

 private:
  struct Model {
    std::string seen;     // by the last scan; empty: gone
    std::string handled;  // what was last acted upon; empty: nothing
    bool pending = false;
  };
  std::map<std::string, Model, std::less<>> models_;
};

}  // namespace fovea
