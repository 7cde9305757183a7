// Where the fields of a spec were read, so that an error can say it. Internal to the spec's parser.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"

namespace fovea {

// The errors of one reading of a spec, which goes on behind an error: who mends a spec is told all
// of them at once.
class SpecErrors {
 public:
  // Keeps `status` where it is an error, and not one too many to be read.
  void Add(absl::Status status) {
    if (!status.ok() && all_.size() < limits::kMaxProblemsOfAFile) {
      all_.push_back(std::move(status));
    }
  }
  bool empty() const { return all_.empty(); }
  // OK where there is none.
  absl::Status first() const { return all_.empty() ? absl::OkStatus() : all_.front(); }
  const std::vector<absl::Status>& all() const { return all_; }

 private:
  std::vector<absl::Status> all_;
};

// One message of a spec. Cheap to copy; refers to the parser's tree.
class SpecOrigin {
 public:
  // Of a file, whose lines are known: `tree` is the parser's.
  static SpecOrigin File(const google::protobuf::Descriptor* type,
                         google::protobuf::TextFormat::ParseInfoTree* tree) {
    return SpecOrigin(type, tree, /*is_file=*/true);
  }
  // Of a caller's override, which has no lines worth telling.
  static SpecOrigin Override(const google::protobuf::Descriptor* type) {
    return SpecOrigin(type, nullptr, /*is_file=*/false);
  }

  // The message in the singular field `field`.
  SpecOrigin In(const char* field) const;
  // A message in the map `field`. It has no lines: the parser does not tell which entry is which.
  SpecOrigin InMap(const char* field) const;

  // FAILED_PRECONDITION "model.textproto:LINE: `text`" (FileError) for a file, INVALID_ARGUMENT
  // "config: `text`" for an override. `field` is the one at fault; `index` its element where it is
  // repeated. A field that is absent has no line.
  absl::Status Error(const char* field, std::string_view text, int index = 0) const;

 private:
  SpecOrigin(const google::protobuf::Descriptor* type,
             google::protobuf::TextFormat::ParseInfoTree* tree, bool is_file)
      : type_(type), tree_(tree), is_file_(is_file) {}

  const google::protobuf::FieldDescriptor* Field(const char* name) const;

  const google::protobuf::Descriptor* type_;
  google::protobuf::TextFormat::ParseInfoTree* tree_;  // null: no lines
  bool is_file_;
};

// The error of a file at a line, counted from 0; -1: of the whole file.
absl::Status SpecFileError(int line, std::string_view text);

}  // namespace fovea
