#include "model_zoo/attention/attention_spec.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <system_error>

namespace fovea::models {
namespace {

constexpr size_t kMaxTextLength = 256;  // a label and a part of a URL

// Which options a name takes. A new option is a line here, a member of AttentionSpec and its two
// spellings below.
struct Vocabulary {
  std::string_view name;
  std::initializer_list<std::string_view> options;
  bool takes_core = false;  // modules only
};

const Vocabulary kModules[] = {
    {"self", {}, true},
    {"shifted_window", {"window"}, true},
    {"axial", {}, true},
    {"criss_cross", {}, false},
    {"pale", {"window"}, true},
    {"cross_shaped", {"window"}, true},
    {"aewin", {"window"}, false},
    {"ska", {"activation", "scale"}, false},
    {"cska", {"activation", "scale"}, false},
    {"key_only", {}, false},
    {"conv", {}, false},
};
const Vocabulary kCores[] = {
    {"dense", {"temperature"}},
    {"knn", {"k", "exact", "temperature"}},
};
constexpr std::string_view kActivations[] = {"softmax", "gelu", "relu", "star_relu"};

const Vocabulary* Find(std::span<const Vocabulary> list, std::string_view name) {
  auto found = std::ranges::find(list, name, &Vocabulary::name);
  return found == list.end() ? nullptr : &*found;
}

std::string Names(std::span<const Vocabulary> list) {
  std::string names;
  for (const Vocabulary& entry : list) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

// What is quoted of a text in an error: printable and short.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text.substr(0, 64)) {
    quoted += c >= ' ' && c <= '~' ? c : '?';
  }
  return quoted + (text.size() > 64 ? "...'" : "'");
}

[[noreturn]] void Refuse(std::string_view text, const std::string& why) {
  C10_THROW_ERROR(ValueError, "attention " + Quoted(text) + ": " + why);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

// Plain decimals only: "1e5", "inf", "0x1" and signs are not numbers here.
bool IsDecimal(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789.") == text.npos &&
         std::ranges::count(text, '.') <= 1 && text.front() != '.' && text.back() != '.';
}

std::optional<int64_t> ToInteger(std::string_view text) {
  int64_t value = 0;
  if (!IsDecimal(text) || text.find('.') != text.npos ||
      std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> ToReal(std::string_view text) {
  double value = 0;
  if (!IsDecimal(text) ||
      std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

// Shortest text that reads back as `value`, without an exponent.
std::string Decimal(double value) {
  std::array<char, 512> buffer;
  auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return std::string(buffer.data(), end.ptr);
}

KeyCount ParseKeyCount(std::string_view text, std::string_view value) {
  if (value.find('.') != value.npos) {
    std::optional<double> share = ToReal(value);
    if (!share || !(*share > 0 && *share <= 1)) {
      Refuse(text, "k=" + std::string(value) +
                       " is a share of the keys: it must be above 0 and at most 1.0");
    }
    return {.share = *share};
  }
  std::optional<int64_t> count = ToInteger(value);
  if (!count || *count < 1) {
    Refuse(text,
           "k must be a count of at least 1 (k=100) or a share of the keys with a decimal point "
           "(k=0.5)");
  }
  return {.count = *count};
}

double ParsePositive(std::string_view text, std::string_view name, std::string_view value) {
  std::optional<double> number = ToReal(value);
  if (!number || !(*number > 0)) {
    Refuse(text, std::string(name) + " must be a decimal number above 0");
  }
  return *number;
}

void SetOption(std::string_view text, std::string_view name, std::string_view value,
               AttentionSpec& spec) {
  if (name == "k") {
    spec.k = ParseKeyCount(text, value);
  } else if (name == "temperature") {
    spec.temperature = ParsePositive(text, name, value);
  } else if (name == "scale") {
    spec.scale = ParsePositive(text, name, value);
  } else if (name == "window") {
    std::optional<int64_t> window = ToInteger(value);
    if (!window || *window < 1) {
      Refuse(text, "window must be a whole number of at least 1");
    }
    spec.window = *window;
  } else if (name == "activation") {
    if (std::ranges::find(kActivations, value) == std::end(kActivations)) {
      Refuse(text, "activation is one of softmax, gelu, relu, star_relu");
    }
    spec.activation = std::string(value);
  }
}

void ParseOptions(std::string_view text, std::string_view options, AttentionSpec& spec) {
  const Vocabulary* module = Find(kModules, spec.module);
  const Vocabulary* core = Find(kCores, spec.core);
  auto takes = [](const Vocabulary* part, std::string_view option) {
    return part != nullptr && std::ranges::find(part->options, option) != part->options.end();
  };
  std::vector<std::string_view> seen;
  for (std::string_view option : Split(options, ',')) {
    size_t equals = option.find('=');
    std::string_view name = option.substr(0, equals);
    if (!takes(module, name) && !takes(core, name)) {
      Refuse(text, "there is no option " + Quoted(name) + " here");
    }
    if (std::ranges::find(seen, name) != seen.end()) {
      Refuse(text, "the option " + Quoted(name) + " stands twice");
    }
    seen.push_back(name);
    if (name == "exact") {
      if (equals != option.npos) {
        Refuse(text, "the option 'exact' takes no value");
      }
      spec.exact = true;
    } else if (equals == option.npos) {
      Refuse(text, "the option " + Quoted(name) + " needs a value");
    } else {
      SetOption(text, name, option.substr(equals + 1), spec);
    }
  }
}

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

int64_t KeyCount::Among(int64_t keys) const {
  if (count > 0) {
    return count;
  }
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(share * static_cast<double>(keys) + 0.5)));
}

AttentionSpec AttentionSpec::Parse(std::string_view text) {
  if (text.size() > kMaxTextLength) {
    Refuse(text,
           "a text of an attention has at most " + std::to_string(kMaxTextLength) + " characters");
  }
  size_t colon = text.find(':');
  std::string_view names = text.substr(0, colon);
  size_t slash = names.find('/');
  std::string_view first = names.substr(0, slash);
  AttentionSpec spec;
  if (Find(kModules, first) != nullptr) {
    spec.module = std::string(first);
  } else if (Find(kCores, first) != nullptr && slash == names.npos) {
    spec.core = std::string(first);
  } else if (Find(kCores, first) != nullptr) {
    Refuse(text, Quoted(first) + " is a core and stands behind the slash: module/core");
  } else {
    Refuse(text, "unknown name " + Quoted(first) + "; modules are " + Names(kModules) +
                     "; cores are " + Names(kCores));
  }
  if (!spec.module.empty()) {
    bool takes_core = Find(kModules, first)->takes_core;
    if (slash != names.npos) {
      std::string_view core = names.substr(slash + 1);
      if (Find(kCores, core) == nullptr) {
        Refuse(text, "unknown core " + Quoted(core) + "; cores are " + Names(kCores));
      }
      if (!takes_core) {
        Refuse(text, "the module '" + spec.module + "' has no core to choose");
      }
      spec.core = std::string(core);
    } else if (takes_core) {
      spec.core = "dense";
    }
  }
  if (colon != text.npos) {
    ParseOptions(text, text.substr(colon + 1), spec);
  }
  if (spec.core == "knn" && !spec.k) {
    Refuse(text, "knn needs k, a count of keys (knn:k=100) or a share of them (knn:k=0.5)");
  }
  return spec;
}

std::string AttentionSpec::Canonical(std::string_view own_module) const {
  bool module_options = window || activation || scale;
  bool name_module = !module.empty() && (module != own_module || core.empty() || module_options);
  std::string text = name_module ? module : core;
  if (name_module && !core.empty() && core != "dense") {
    text += "/" + core;
  }
  char separator = ':';
  auto option = [&](const std::string& spelled) {
    text += separator + spelled;
    separator = ',';
  };
  if (k && k->count > 0) {
    option("k=" + std::to_string(k->count));
  } else if (k) {
    std::string share = Decimal(k->share);
    option("k=" + share + (share.find('.') == share.npos ? ".0" : ""));
  }
  if (exact) {
    option("exact");
  }
  if (temperature != 1) {
    option("temperature=" + Decimal(temperature));
  }
  if (window) {
    option("window=" + std::to_string(*window));
  }
  if (activation) {
    option("activation=" + *activation);
  }
  if (scale) {
    option("scale=" + Decimal(*scale));
  }
  return text;
}

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
