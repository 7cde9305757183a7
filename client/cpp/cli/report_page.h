// What the pages of reports have in common: one HTML file that needs no other, light and dark.
// Pure.
#pragma once

#include <string>
#include <vector>

namespace fovea::client {

// The first row is its head. The first column names the others' rows.
std::string HtmlTable(const std::vector<std::vector<std::string>>& rows);

// `content` is HTML, the others are texts.
std::string ReportSection(const std::string& title, const std::string& content,
                          const std::string& explanation);

// Sections under a title, what was measured where and by which command, and sentences that are to
// be known of it.
std::string ReportPage(const std::string& title, const std::string& conditions,
                       const std::string& provenance, const std::string& command,
                       const std::vector<std::string>& notes, const std::string& sections);

}  // namespace fovea::client
