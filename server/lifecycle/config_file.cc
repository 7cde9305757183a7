#include "server/lifecycle/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <istream>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/did_you_mean.h"

namespace fovea {
namespace {

[[noreturn]] void Refuse(const toml::source_region& where, const std::string& why) {
  throw CLI::ConfigError(absl::StrCat("line ", where.begin.line, ": ", why));
}

// The parser's message, after the beginning of the wrong line.
std::string WhyNoToml(const toml::parse_error& error, const std::string& text) {
  constexpr size_t kShown = 80;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const size_t number = error.source().begin.line;
  std::string why(error.description());
  if (absl::StrContains(why, "could not determine value type")) {
    absl::StrAppend(&why, "; strings stand in quotes");
  }
  if (number == 0 || number > lines.size()) return why;
  return absl::StrCat("'", absl::Utf8SafeCEscape(lines[number - 1].substr(0, kShown)), "': ", why);
}

std::vector<std::string> KeysOf(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* flag : app.get_options()) {
    if (flag->get_configurable()) keys.push_back(flag->get_single_name());
  }
  return keys;
}

// As it would stand on the command line; nothing where no flag takes such a value.
std::optional<std::string> FlagText(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* number = value.as_integer()) return absl::StrCat(number->get());
  if (const auto* number = value.as_floating_point())
    return absl::StrFormat("%.17g", number->get());
  if (const auto* truth = value.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

// The values of a key: those of an array, or the one.
std::vector<std::string> FlagTexts(absl::string_view key, const toml::node& value) {
  std::vector<std::string> texts;
  const auto add = [&](const toml::node& one) {
    std::optional<std::string> text = FlagText(one);
    if (!text) {
      Refuse(one.source(), absl::StrCat(key,
                                        " takes numbers, strings, true and false, and arrays "
                                        "of these"));
    }
    texts.push_back(*std::move(text));
  };
  if (const auto* array = value.as_array()) {
    for (const toml::node& one : *array) add(one);
  } else {
    add(value);
  }
  // A file's name, say, that somebody left out would come to mean that there is none.
  if (std::ranges::find(texts, "") != texts.end()) {
    Refuse(value.source(), absl::StrCat(key, " is empty: leave it out where there is none"));
  }
  return texts;
}

bool IsSet(const std::string& environment_variable) {
  if (environment_variable.empty()) return false;
  const char* value = std::getenv(environment_variable.c_str());
  return value != nullptr && *value != '\0';
}

// Values accepted for a flag that takes none. CLI11 would accept any number as true.
constexpr std::string_view kTruths[] = {"true", "false", "1", "0"};

constexpr std::string_view kEmpty = "\"\"";

// A value of TOML: numbers and truths bare, everything else in quotes.
std::string TomlValue(const std::string& text) {
  int64_t number;
  const bool bare = absl::SimpleAtoi(text, &number) || text == "true" || text == "false";
  if (bare && text == absl::StripAsciiWhitespace(text) && text.front() != '+') return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&quoted, "\\u%04X", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string TomlArray(const std::vector<std::string>& texts) {
  std::string array = "[";
  for (const std::string& text : texts) {
    absl::StrAppend(&array, array.size() == 1 ? "" : ", ", TomlValue(text));
  }
  return array + "]";
}

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  toml::table table;
  const std::string text(std::istreambuf_iterator<char>(input), {});
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    Refuse(error.source(), WhyNoToml(error, text));
  }
  lines_.clear();
  std::vector<CLI::ConfigItem> items;
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const CLI::Option* flag = app_.get_option_no_throw("--" + name);
    if (flag == nullptr || !flag->get_configurable()) {
      Refuse(key.source(), absl::StrCat("unknown key '", name,
                                        "'; the keys are the flags of "
                                        "fovea-server --help, without their dashes",
                                        DidYouMean(name, KeysOf(app_))));
    }
    lines_[name] = static_cast<int>(key.source().begin.line);
    std::vector<std::string> texts = FlagTexts(name, value);
    const bool without_value = flag->get_expected_min() == 0;
    if (without_value &&
        (texts.size() != 1 || std::ranges::find(kTruths, texts[0]) == std::end(kTruths))) {
      Refuse(value.source(), absl::StrCat(name, " takes true or false"));
    }
    if (texts.empty() || IsSet(flag->get_envname())) continue;
    CLI::ConfigItem item;
    item.name = name;
    item.inputs = std::move(texts);
    items.push_back(std::move(item));
  }
  return items;
}

std::string ConfigFile::to_config(const CLI::App* app, bool /*default_also*/,
                                  bool /*write_description*/, std::string /*prefix*/) const {
  std::string file;
  for (const CLI::Option* flag : app->get_options()) {
    if (!flag->get_configurable()) continue;
    std::string value;
    if (flag->get_expected_max() > 1) {
      value = TomlArray(flag->results());  // no flag of several values has another default
    } else if (flag->count() > 0) {
      value = TomlValue(flag->results().back());
    } else {
      const bool truth = flag->get_expected_min() == 0;
      value = truth ? "false" : TomlValue(flag->get_default_str());
    }
    // Values that would be refused are commented out: empty ones, and flags that need those.
    const bool remark = value == kEmpty || (flag->count() == 0 && !flag->get_needs().empty());
    absl::StrAppend(&file, remark ? "# " : "", flag->get_single_name(), " = ", value, "\n");
  }
  return file;
}

}  // namespace fovea
