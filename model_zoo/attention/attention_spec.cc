#include "model_zoo/attention/attention_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>

#include "model_zoo/attention/attention_table.h"
#include "model_zoo/attention/spec_text.h"
#include "model_zoo/quoted.h"

namespace fovea::models {
namespace {

constexpr size_t kMaxTextLength = 256;  // a label and a part of a URL

constexpr std::string_view kActivations[] = {"softmax", "gelu", "relu", "star_relu"};

template <typename Entry>
std::string Names(std::span<const Entry> list) {
  std::string names;
  for (const Entry& entry : list) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
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

int64_t ParseWhole(std::string_view text, std::string_view name, std::string_view value) {
  std::optional<int64_t> number = ToInteger(value);
  if (!number || *number < 1) {
    Refuse(text, std::string(name) + " must be a whole number of at least 1");
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
    spec.window = ParseWhole(text, name, value);
  } else if (name == "heads") {
    spec.heads = ParseWhole(text, name, value);
  } else if (name == "activation") {
    if (std::ranges::find(kActivations, value) == std::end(kActivations)) {
      Refuse(text, "activation is one of softmax, gelu, relu, star_relu");
    }
    if (value != "softmax") spec.activation = std::string(value);
  }
}

void ParseOptions(std::string_view text, std::string_view options, const AttentionTable& table,
                  AttentionSpec& spec) {
  const AttentionModuleEntry* module = FindEntry(table.modules, spec.module);
  const CoreEntry* core = FindEntry(table.cores, spec.core);
  auto takes = [](const auto* part, std::string_view option) {
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
    if (name == "exact" || name == "interpolate") {
      if (equals != option.npos) {
        Refuse(text, "the option " + Quoted(name) + " takes no value");
      }
      (name == "exact" ? spec.exact : spec.interpolate) = true;
    } else if (equals == option.npos) {
      Refuse(text, "the option " + Quoted(name) + " needs a value");
    } else {
      SetOption(text, name, option.substr(equals + 1), spec);
    }
  }
}

}  // namespace

int64_t KeyCount::Among(int64_t keys) const {
  if (count > 0) {
    return count;
  }
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(share * static_cast<double>(keys) + 0.5)));
}

AttentionSpec AttentionSpec::Parse(std::string_view text, const AttentionTable& table) {
  if (text.size() > kMaxTextLength) {
    Refuse(text,
           "a text of an attention has at most " + std::to_string(kMaxTextLength) + " characters");
  }
  size_t colon = text.find(':');
  std::string_view names = text.substr(0, colon);
  size_t slash = names.find('/');
  std::string_view first = names.substr(0, slash);
  AttentionSpec spec;
  if (FindEntry(table.modules, first) != nullptr) {
    spec.module = std::string(first);
  } else if (FindEntry(table.cores, first) != nullptr && slash == names.npos) {
    spec.core = std::string(first);
  } else if (FindEntry(table.cores, first) != nullptr) {
    Refuse(text, Quoted(first) + " is a core and stands behind the slash: module/core");
  } else {
    Refuse(text, "unknown name " + Quoted(first) + "; modules are " + Names(table.modules) +
                     "; cores are " + Names(table.cores));
  }
  if (!spec.module.empty()) {
    bool takes_core = FindEntry(table.modules, first)->takes_core;
    if (slash != names.npos) {
      std::string_view core = names.substr(slash + 1);
      if (FindEntry(table.cores, core) == nullptr) {
        Refuse(text, "unknown core " + Quoted(core) + "; cores are " + Names(table.cores));
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
    ParseOptions(text, text.substr(colon + 1), table, spec);
  }
  if (spec.core == "knn" && !spec.k) {
    Refuse(text, "knn needs k, a count of keys (knn:k=100) or a share of them (knn:k=0.5)");
  }
  return spec;
}

std::string AttentionSpec::Canonical() const {
  std::string text = module.empty() ? core : module;
  if (!module.empty() && !core.empty() && core != "dense") {
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
  if (heads) {
    option("heads=" + std::to_string(*heads));
  }
  if (interpolate) {
    option("interpolate");
  }
  return text;
}

}  // namespace fovea::models
