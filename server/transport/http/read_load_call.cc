#include "server/transport/http/read_load_call.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/core/request_memory.h"
#include "server/transport/http/contiguous.h"

namespace fovea {
namespace {

using nlohmann::json;

constexpr std::string_view kFile = "file:";

absl::Status BadBody() {
  return InvalidArgument("request.json", "the body is no JSON object, or names something twice");
}

// Hears what the parser finds. Everything but the texts of 'parameters' is passed over, nulls too.
// False ends the parsing, with `error` set.
class LoadBody final : public nlohmann::json_sax<json> {
 public:
  bool start_object(std::size_t) override {
    if (depth_ == 1) in_parameters_ = names_parameters_;
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_parameters_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!PassOver()) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      names_parameters_ = name == "parameters";
      return Note(name, members_);
    }
    if (!IsParameter()) return true;
    load.parameters.emplace_back().name = name;
    return Note(name, names_);
  }
  bool string(std::string& value) override {
    if (!IsParameter()) return PassOver();
    LoadCall::Parameter& parameter = load.parameters.back();
    if (!parameter.name.starts_with(kFile)) {
      parameter.text = std::move(value);
      return CountText(parameter.text->size());
    }
    if (!absl::Base64Unescape(value, &parameter.bytes.emplace())) {
      return Fail(InvalidArgument("repository.file_encoding",
                                  absl::StrCat(InQuotes(parameter.name), " is no base64")));
    }
    file_bytes += static_cast<int64_t>(parameter.bytes->size());
    return file_bytes <= limits::kMaxSentFileBytes ||
           Fail(TooLarge("files", limits::kMaxSentFileBytes));
  }
  // Counts as a member that is not there.
  bool null() override {
    if (IsParameter()) load.parameters.pop_back();
    return depth_ > 0 || PassOver();
  }
  bool boolean(bool) override { return PassOver(); }
  bool number_integer(number_integer_t) override { return PassOver(); }
  bool number_unsigned(number_unsigned_t) override { return PassOver(); }
  bool number_float(number_float_t, const string_t&) override { return PassOver(); }
  bool binary(binary_t&) override { return PassOver(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(BadBody());
  }

  LoadCall load;
  int64_t file_bytes = 0;
  absl::Status error;

 private:
  using Names = std::set<std::string>;

  static absl::Status TooLarge(const char* what, int64_t bytes) {
    return ResourceExhausted("request.too_large",
                             absl::StrCat(what, " of more than ", bytes, " bytes in one load"));
  }
  bool Fail(absl::Status why) {
    if (error.ok()) error = std::move(why);
    return false;
  }
  // Whether what comes now is a member of 'parameters', or its name.
  bool IsParameter() const { return depth_ == 2 && in_parameters_; }
  // Of a value that is no object, and says nothing here.
  bool PassOver() {
    if (depth_ == 0) return Fail(BadBody());
    if (depth_ > 1 || !names_parameters_) return true;
    return Fail(InvalidArgument("request.json", "'parameters' is no object"));
  }
  bool Note(const std::string& name, Names& names) {
    if (!names.insert(name).second) return Fail(BadBody());
    if (names.size() > limits::kMaxParametersPerRequest) {
      return Fail(InvalidArgument(
          "request.parameter_count",
          absl::StrCat("more than ", limits::kMaxParametersPerRequest, " parameters")));
    }
    return CountText(name.size());
  }
  bool CountText(size_t bytes) {
    text_bytes_ += static_cast<int64_t>(bytes);
    return text_bytes_ <= limits::kMaxLoadTextBytes ||
           Fail(TooLarge("parameters beside its files", limits::kMaxLoadTextBytes));
  }

  int depth_ = 0;                  // objects and arrays that are open
  bool names_parameters_ = false;  // the member of the body that is being read
  bool in_parameters_ = false;
  Names members_, names_;  // of the body, and of 'parameters'
  int64_t text_bytes_ = 0;
};

}  // namespace

absl::StatusOr<LoadCall> ReadLoadCall(const HttpRequest& request, MemoryBudget& budget) {
  if (request.body_bytes == 0) return LoadCall();
  if (request.body_bytes > limits::kMaxLoadMessageBytes) {
    return ResourceExhausted(
        "request.too_large",
        absl::StrCat("a body of more than ", limits::kMaxLoadMessageBytes, " bytes"));
  }
  // The text in one piece, a value as it is read, in a text that doubles, and what it decodes to.
  constexpr int64_t kTimes = 4;
  const auto memory = std::make_shared<RequestMemory>(budget);
  FOVEA_RETURN_IF_ERROR(memory->Take(kTimes * request.body_bytes));
  LoadBody body;
  {
    const ContiguousText text = Gather(request.body, request.body_bytes, 0);
    if (!json::sax_parse(text.text, &body)) return body.error;
  }
  memory->KeepOnly(body.file_bytes + body.load.LargestFile());
  body.load.memory = memory;
  return std::move(body.load);
}

}  // namespace fovea
