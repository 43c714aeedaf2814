#include <stdlib.h>
#include <sys/utsname.h>

#include "inject/core.h"

namespace profgpu::inject {
namespace {

struct Variable {
  const char* property;
  const char* names[5];
};
// The launchers' names for the same thing: torchrun, Slurm, Open MPI, MPICH and its kin, MVAPICH.
constexpr Variable kVariables[] = {
    {"rank", {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}},
    {"world_size", {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}},
    {"local_rank",
     {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"}},
};

// Null where none of the names has a number.
const char* value_of(const Variable& variable) {
  for (const char* name : variable.names) {
    const char* const value = getenv(name);
    if (value == nullptr || *value == 0 || strlen(value) > 9) continue;
    if (strspn(value, "0123456789") == strlen(value)) return value;
  }
  return nullptr;
}

void add_command() {
  char command[4096];
  long length = read_whole("/proc/self/cmdline", command, sizeof command - 1);
  if (length <= 0) return;
  while (length > 0 && command[length - 1] == 0) --length;
  for (long i = 0; i < length; ++i)
    if (command[i] == 0) command[i] = ' ';
  command[length] = 0;
  property("command", command);
}

void add_exe() {
  char path[4096];
  const long length = system_call(SYS_readlinkat, AT_FDCWD, as_word("/proc/self/exe"), as_word(path), sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  property("exe", path);
}

void add_number(const char* key, int64_t number) {
  Text<24> text;
  text << number;
  property(key, text.c_str());
}

}  // namespace

ProcessFacts process_facts() {
  ProcessFacts facts{"localhost", -1};
  utsname system{};
  if (system_call(SYS_uname, as_word(&system)) == 0 && system.nodename[0] != 0) {
    // What could not stand in a file name becomes '_'.
    size_t length = 0;
    for (const char* at = system.nodename; *at != 0 && length + 1 < sizeof facts.host; ++at) {
      const bool good = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                        *at == '-' || *at == '_' || (*at == '.' && length > 0);
      facts.host[length++] = good ? *at : '_';
    }
    facts.host[length] = 0;
  }
  if (const char* rank = value_of(kVariables[0]); rank != nullptr) facts.rank = strtol(rank, nullptr, 10);
  return facts;
}

void add_properties(const ProcessFacts& facts, uint32_t pid) {
  add_number("pid", pid);
  add_number("ppid", system_call(SYS_getppid));
  property("host", facts.host);
  add_exe();
  add_command();
  for (const Variable& variable : kVariables)
    if (const char* value = value_of(variable); value != nullptr) property(variable.property, value);
  // Whose command it is: several `profgpu run` may share a folder.
  if (const char* run = getenv("PROFGPU_RUN"); run != nullptr && *run != 0 && strlen(run) < 300) property("run", run);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  add_number("started_unix_ns", now.tv_sec * 1'000'000'000 + now.tv_nsec);
  property("library_version", PROFGPU_VERSION);
}

}  // namespace profgpu::inject
