// Which calls are made again where a server refuses them or goes away, and how often. Internal to
// the library.
#pragma once

#include <string>

namespace fovea::client {

// gRPC's service config (JSON) for a channel.
//
// `max_attempts`, in [1, 5]: how often a call is made that is answered UNAVAILABLE, or whose
// connection breaks. Only inference and questions about models are made again: asked twice, they
// harm nobody. A load, an unload and a question how things are now (health) are made once, and so
// are streams, whose answers have been read. Between two attempts there are about 0.1, 0.2 and 0.4
// s, each up to a fifth shorter or longer, so that callers do not come back together. The call's
// deadline bounds all of its attempts.
//
// Calls that are made again have a budget, which all channels of the process to one address share.
// When calls fail one after the other, a hundred are made again, and from then on one for every ten
// that succeed. So a server that is overloaded is not asked several times as much.
//
// `balance`: calls go in turn to all addresses that the server's name has, in place of the first
// that answers.
std::string ServiceConfig(int max_attempts, bool balance);

}  // namespace fovea::client
