// Attentions for the stages of a backbone.
#include <algorithm>

#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/spec_text.h"

namespace fovea::models {
namespace {

struct StagedText {
  std::string text;              // without the stage
  std::optional<int64_t> stage;  // from 1
};

StagedText TakeStage(std::string_view text) {
  std::string_view names = text.substr(0, text.find(':'));
  size_t at = names.find('@');
  if (at == names.npos) {
    return {std::string(text), std::nullopt};
  }
  std::optional<int64_t> stage = ToInteger(names.substr(at + 1));
  if (!stage || *stage < 1) {
    Refuse(text, "after '@' stands the number of a stage, counted from 1");
  }
  return {std::string(names.substr(0, at)) + std::string(text.substr(names.size())), stage};
}

std::vector<AttentionSpec> ParseEach(std::span<const std::string> texts) {
  std::vector<AttentionSpec> specs;
  for (const std::string& text : texts) {
    specs.push_back(AttentionSpec::Parse(text));
  }
  return specs;
}

}  // namespace

std::vector<AttentionSpec> ParseStages(std::span<const std::string> texts,
                                       std::span<const std::string> published) {
  const size_t stages = published.size();
  if (texts.empty()) {
    return ParseEach(published);
  }
  const std::string& first = texts.front();
  if (first.find('|') != first.npos) {
    std::vector<std::string> parts;
    for (std::string_view part : Split(first, '|')) {
      parts.emplace_back(part);
    }
    if (texts.size() > 1 || parts.size() != stages) {
      Refuse(first, "with '|' there is one text, with an attention for each of the backbone's " +
                        std::to_string(stages) + " stage" + (stages == 1 ? "" : "s"));
    }
    return ParseEach(parts);
  }
  std::vector<StagedText> staged;
  for (const std::string& text : texts) {
    staged.push_back(TakeStage(text));
  }
  auto has_stage = [](const StagedText& text) { return text.stage.has_value(); };
  if (std::ranges::none_of(staged, has_stage)) {
    if (texts.size() == stages) {
      return ParseEach(texts);
    }
    if (texts.size() == 1) {
      return std::vector<AttentionSpec>(stages, AttentionSpec::Parse(first));
    }
    Refuse(first, std::to_string(texts.size()) + " texts for a backbone of " +
                      std::to_string(stages) + " stage" + (stages == 1 ? "" : "s"));
  }
  std::vector<AttentionSpec> specs = ParseEach(published);
  std::vector<bool> named(stages, false);
  for (size_t i = 0; i < staged.size(); ++i) {
    AttentionSpec spec = AttentionSpec::Parse(staged[i].text);
    if (!has_stage(staged[i])) {
      if (i > 0) {
        Refuse(texts[i], "beside texts with '@' only the first may stand for every stage");
      }
      specs.assign(stages, spec);
      continue;
    }
    const auto stage = static_cast<uint64_t>(*staged[i].stage);
    if (stage > stages) {
      Refuse(texts[i], "there is no stage " + std::to_string(stage) + ", the backbone has " +
                           std::to_string(stages));
    }
    if (named[stage - 1]) {
      Refuse(texts[i], "stage " + std::to_string(stage) + " is named twice");
    }
    named[stage - 1] = true;
    specs[stage - 1] = spec;
  }
  return specs;
}

std::string CanonicalStages(std::span<const AttentionSpec> stages, std::string_view own_module) {
  std::string text;
  bool agree = true;
  for (const AttentionSpec& stage : stages) {
    std::string one = stage.Canonical(own_module);
    agree = agree && one == stages.front().Canonical(own_module);
    text += (text.empty() ? "" : "|") + one;
  }
  return agree && !stages.empty() ? stages.front().Canonical(own_module) : text;
}

}  // namespace fovea::models
