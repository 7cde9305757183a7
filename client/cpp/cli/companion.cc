#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"

namespace fovea::client {
namespace {

std::string Find(const std::string& program, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string path = absl::StrCat(folder, "/", program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace

int RunCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& folders, const Console& console) {
  const std::string program = Find(companion.program, folders);
  if (program.empty()) {
    console.err << "fovea: " << companion.program << " is not installed: " << companion.comes_from
                << '\n';
    return kRequestFailed;
  }
  console.out.flush();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  if (int error = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environ)) {
    console.err << "fovea: cannot run " << program << ": " << std::strerror(error) << '\n';
    return kRequestFailed;
  }
  int outcome = 0;
  while (::waitpid(child, &outcome, 0) < 0) {
    if (errno != EINTR) return kRequestFailed;
  }
  // As a shell says it, where a signal ended it.
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 128 + WTERMSIG(outcome);
}

}  // namespace fovea::client
