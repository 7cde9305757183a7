#include "client/cpp/cli/companion.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace fovea::client {
namespace {

std::string Find(const std::string& program, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string path = absl::StrCat(folder, "/", program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// Ignores SIGINT while it lives.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() {
    struct sigaction ignored = {};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignored, &before_);
  }
  ~IgnoredInterrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

  // Whether SIGINT was ignored already: as of a shell's background jobs.
  bool before() const { return before_.sa_handler == SIG_IGN; }

 private:
  struct sigaction before_;
};

// Starts `program`, whose SIGINT is ignored if `ignores_interrupts`; 0 or an error number.
int Spawn(const std::string& program, std::vector<char*> argv, bool ignores_interrupts,
          pid_t& child) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  if (!ignores_interrupts) {
    sigset_t interrupts;
    ::sigemptyset(&interrupts);
    ::sigaddset(&interrupts, SIGINT);
    ::posix_spawnattr_setsigdefault(&attributes, &interrupts);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  }
  const int error =
      ::posix_spawn(&child, program.c_str(), nullptr, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return error;
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
  const std::string program = Find(companion.program, folders);
  if (program.empty()) {
    console.err << "fovea: " << companion.program
                << " is neither beside fovea nor on PATH: " << companion.comes_from << '\n';
    return kRequestFailed;
  }
  console.out.flush();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const IgnoredInterrupts ignored;
  pid_t child = 0;
  if (const int error = Spawn(program, argv, ignored.before(), child)) {
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
