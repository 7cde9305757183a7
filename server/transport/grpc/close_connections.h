// The end of every connection of a port, before gRPC's own.
#pragma once

namespace fovea {

// Ends the TCP connections that this process accepted on `port`; what was written to them before
// still arrives. For the moment before grpc::Server::Shutdown: from there on, gRPC answers what
// still arrives with CANCELLED and no word, which tells a caller that it was its own doing. A
// connection that ends is UNAVAILABLE to every caller, and gRPC gives no other way to end one.
void CloseConnections(int port);

}  // namespace fovea
