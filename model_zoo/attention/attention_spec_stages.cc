// Attentions for the stages of a backbone.
#include <algorithm>

#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/attention_table.h"
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

constexpr std::string_view kNone = "-";

std::string Ordinal(size_t stage) { return "stage " + std::to_string(stage + 1); }

// The attention that `text` puts into a stage.
AttentionSpec ForStage(const std::string& text, const PublishedStage& published, size_t stage,
                       const AttentionTable& table) {
  if (published.text == kNone) {
    if (text != kNone) {
      Refuse(text, Ordinal(stage) + " has no attention: '-' stands there");
    }
    return {.module = std::string(kNone)};
  }
  if (text == kNone) {
    Refuse(text, Ordinal(stage) + " has an attention");
  }
  AttentionSpec spec = AttentionSpec::Parse(text, table);
  if (spec.module.empty() && published.own != "self") {
    spec.module = published.own;
  } else if (spec.module == "self" && published.own == "self") {
    spec.module.clear();  // goes without saying
  }
  return spec;
}

// A text for every stage.
std::vector<AttentionSpec> ForAll(const std::string& text,
                                  std::span<const PublishedStage> published,
                                  const AttentionTable& table) {
  std::vector<AttentionSpec> specs;
  for (size_t i = 0; i < published.size(); ++i) {
    specs.push_back(
        ForStage(published[i].attends ? text : published[i].text, published[i], i, table));
  }
  return specs;
}

std::vector<AttentionSpec> AsPublished(std::span<const PublishedStage> published,
                                       const AttentionTable& table) {
  std::vector<AttentionSpec> specs;
  for (size_t i = 0; i < published.size(); ++i) {
    specs.push_back(ForStage(published[i].text, published[i], i, table));
  }
  return specs;
}

std::vector<AttentionSpec> ForEach(std::span<const std::string> texts,
                                   std::span<const PublishedStage> published,
                                   const AttentionTable& table) {
  std::vector<AttentionSpec> specs;
  for (size_t i = 0; i < published.size(); ++i) {
    specs.push_back(ForStage(texts[i], published[i], i, table));
  }
  return specs;
}

}  // namespace

std::vector<AttentionSpec> ParseStages(std::span<const std::string> texts,
                                       std::span<const PublishedStage> published,
                                       const AttentionTable& table) {
  const size_t stages = published.size();
  if (texts.empty()) {
    return AsPublished(published, table);
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
    return ForEach(parts, published, table);
  }
  std::vector<StagedText> staged;
  for (const std::string& text : texts) {
    staged.push_back(TakeStage(text));
  }
  auto has_stage = [](const StagedText& text) { return text.stage.has_value(); };
  if (std::ranges::none_of(staged, has_stage)) {
    if (texts.size() == 1) {
      return ForAll(first, published, table);
    }
    if (texts.size() == stages) {
      return ForEach(texts, published, table);
    }
    Refuse(first, std::to_string(texts.size()) + " texts for a backbone of " +
                      std::to_string(stages) + " stage" + (stages == 1 ? "" : "s"));
  }
  std::vector<AttentionSpec> specs = AsPublished(published, table);
  std::vector<bool> named(stages, false);
  for (size_t i = 0; i < staged.size(); ++i) {
    if (!has_stage(staged[i])) {
      if (i > 0) {
        Refuse(texts[i], "beside texts with '@' only the first may stand for every stage");
      }
      specs = ForAll(staged[i].text, published, table);
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
    specs[stage - 1] = ForStage(staged[i].text, published[stage - 1], stage - 1, table);
  }
  return specs;
}

std::string CanonicalStages(std::span<const AttentionSpec> stages,
                            std::span<const PublishedStage> published,
                            const AttentionTable& table) {
  std::string list;
  const AttentionSpec* shared = nullptr;  // what the stages that attend have in common
  bool one_says_all = true;
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool none = published[i].text == kNone;
    if (i > 0) list += '|';
    list += none ? std::string(kNone) : stages[i].Canonical();
    if (published[i].attends) {
      if (shared == nullptr) shared = &stages[i];
      one_says_all = one_says_all && stages[i] == *shared;
    } else {
      one_says_all =
          one_says_all && stages[i] == ForStage(published[i].text, published[i], i, table);
    }
  }
  return shared != nullptr && one_says_all ? shared->Canonical() : list;
}

}  // namespace fovea::models
