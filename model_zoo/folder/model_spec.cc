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

// Keeps the first error: the ones that follow are often its consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& text) override {
    if (status_.ok()) status_ = SpecFileError(line, InOurWords(text));
  }
  const absl::Status& status() const { return status_; }

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

  absl::Status status_;
};

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
                                         std::string_view config_override) {
  if (text.size() > static_cast<size_t>(limits::kMaxModelSpecBytes)) {
    return SpecFileError(-1,
                         "longer than " + std::to_string(limits::kMaxModelSpecBytes) + " bytes");
  }
  v1::ModelSpec message;
  TextFormat::ParseInfoTree tree;
  FirstError errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&tree);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &message)) {
    return errors.status().ok() ? SpecFileError(-1, "not a model spec") : errors.status();
  }
  absl::StatusOr<ModelSpec> spec =
      ToModelSpec(message, SpecOrigin::File(message.GetDescriptor(), &tree), folder);
  if (!spec.ok() || config_override.empty()) return spec;

  FOVEA_RETURN_IF_ERROR(ApplyConfigOverride(config_override, folder, &message));
  return ToModelSpec(message, SpecOrigin::Override(message.GetDescriptor()), folder);
}

}  // namespace fovea
