// The end of a port's connections, which gRPC itself cannot end.
#pragma once

#include <cstdint>

namespace fovea {

// Ends the TCP connections that this process accepted on `port`; what was written to them before
// still arrives. For the moment before grpc::Server::Shutdown: from there on, gRPC answers what
// still arrives with CANCELLED and no word, which tells a caller that it was its own doing. A
// connection that ends is UNAVAILABLE to every caller, and gRPC gives no other way to end one.
void CloseConnections(int port);

// Closes connections with more than `calls` open calls, without reading more from them, and returns
// how many. gRPC 1.51 limits only callers that acknowledge its limit (docs/faults.md, row 107).
// Checks every connection of gRPC's servers in this process. Throws std::bad_alloc.
int CloseCrowdedConnections(int port, int64_t calls);

}  // namespace fovea
