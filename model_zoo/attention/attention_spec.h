// The text of an attention, used wherever one is named: model description, command line, metrics
// label, URL.
//
//   spec   = name [ "/" core ] [ "@" stage ] [ ":" option { "," option } ]
//   stages = spec "|" spec ...        one for each stage of the backbone; "-" for one without
//                                     attention
//
// Examples: `dense`, `knn:k=100`, `shifted_window/knn:k=0.5,window=7`, `conv|cska|dense|dense`,
// `cska@2`. A bare core fills the backbone's own module; a bare module takes the dense core.
// Includes neither torch nor protobuf. Every parser throws c10::Error with a sentence that quotes
// the text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::models {

struct AttentionTable;  // attention_table.h

// How many keys a query keeps: a count (`k=100`) or, written with a decimal point, a share of the
// keys (`k=0.5`).
struct KeyCount {
  int64_t count = 0;  // at least 1, or 0 where `share` is meant
  double share = 0;   // in (0, 1]

  // The count among `keys` keys, the class token included: max(1, floor(share * keys + 0.5)). A
  // count above `keys` comes back as it is: the caller refuses it.
  int64_t Among(int64_t keys) const;

  bool operator==(const KeyCount&) const = default;
};

// One attention: names and options, checked against what each of them takes. A new option is a
// member here, and its two spellings in the source file.
struct AttentionSpec {
  std::string module;  // empty: the backbone's own
  std::string core;    // empty where the module has no core
  std::optional<KeyCount> k;
  bool exact = false;      // k-NN by Euclidean distance
  double temperature = 1;  // divides the scaled logits
  std::optional<int64_t> window;
  std::optional<std::string> activation;  // absent: softmax
  std::optional<double> scale;
  std::optional<int64_t> heads;  // in place of the stage's
  bool interpolate = false;      // static keys, for another number of tokens

  // A text without "|" and "@", of the names and options of `table`.
  static AttentionSpec Parse(std::string_view text, const AttentionTable& table);

  // The one spelling, for labels, URLs and files: defaults left out, options in a fixed order.
  std::string Canonical() const;

  bool operator==(const AttentionSpec&) const = default;
};

// What a stage of a backbone was published with.
struct PublishedStage {
  std::string text;          // its attention; "-" where there is none that could be replaced
  std::string own = "self";  // the module that a bare core fills there; empty: one without a name
  bool attends = true;       // a text for every stage means this one too; not so for a convolution

  // A stage whose layers cannot be exchanged: it is written "-".
  static PublishedStage WithoutAttention() { return {.text = "-", .own = "", .attends = false}; }
  // A stage of convolutions in which an attention can stand.
  static PublishedStage Convolution() { return {.text = "conv", .attends = false}; }
};

// The attention of each stage of a backbone with `published.size()` stages. `texts` is one of
//   nothing                        the published attention;
//   one text                       for every stage that attends; the others stay as published;
//   "a|b|c"                        one for each stage;
//   as many texts as stages        one for each;
//   texts with "@stage"            for those stages; the others keep what a leading text without
//   "@" says, or the published one. Stages count from 1.
// A bare core gets the stage's own module, where that has a name: "knn:k=5" in a stage of shifted
// windows is "shifted_window/knn:k=5". A stage without attention is written "-", and has
// `module` "-".
std::vector<AttentionSpec> ParseStages(std::span<const std::string> texts,
                                       std::span<const PublishedStage> published,
                                       const AttentionTable& table);

// The shortest text that reads back as these: one where it says all, else "a|b|c".
std::string CanonicalStages(std::span<const AttentionSpec> stages,
                            std::span<const PublishedStage> published, const AttentionTable& table);

}  // namespace fovea::models
