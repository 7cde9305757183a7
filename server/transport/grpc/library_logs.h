// What gRPC and protobuf have to say goes to our log, or nowhere.
#pragma once

namespace fovea {

// gRPC's errors become warnings of ours, escaped as all lines are: they quote what callers sent.
// Protobuf's, a line for every string of a caller's that is not UTF-8, are dropped: the caller is
// told. For the whole process; may be repeated.
void RedirectLibraryLogs();

}  // namespace fovea
