// Nsight Systems' own report files. Their format is not public: `nsys export`, where the machine has it, makes them an
// SQLite file, which is kept without a name for as long as the process runs.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/spool.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/sqlite_source.h"

extern char** environ;

namespace profgpu {

extern const Importer kNsight;
Result<Trace> read_nsight_export(SqliteSource source, const ImportOptions& options);
std::vector<MergedRank> nsight_ranks_of_export(SqliteSource& source);

namespace {

bool ends_with_any(const std::string& path, std::initializer_list<std::string_view> endings) {
  const std::string name = lower_case(path);
  for (const std::string_view ending : endings)
    if (name.ends_with(ending)) return true;
  return false;
}

std::string shell_quoted(const std::string& word) {
  bool plain = !word.empty();
  for (const char c : word) plain &= is_letter(c) || is_digit(c) || std::strchr("/._-+=:,", c) != nullptr;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string nsys_in_path() {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : pieces_of(path != nullptr ? path : "", ':')) {
    const std::string program = std::string(folder) + "/nsys";
    struct stat info {};
    if (::stat(program.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(program.c_str(), X_OK) == 0)
      return program;
  }
  return {};
}

Error without_nsys(const std::string& path) {
  const std::string stem = path.substr(0, path.rfind('.'));
  return {path + ": reading .nsys-rep needs nsys, which is not on PATH",
          fmt::format("on a machine with nsys: nsys export --type sqlite --include-blobs true --output {} {}; then give that file",
                      shell_quoted(stem + ".sqlite"), shell_quoted(path))};
}

/// A folder of our own that is gone in the end.
class ExportFolder {
 public:
  ExportFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/profgpu-nsys-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;
  ~ExportFolder() {
    if (path_.empty()) return;
    for (const char* ending : {"", "-journal", "-wal", "-shm"}) ::unlink((file() + ending).c_str());
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] bool there() const { return !path_.empty(); }
  [[nodiscard]] std::string file() const { return path_ + "/export.sqlite"; }

 private:
  std::string path_;
};

struct ToolEnd {
  int code = -1;        // as a shell has it
  std::string words;    // the end of what it printed
};

ToolEnd run_tool(std::vector<std::string> words) {
  ToolEnd end;
  auto output = nameless_file();
  if (!output) return end;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, *output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, *output, STDERR_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed == 0) {
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  constexpr off_t kLastWords = 400;
  const off_t size = ::lseek(*output, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::min(size < 0 ? 0 : size, kLastWords)), '\0');
  const ssize_t got = ::pread(*output, text.data(), text.size(), std::max<off_t>(size - kLastWords, 0));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  ::close(*output);
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  replace_invalid_utf8(text);
  end.words = without_blanks(text);
  return end;
}

Result<int> exported(const std::string& path) {
  const std::string nsys = nsys_in_path();
  if (nsys.empty()) return without_nsys(path);
  const ExportFolder folder;
  if (!folder.there()) return Error{path + ": no temporary folder: " + std::strerror(errno), "set TMPDIR"};
  std::vector<std::string> words = {nsys, "export", "--type", "sqlite", "--force-overwrite", "true"};
  const std::vector<std::string> files = {"--output", folder.file(), path};
  ToolEnd end;
  // Versions before 2024 do not know the option, and leave payloads of ranges out.
  for (const bool blobs : {true, false}) {
    std::vector<std::string> all = words;
    if (blobs) all.insert(all.end(), {"--include-blobs", "true"});
    all.insert(all.end(), files.begin(), files.end());
    end = run_tool(std::move(all));
    if (end.code == 0) break;
  }
  const int fd = end.code == 0 ? ::open(folder.file().c_str(), O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0)
    return Error{fmt::format("{}: nsys export did not unpack it (exit code {}){}{}", path, end.code,
                             end.words.empty() ? "" : ": ", end.words),
                 "a report is read by the version of Nsight Systems that made it, or a newer one"};
  return fd;
}

// Once for each report, however often it is read.
Result<SqliteSource> opened_export(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, int> exports;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Error{path + ": " + std::strerror(errno), "check the path"};
  const std::lock_guard lock(mutex);
  auto at = exports.find({info.st_dev, info.st_ino});
  if (at == exports.end()) {
    auto fd = exported(path);
    if (!fd) return fd.error();
    at = exports.insert({{info.st_dev, info.st_ino}, *fd}).first;
  }
  return SqliteSource::open("/proc/self/fd/" + std::to_string(at->second));
}

Result<Trace> read_report(const std::string& path, const ImportOptions& options) {
  if (ends_with_any(path, {".qdstrm"}))
    return Error{path + ": an unfinished report of Nsight Systems",
                 "QdstrmImporter, which comes with it, converts it to a report: QdstrmImporter --input-file " +
                     shell_quoted(path)};
  if (ends_with_any(path, {".ncu-rep"}))
    return Error{path + ": a report of Nsight Compute: counters of single kernels, without a timeline",
                 "ncu --import " + shell_quoted(path) + " --csv --page raw > FILE.csv; then give profgpu that file"};
  auto source = opened_export(path);
  if (!source) return source.error();
  return read_nsight_export(*std::move(source), options);
}

std::vector<MergedRank> ranks_of_report(const std::string& path) {
  if (ends_with_any(path, {".qdstrm", ".ncu-rep"})) return {};
  auto source = opened_export(path);
  return source ? nsight_ranks_of_export(*source) : std::vector<MergedRank>();
}

bool is_report(const std::string& path) { return ends_with_any(path, {".nsys-rep", ".qdrep", ".qdstrm", ".ncu-rep"}); }

}  // namespace

extern const Importer kNsightReport = {"nsight-report",
                                       "Nsight Systems report",
                                       "Nsight Systems' report, if nsys is on the PATH to export it",
                                       "report1.nsys-rep, report1.qdrep",
                                       [](std::string_view) { return true; },
                                       read_report,
                                       [](std::string_view) { return Peek{{}, true}; },
                                       ranks_of_report,
                                       is_report};

}  // namespace profgpu
