#include "watch/live/recording_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "analyse/report/document.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNames = 1000;

bool is_plain(char c) {
  return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.';
}

// 0, or errno.
int take_name(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

// Whether the file describes a run on `host` that is over: it says so, or its process is gone.
bool is_over(const std::string& path, const std::string& host) {
  const auto text = file_text(path, 1 << 20);
  if (!text || text->empty()) return false;
  const auto value = value_from_json(*text);
  const Record* session = value ? value->record() : nullptr;
  const std::string* its_host = session ? session->at("host").text() : nullptr;
  if (!its_host || *its_host != host) return false;
  if (!session->at("ended_unix_ns").is_null()) return true;
  const int64_t* pid = session->at("pid").integer();
  return pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

Status refuse_earlier(const std::string& path, const std::string& host) {
  for (const std::string& name : folder_names(path))
    if (name.starts_with("session") && name.ends_with(".json") && is_over(path + "/" + name, host))
      return Error{path + ": holds an earlier recording", "name another folder with -o, or remove this one"};
  return ok();
}

}  // namespace

std::string recording_host() {
  utsname system{};
  ::uname(&system);
  std::string host = system.nodename;
  for (size_t i = 0; i < host.size(); ++i)
    if (!is_plain(host[i]) || (host[i] == '.' && i == 0)) host[i] = '_';
  return host.empty() ? "localhost" : host;
}

int launched_processes() {
  for (const char* name :
       {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const char* value = std::getenv(name); value && *value)
      if (const auto n = whole_number(value); n && *n > 0 && *n < INT32_MAX) return static_cast<int>(*n);
  return 0;
}

std::string default_recording_folder(const std::vector<std::string>& command) {
  // What is run, not what runs it: the first word that names a program or script of the user's.
  std::string name;
  for (const std::string& word : command) {
    if (word.starts_with("-")) continue;
    const std::string last = word.substr(word.rfind('/') + 1);
    if (name.empty()) name = last;
    if (last.ends_with(".py") || last.ends_with(".sh")) {
      name = last.substr(0, last.size() - 3);
      break;
    }
  }
  for (char& c : name)
    if (!is_plain(c)) c = '_';
  const std::string base = "profgpu-" + name.substr(0, 64) + "-" + formatted_time(unix_ns(), "%Y%m%d-%H%M%S");
  std::string path = base;
  for (int i = 2; ::access(path.c_str(), F_OK) == 0 && i < kMostNames; ++i) path = base + "-" + std::to_string(i);
  return path;
}

Result<RecordingFolder> take_recording_folder(const std::string& path, bool shared) {
  RecordingFolder folder;
  std::error_code error;
  folder.made = fs::create_directories(path, error);
  if (error) return Error{path + ": cannot be made: " + error.message(), "choose another folder with -o"};
  folder.path = fs::canonical(path, error).string();
  if (error) return Error{path + ": cannot be read: " + error.message()};
  folder.host = recording_host();
  if (!shared)
    if (auto status = refuse_earlier(folder.path, folder.host); !status) return status.error();
  const std::string own = folder.host + "-" + std::to_string(::getpid());
  for (int i = 0; i < kMostNames; ++i) {
    const std::string suffix = i == 0   ? ""
                               : i == 1 ? "-" + folder.host
                               : i == 2 ? "-" + own
                                        : "-" + own + "-" + std::to_string(i - 1);
    folder.session = folder.path + "/session" + suffix + ".json";
    const int problem = take_name(folder.session);
    if (problem == EEXIST) continue;
    if (problem != 0) {
      if (folder.made) ::rmdir(folder.path.c_str());
      return Error{folder.path + ": cannot be written: " + std::strerror(problem)};
    }
    folder.samples = folder.path + "/samples" + suffix + ".jsonl";
    folder.summary = folder.path + "/summary" + suffix + ".json";
    folder.host_file = folder.path + "/" + (i < 2 ? folder.host : suffix.substr(1)) + "-host.pgt";
    if (::access(folder.host_file.c_str(), F_OK) == 0) folder.host_file = folder.path + "/" + own + "-host.pgt";
    return folder;
  }
  return Error{folder.path + ": holds too many recordings", "name another folder with -o"};
}

void discard(const RecordingFolder& folder) {
  for (const std::string& path : {folder.session, folder.samples, folder.summary, folder.host_file})
    ::unlink(path.c_str());
  if (folder.made) ::rmdir(folder.path.c_str());
}

}  // namespace profgpu
