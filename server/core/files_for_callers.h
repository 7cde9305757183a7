// How many file descriptors callers may take.
#pragma once

namespace fovea {

// What callers make the process hold (a connection, a region of shared memory) has a descriptor
// below this, or is refused: limits::kReservedFiles are left for the rest, or half of them where
// there are few. The system gives a new descriptor the lowest number that is free: one as high as
// this tells that all below are in use.
int FilesForCallers();

}  // namespace fovea
