// The text of an attention, for one layer and for the stages of a backbone.
#include <c10/util/Exception.h>

#include <vector>

#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/attention_table.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {
namespace {

using models::AttentionSpec;

const models::AttentionTable& Table() {
  static const std::vector<models::CoreEntry> cores = {
      {"dense", "", {"temperature"}, true, nullptr},
      {"knn", "", {"k", "exact", "temperature"}, false, nullptr},
  };
  static const std::vector<std::string_view> keys = {"activation", "scale", "heads", "interpolate"};
  static const std::vector<models::AttentionModuleEntry> modules = {
      {"self", "", {}, true, nullptr},          {"shifted_window", "", {"window"}, true, nullptr},
      {"cska", "", keys, false, nullptr},       {"key_only", "", {}, false, nullptr},
      {"aewin", "", {"window"}, true, nullptr}, {"conv", "", {}, false, nullptr},
  };
  static const models::AttentionTable table{cores, modules};
  return table;
}

}  // namespace

FOVEA_FUZZ_TARGET(attention_text, input) {
  const std::string text(input.rest());
  try {
    const AttentionSpec spec = AttentionSpec::Parse(text, Table());
    // The one spelling reads back as the same.
    FOVEA_CHECK(AttentionSpec::Parse(spec.Canonical(), Table()) == spec);
  } catch (const c10::Error&) {
  }
  static const std::vector<models::PublishedStage> published = {
      {.text = "self"},
      {.text = "shifted_window:window=7", .own = "shifted_window"},
      models::PublishedStage::Convolution(),
      models::PublishedStage::WithoutAttention()};
  try {
    const auto stages = models::ParseStages(std::vector<std::string>{text}, published, Table());
    const std::string canonical = models::CanonicalStages(stages, published, Table());
    FOVEA_CHECK(models::ParseStages(std::vector<std::string>{canonical}, published, Table()) ==
                stages);
  } catch (const c10::Error&) {
  }
}

}  // namespace fovea
