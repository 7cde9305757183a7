// What was measured as CSV, RFC 4180. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fovea::client {

// The fields of `object` as those of one row, named as Python's to_frame() names its columns: what
// is nested is FIELD_PART, and quartiles are FIELD_q1, FIELD_median and FIELD_q3.
nlohmann::ordered_json Flat(const nlohmann::ordered_json& object);

// A head and a line for each of `rows`, which are flat. Its columns are all fields that a row has,
// in the order in which they first occur; what a row lacks is empty. A text that a spreadsheet would
// run as a formula has an apostrophe in front: others chose names of models and labels.
std::string Csv(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace fovea::client
