#include "server/transport/grpc/library_logs.h"

#include <google/protobuf/stubs/common.h>
#include <grpc/support/log.h>
#include <grpcpp/version_info.h>

#include "absl/strings/str_cat.h"
#include "server/core/log.h"

// Later releases of both write through Abseil's log, which the program's owner directs.
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#define FOVEA_PROTOBUF_LOGS 1
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 66
#define FOVEA_GRPC_LOGS 1
#endif

namespace fovea {

void RedirectLibraryLogs() {
#ifdef FOVEA_PROTOBUF_LOGS
  google::protobuf::SetLogHandler(nullptr);
#endif
#ifdef FOVEA_GRPC_LOGS
  gpr_set_log_function([](gpr_log_func_args* line) {
    if (line->severity < GPR_LOG_SEVERITY_ERROR) return;
    Log(LogLevel::kWarning, absl::StrCat("gRPC: ", line->message));
  });
#endif
}

}  // namespace fovea
