// A request of the port, as the handlers of its paths see it: its body, what its path names, and
// how it is answered.
#pragma once

#include <atomic>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/deferred_calls.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/http/http_status.h"
#include "server/transport/http/infer_http.h"

namespace fovea {

// With `text` as its body, which is JSON.
HttpAnswer JsonAnswer(std::string text,
                      boost::beast::http::status code = boost::beast::http::status::ok);

struct PathCall {
  HttpContext& context;
  std::shared_ptr<HttpExchange> exchange;
  std::vector<std::string> names;  // what the path's pattern has in braces, in its order

  // The one with that number; empty where the pattern has fewer.
  std::string Name(size_t number) const { return number < names.size() ? names[number] : ""; }
  ServerApi& api() const { return context.api; }
  void Answer(absl::StatusOr<std::string> json) const {
    exchange->Answer(json.ok() ? JsonAnswer(*std::move(json)) : ErrorAnswer(json.status()));
  }
};

// Who sends `request`, asked for a method of `group`.
Caller CallerOf(const HttpContext& context, const HttpRequest& request, ApiGroup group);

// The body of a call without tensors: an object, or nothing at all. Counted in the memory of
// requests while it is read. INVALID_ARGUMENT request.json; RESOURCE_EXHAUSTED request.too_large;
// RequestMemory::Take's errors.
absl::StatusOr<nlohmann::json> ReadObject(const PathCall& call, int64_t max_bytes);

// Whether the caller of `call` has gone. Before its handler returns.
std::shared_ptr<const std::atomic<bool>> NoteGone(const PathCall& call);

// Answers later, from another thread: `start(WaitingCaller<Answer>)` asks the api, `respond` makes
// the JSON of what it says, an absl::Status or an absl::StatusOr that is OK.
template <typename Answer, typename Start, typename Respond>
void AnswerLater(const PathCall& call, std::shared_ptr<const std::atomic<bool>> gone, Start start,
                 Respond respond) {
  start(WaitingCaller<Answer>{.gone = [gone] { return gone->load(); },
                              .done =
                                  [exchange = call.exchange, respond](Answer answer) {
                                    absl::Status status;
                                    if constexpr (std::is_same_v<Answer, absl::Status>) {
                                      status = answer;
                                    } else {
                                      status = answer.status();
                                    }
                                    exchange->Answer(status.ok() ? JsonAnswer(respond(answer))
                                                                 : ErrorAnswer(status));
                                  }});
}

template <typename Answer, typename Start, typename Respond>
void AnswerLater(const PathCall& call, Start start, Respond respond) {
  AnswerLater<Answer>(call, NoteGone(call), std::move(start), std::move(respond));
}

}  // namespace fovea
