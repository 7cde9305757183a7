#include "server/tracing/random_id.h"

#include <random>

namespace fovea {
namespace {

uint64_t RandomBits() {
  thread_local std::mt19937_64 generator([] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(),
                       device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }());
  return generator();
}

}  // namespace

TraceId RandomTraceId() {
  TraceId trace;
  do {
    trace = {RandomBits(), RandomBits()};
  } while (!trace.valid());
  return trace;
}

SpanId RandomSpanId() {
  SpanId span;
  do {
    span = RandomBits();
  } while (span == 0);
  return span;
}

}  // namespace fovea
