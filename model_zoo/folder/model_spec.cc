#include "model_zoo/folder/model_spec.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "model_zoo/folder/config_override.h"
#include "model_zoo/folder/spec_conversion.h"
#include "proto/fovea/v1/model_spec.pb.h"

namespace fovea {
namespace {

using google::protobuf::TextFormat;

// Notes every unknown field, which the parser then passes over with a warning, and the first error
// of the syntax: the ones that follow are often its consequences.
class ParseErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit ParseErrors(SpecErrors& errors) : errors_(errors) {}

  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& text) override {
    if (!std::exchange(stopped_, true)) errors_.Add(SpecFileError(line, InOurWords(text)));
  }
  void AddWarning(int line, google::protobuf::io::ColumnNumber, const std::string& text) override {
    errors_.Add(SpecFileError(line, InOurWords(text)));
  }

 private:
  // Message type "fovea.v1.Head" has no field named "nmae". -> unknown field "nmae"
  static std::string InOurWords(const std::string& text) {
    constexpr std::string_view kMarker = " has no field named ";
    const size_t marker = text.find(kMarker);
    if (marker == std::string::npos) return text;
    std::string name = text.substr(marker + kMarker.size());
    if (name.ends_with('.')) name.pop_back();
    return "unknown field " + name;
  }

  SpecErrors& errors_;
  bool stopped_ = false;
};

// The line, from 0, where messages stand in each other more deeply than any that a spec has; -1:
// nowhere. The parser passes over what it does not know with a call a level, and has no limit
// there.
int TooDeepLine(std::string_view text) {
  constexpr int kDeepest = 16;
  int line = 0, depth = 0;
  char quote = '\0';  // of the string that is open
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      comment = false;
      quote = '\0';  // a string ends with its line
    } else if (comment) {
      continue;
    } else if (quote != '\0') {
      if (c == '\\' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
      if (c == quote) quote = '\0';
    } else if (c == '#') {
      comment = true;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '<' || c == '[') {
      if (++depth > kDeepest) return line;
    } else if (c == '}' || c == '>' || c == ']') {
      depth = std::max(0, depth - 1);
    }
  }
  return -1;
}

absl::StatusOr<ModelSpec> Parse(std::string_view text, std::string_view folder,
                                std::string_view config_override, SpecErrors& errors) {
  if (text.size() > static_cast<size_t>(limits::kMaxModelSpecBytes)) {
    errors.Add(
        SpecFileError(-1, "longer than " + std::to_string(limits::kMaxModelSpecBytes) + " bytes"));
    return errors.first();
  }
  if (const int line = TooDeepLine(text); line >= 0) {
    errors.Add(SpecFileError(line, "messages stand in each other too deeply"));
    return errors.first();
  }
  v1::ModelSpec message;
  TextFormat::ParseInfoTree tree;
  ParseErrors collector(errors);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&tree);
  parser.AllowUnknownField(true);  // an error all the same, and not the end of the reading
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &message)) {
    if (errors.empty()) errors.Add(SpecFileError(-1, "not a model spec"));
    return errors.first();
  }
  absl::StatusOr<ModelSpec> spec =
      ToModelSpec(message, SpecOrigin::File(message.GetDescriptor(), &tree), folder, errors);
  if (!spec.ok() || config_override.empty()) return spec;

  FOVEA_RETURN_IF_ERROR(ApplyConfigOverride(config_override, folder, &message));
  return ToModelSpec(message, SpecOrigin::Override(message.GetDescriptor()), folder, errors);
}

}  // namespace

models::Preprocessing PreprocessingOverride::AppliedTo(models::Preprocessing published) const {
  if (resize_mode) {
    published.resize_mode = *resize_mode;
    // The published fraction is of the published mode; who squashes crops only where he says so.
    if (*resize_mode == models::ResizeMode::kSquash) published.crop_fraction = 1;
  }
  if (interpolation) published.interpolation = *interpolation;
  if (crop_fraction) published.crop_fraction = *crop_fraction;
  if (shorter_side) published.shorter_side = *shorter_side;
  if (longer_side) published.longer_side = *longer_side;
  if (mean) published.mean = *mean;
  if (std) published.std = *std;
  // No backbone is published with these.
  published.crop_offset = crop_offset;
  published.fast_decode = fast_decode;
  return published;
}

std::vector<int64_t> VersionPolicy::Select(std::span<const int64_t> available) const {
  std::vector<int64_t> selected;
  switch (kind) {
    case Kind::kAll:
      selected.assign(available.begin(), available.end());
      break;
    case Kind::kSpecific:
      std::set_intersection(available.begin(), available.end(), specific.begin(), specific.end(),
                            std::back_inserter(selected));
      break;
    case Kind::kLatest:
      const size_t count = std::min(available.size(), static_cast<size_t>(latest));
      selected.assign(available.end() - count, available.end());
      break;
  }
  return selected;
}

absl::StatusOr<ModelSpec> ParseModelSpec(std::string_view text, std::string_view folder,
                                         std::string_view config_override,
                                         std::vector<absl::Status>* problems) {
  SpecErrors errors;
  absl::StatusOr<ModelSpec> spec = Parse(text, folder, config_override, errors);
  if (problems != nullptr) {
    problems->insert(problems->end(), errors.all().begin(), errors.all().end());
  }
  return spec;
}

}  // namespace fovea
