#include "client/cpp/cli/companion.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_descriptor.h"

namespace fovea::client {
namespace {

std::string Find(const std::string& program, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string path = absl::StrCat(folder, "/", program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// Empty, and said, where it is not there.
std::string FindOrSay(const Companion& companion, const std::vector<std::string>& folders,
                      const Console& console) {
  std::string program = Find(companion.program, folders);
  if (program.empty()) {
    console.err << "fovea: " << companion.program
                << " is neither beside fovea nor on PATH: " << companion.comes_from << '\n';
  }
  return program;
}

// Refers to both.
std::vector<char*> Argv(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

int CannotRun(const std::string& program, int error, const Console& console) {
  console.err << "fovea: cannot run " << program << ": " << std::strerror(error) << '\n';
  return kRequestFailed;
}

}  // namespace

std::filesystem::path OwnFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::vector<std::string> FoldersOnPath() {
  std::vector<std::string> folders;
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path ? path : "", ':')) {
    if (absl::StartsWith(folder, "/")) folders.emplace_back(folder);
  }
  return folders;
}

std::vector<std::string> PythonFolders(const std::filesystem::path& own_folder,
                                       const std::vector<std::string>& on_path) {
  std::vector<std::string> folders = {own_folder};
  folders.insert(folders.end(), on_path.begin(), on_path.end());
  for (std::filesystem::path folder = own_folder; folder.has_relative_path();
       folder = folder.parent_path()) {
    std::error_code unreadable;
    if (std::filesystem::exists(folder / "client/python/pyproject.toml", unreadable)) {
      folders.push_back(folder / ".venv/bin");
    }
  }
  return folders;
}

int RunCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& folders, const Console& console) {
  const std::string program = FindOrSay(companion, folders, console);
  if (program.empty()) return kRequestFailed;
  console.out.flush();
  ::execv(program.c_str(), Argv(program, arguments).data());
  return CannotRun(program, errno, console);
}

CompanionOutput AskCompanion(const Companion& companion, const std::vector<std::string>& arguments,
                             const std::vector<std::string>& folders, const Console& console) {
  const std::string program = FindOrSay(companion, folders, console);
  if (program.empty()) return {.exit_code = kRequestFailed};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {.exit_code = CannotRun(program, errno, console)};
  const FileDescriptor reading(ends[0]);
  std::optional<FileDescriptor> writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing->get(), STDOUT_FILENO);
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, program.c_str(), &actions, /*attrp=*/nullptr,
                                   Argv(program, arguments).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {.exit_code = CannotRun(program, failed, console)};
  writing.reset();  // so that its end is seen
  CompanionOutput output;
  char piece[4096];
  for (ssize_t bytes; (bytes = ::read(reading.get(), piece, sizeof(piece))) != 0;) {
    if (bytes > 0) {
      output.text.append(piece, static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      break;
    }
  }
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  // As a shell says it.
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace fovea::client
