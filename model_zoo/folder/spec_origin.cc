#include "model_zoo/folder/spec_origin.h"

#include "base/check.h"
#include "base/status.h"
#include "model_zoo/folder/file_error.h"
#include "model_zoo/folder/model_spec.h"

namespace fovea {

using google::protobuf::FieldDescriptor;

const FieldDescriptor* SpecOrigin::Field(const char* name) const {
  const FieldDescriptor* const field = type_->FindFieldByName(name);
  FOVEA_CHECK(field != nullptr);
  return field;
}

SpecOrigin SpecOrigin::In(const char* field) const {
  const FieldDescriptor* const nested = Field(field);
  FOVEA_CHECK(!nested->is_repeated());
  return SpecOrigin(nested->message_type(),
                    tree_ == nullptr ? nullptr : tree_->GetTreeForNested(nested, -1), is_file_);
}

SpecOrigin SpecOrigin::InMap(const char* field) const {
  const FieldDescriptor* const map = Field(field);
  FOVEA_CHECK(map->is_map());
  return SpecOrigin(map->message_type()->map_value()->message_type(), nullptr, is_file_);
}

absl::Status SpecOrigin::Error(const char* field, std::string_view text, int index) const {
  if (!is_file_) return InvalidArgument("config.invalid", "config: " + std::string(text));
  int line = -1;
  if (tree_ != nullptr) {
    const FieldDescriptor* const at = Field(field);
    line = tree_->GetLocation(at, at->is_repeated() ? index : -1).line;
  }
  return SpecFileError(line, text);
}

absl::Status SpecFileError(int line, std::string_view text) {
  return FileError("model.bad_spec", kSpecFile, line + 1, text);
}

}  // namespace fovea
