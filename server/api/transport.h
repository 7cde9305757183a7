// A protocol's connections, as the server's end sees them.
#pragma once

#include "server/core/clock.h"

namespace fovea {

class Transport {
 public:
  virtual ~Transport() = default;

  // Every stream, now and later, answers what it has received, takes no more, and ends UNAVAILABLE;
  // connections that go on from request to request end with the next answer.
  virtual void DrainStreams() = 0;
  // Blocks until every stream has ended or `until` has come.
  virtual void AwaitStreams(Nanos until) = 0;
  // Takes who is connected by then, and no more, and gives its port up.
  virtual void StopListening() = 0;
  // Ends the connections and every call that is under way. Later calls do nothing.
  virtual void Close() = 0;
};

}  // namespace fovea
