// The attentions that a description asks of a backbone's stages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

class StageAttentions {
 public:
  // Throws c10::ValueError where the texts are not attentions, or not for these stages.
  StageAttentions(const ModelDescription& description, std::vector<PublishedStage> published);

  // What the blocks of a stage (from 0) are given. `own` builds the stage's own module,
  // PublishedStage::own.
  AttentionFactory Stage(size_t stage, AttentionFactory::ModuleBuilder own) const;

  const AttentionSpec& spec(size_t stage) const { return specs_.at(stage); }

  // The one spelling of them all, for ModelInfo::attention.
  std::string Canonical() const;

 private:
  std::string backbone_;
  std::vector<PublishedStage> published_;
  std::vector<AttentionSpec> specs_;
};

}  // namespace fovea::models
