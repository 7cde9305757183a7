#include "server/check/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/core/log.h"

namespace fovea {

std::string ReportText(const std::vector<CheckedFolder>& folders) {
  std::string text;
  for (const CheckedFolder& folder : folders) {
    const std::string path = EscapeForLog(folder.path.string());
    for (const Finding& finding : folder.findings) {
      absl::StrAppend(&text, path, ": ");
      if (finding.version != 0) absl::StrAppend(&text, "version ", finding.version, ": ");
      absl::StrAppend(&text, EscapeForLog(finding.sentence), "\n");
    }
    if (!folder.findings.empty()) continue;
    absl::StrAppend(&text, path, ": ok (version", folder.versions.size() == 1 ? " " : "s ",
                    absl::StrJoin(folder.versions, ", "), ")",
                    folder.fast_decode ? ", fast_decode" : "", "\n");
  }
  return text;
}

std::string ReportJson(const std::vector<CheckedFolder>& folders) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  bool all_ok = true;
  for (const CheckedFolder& folder : folders) {
    ordered_json findings = ordered_json::array();
    for (const Finding& finding : folder.findings) {
      ordered_json& row = findings.emplace_back();
      row["version"] = finding.version == 0 ? ordered_json() : ordered_json(finding.version);
      row["file"] = finding.file.empty() ? ordered_json() : ordered_json(finding.file);
      row["line"] = finding.line == 0 ? ordered_json() : ordered_json(finding.line);
      row["reason"] = finding.reason;
      row["message"] = finding.sentence;
    }
    all_ok &= folder.findings.empty();
    list.push_back({{"path", folder.path.string()},
                    {"ok", folder.findings.empty()},
                    {"versions", folder.versions},
                    {"fast_decode", folder.fast_decode},
                    {"findings", std::move(findings)}});
  }
  const ordered_json document = {{"ok", all_ok}, {"folders", std::move(list)}};
  // A file may be called anything: bytes that are no UTF-8 become U+FFFD.
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace fovea
