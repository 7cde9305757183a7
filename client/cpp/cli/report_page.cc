#include "client/cpp/cli/report_page.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

// The colours of bars and curves can be told apart by everybody (Okabe and Ito's), on white and on
// black.
constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --quiet: #5d646d; --line: #b9bfc7;
  --part-0: #0072b2; --part-1: #e69f00; --part-2: #009e73; --part-3: #cc79a7; --part-4: #8a919b;
  --curve-0: #0072b2; --curve-1: #d55e00; --curve-2: #009e73; --curve-3: #cc79a7;
  --curve-4: #56b4e9; --curve-5: #e69f00; --curve-6: #3c3c3c; --curve-7: #968214; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e8eaed; --quiet: #9aa2ac;
  --line: #4a5058; --part-0: #56b4e9; --curve-0: #3f9fe0; --curve-4: #9ad2f5; --curve-6: #c8ccd1;
  --curve-7: #d6c24a; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p.quiet, pre { color: var(--quiet); } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
/* Curves stand beside each other where there is room. What is wider than the window is moved by
   itself, with a shadow where it goes on. */
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  column-gap: 2rem; }
section { grid-column: 1 / -1; min-width: 0; } section:has(svg.curves) { grid-column: auto; }
div.wide { overflow-x: auto; background:
  linear-gradient(90deg, var(--paper) 2rem, transparent) left / 4rem 100% no-repeat local,
  linear-gradient(270deg, var(--paper) 2rem, transparent) right / 4rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) left / 1rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--line), transparent) right / 1rem 100% no-repeat scroll; }
svg { width: 100%; max-width: 60rem; min-width: 40rem; height: auto; display: block; }
svg.curves { min-width: 30rem; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
)";

}  // namespace

std::string HtmlTable(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table>";
  for (size_t row = 0; row < rows.size(); ++row) {
    html += "<tr>";
    for (size_t column = 0; column < rows[row].size(); ++column) {
      const char* const open = row == 0      ? "<th scope=\"col\">"
                               : column == 0 ? "<th scope=\"row\">"
                                             : "<td>";
      absl::StrAppend(&html, open, HtmlText(rows[row][column]),
                      row == 0 || column == 0 ? "</th>" : "</td>");
    }
    html += "</tr>";
  }
  return html + "</table>";
}

std::string ReportSection(const std::string& title, const std::string& content,
                          const std::string& explanation) {
  return absl::StrCat("<section><h2>", HtmlText(title), "</h2>\n<p class=\"quiet\">",
                      HtmlText(explanation), "</p>\n<div class=\"wide\">", content,
                      "</div></section>\n");
}

std::string ReportPage(const std::string& title, const std::string& conditions,
                       const std::string& provenance, const std::string& command,
                       const std::vector<std::string>& notes, const std::string& sections) {
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      HtmlText(title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<h1>",
      HtmlText(title), "</h1>\n<p>", HtmlText(conditions), ". ", HtmlText(provenance),
      "</p>\n<pre>", HtmlText(command), "</pre>\n");
  for (const std::string& note : notes) absl::StrAppend(&html, "<p>", HtmlText(note), "</p>\n");
  return html + "<main>\n" + sections + "</main>\n</body>\n</html>\n";
}

}  // namespace fovea::client
