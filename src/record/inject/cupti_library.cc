#include "record/inject/cupti_library.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "record/inject/glibc.h"

namespace profgpu::inject::cupti {

namespace {

constexpr int kOldestMajor = 11;
constexpr int kNewestMajor = 19;  // of what is looked for by name where the driver's version is not known
constexpr int kNewestMinor11 = 8;  // until 12.0 the minor is part of the name

using Path = char[512];

struct Mapped {
  const char* prefix;  // of the file's name
  const char* than;    // a path that does not count
  Path path;           // of the first that counts
  int count;
};

int see(dl_phdr_info* info, size_t, void* data) {
  auto* const mapped = static_cast<Mapped*>(data);
  const char* const path = info->dlpi_name;
  const char* const slash = path != nullptr ? strrchr(path, '/') : nullptr;
  if (slash == nullptr || strncmp(slash + 1, mapped->prefix, strlen(mapped->prefix)) != 0) return 0;
  if (mapped->than != nullptr && strcmp(path, mapped->than) == 0) return 0;
  if (mapped->count++ == 0) snprintf(mapped->path, sizeof mapped->path, "%s", path);
  return 0;
}

bool is_mapped(const char* prefix, Path& path) {
  Mapped mapped{prefix, nullptr, "", 0};
  dl_iterate_phdr(see, &mapped);
  if (mapped.count > 0) memcpy(path, mapped.path, sizeof path);
  return mapped.count > 0;
}

// Opens FOLDER/libcupti.so.MAJOR, or by name where folder is "". A loader's complaint is not one of ours: not kept.
void* open_of_major(const char* folder, int major) {
  const char* const slash = *folder != 0 ? "/" : "";
  for (int minor = kNewestMinor11; minor >= 0; --minor) {
    Path path;
    if (major == 11) {
      snprintf(path, sizeof path, "%s%slibcupti.so.11.%d", folder, slash, minor);
    } else {
      snprintf(path, sizeof path, "%s%slibcupti.so.%d", folder, slash, major);
    }
    if (void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return handle;
    if (major != 11) break;
  }
  return nullptr;
}

void* open_beside_runtime() {
  Path runtime;
  if (!is_mapped("libcudart.so.", runtime)) return nullptr;
  char* const slash = strrchr(runtime, '/');
  const int major = atoi(slash + 1 + strlen("libcudart.so."));
  *slash = 0;
  // The toolkit's own folder, its older place for CUPTI, and the layout of the Python packages.
  for (const char* place : {"", "/../extras/CUPTI/lib64", "/../../cuda_cupti/lib"}) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s%s", runtime, place);
    if (void* handle = open_of_major(folder, major)) return handle;
  }
  return nullptr;
}

void* open_by_name(int newest_major) {
  for (int major = newest_major; major >= kOldestMajor; --major)
    if (void* handle = open_of_major("", major)) return handle;
  const char* const home = getenv("CUDA_HOME");
  for (const char* toolkit : {home != nullptr ? home : "/usr/local/cuda", "/usr/local/cuda"})
    for (const char* place : {"extras/CUPTI/lib64", "lib64"}) {
      char folder[600];
      snprintf(folder, sizeof folder, "%s/%s", toolkit, place);
      for (int major = newest_major; major >= kOldestMajor; --major)
        if (void* handle = open_of_major(folder, major)) return handle;
    }
  return nullptr;
}

void* find(int driver_version, Library& library) {
  const char* const named = getenv("PROFGPU_CUPTI");
  if (named != nullptr && *named != 0) {
    void* const handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      snprintf(library.problem, sizeof library.problem, "PROFGPU_CUPTI cannot be opened: %s", dlerror());
    return handle;
  }
  Path path;
  void* handle = is_mapped("libcupti.so", path) ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (handle == nullptr) handle = open_beside_runtime();
  if (handle == nullptr) handle = open_by_name(driver_version > 0 ? driver_version / 1000 : kNewestMajor);
  if (handle == nullptr)
    snprintf(library.problem, sizeof library.problem,
             "no libcupti of CUDA %d was found: install CUPTI, or name it in PROFGPU_CUPTI", driver_version / 1000);
  return handle;
}

struct Symbol {
  const char* name;
  size_t at;  // in Calls
  bool must;
};
#define PROFGPU_CUPTI_CALL(name, must) {"cupti" #name, offsetof(Calls, name), must}
constexpr Symbol kSymbols[] = {
    PROFGPU_CUPTI_CALL(GetVersion, true),
    PROFGPU_CUPTI_CALL(GetTimestamp, true),
    PROFGPU_CUPTI_CALL(ActivityRegisterCallbacks, true),
    PROFGPU_CUPTI_CALL(ActivityEnable, true),
    PROFGPU_CUPTI_CALL(ActivityDisable, true),
    PROFGPU_CUPTI_CALL(ActivityFlushAll, true),
    PROFGPU_CUPTI_CALL(ActivityGetNextRecord, true),
    PROFGPU_CUPTI_CALL(ActivityGetNumDroppedRecords, true),
    PROFGPU_CUPTI_CALL(ActivitySetAttribute, false),
    PROFGPU_CUPTI_CALL(SetThreadIdType, false),
    PROFGPU_CUPTI_CALL(GetCallbackName, false),
    PROFGPU_CUPTI_CALL(GetResultString, false),
    PROFGPU_CUPTI_CALL(Subscribe, false),
    {"cuptiSubscribe_v2", offsetof(Calls, SubscribeV2), false},
    PROFGPU_CUPTI_CALL(EnableCallback, false),
    PROFGPU_CUPTI_CALL(ActivityEnableDriverApi, false),
    PROFGPU_CUPTI_CALL(ActivityEnableRuntimeApi, false),
    PROFGPU_CUPTI_CALL(ActivityRegisterTimestampCallback, false),
    PROFGPU_CUPTI_CALL(Finalize, false),
};
#undef PROFGPU_CUPTI_CALL

// The name of a function that must be there and is not, or null.
const char* load(void* handle, Calls& calls) {
  for (const Symbol& symbol : kSymbols) {
    void* const address = dlsym(handle, symbol.name);
    if (address == nullptr && symbol.must) return symbol.name;
    memcpy(reinterpret_cast<char*>(&calls) + symbol.at, &address, sizeof address);
  }
  return nullptr;
}

}  // namespace

bool open_library(int driver_version, Library& library) {
  if (dlopen == nullptr) return false;
  void* const handle = find(driver_version, library);
  if (handle == nullptr) return false;
  const char* const missing = load(handle, library.calls);
  Dl_info info;
  if (library.calls.GetVersion != nullptr && dladdr(reinterpret_cast<void*>(library.calls.GetVersion), &info) != 0)
    snprintf(library.path, sizeof library.path, "%s", info.dli_fname);
  if (missing != nullptr) {
    snprintf(library.problem, sizeof library.problem, "%.150s has no %s", library.path, missing);
    return false;
  }
  uint32_t version = 0;
  if (const Result result = library.calls.GetVersion(&version); result != kSuccess) {
    snprintf(library.problem, sizeof library.problem, "cuptiGetVersion failed with error %d", result);
    return false;
  }
  if (version < kApi_11_0) {
    snprintf(library.problem, sizeof library.problem,
             "%.150s is older than CUDA 11.0: its records are laid out otherwise", library.path);
    return false;
  }
  library.version = version;
  return true;
}

int mapped_libraries(const char* than, char* other, size_t size) {
  Mapped mapped{"libcupti.so", than, "", 0};
  dl_iterate_phdr(see, &mapped);
  if (mapped.count > 0) snprintf(other, size, "%.*s", static_cast<int>(size) - 1, mapped.path);
  return mapped.count;
}

}  // namespace profgpu::inject::cupti
