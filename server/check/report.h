// What `fovea check` prints.
#pragma once

#include <string>
#include <vector>

#include "server/check/folder_check.h"

namespace fovea {

// A line for each finding, "FOLDER: sentence", and one for each folder without any, "FOLDER: ok
// (version 1)". Fit for a terminal and for grep, whatever a file is called.
std::string ReportText(const std::vector<CheckedFolder>& folders);

// {"ok": ..., "folders": [{"path", "ok", "versions", "findings": [{"version", "file", "line",
// "reason", "message"}]}]}; version, file and line are null where there is none.
std::string ReportJson(const std::vector<CheckedFolder>& folders);

}  // namespace fovea
