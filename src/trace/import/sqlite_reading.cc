#include "trace/import/sqlite_reading.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace profgpu {
namespace {

constexpr char kReadingVfs[] = "profgpu-reading";

struct ReadFile {
  sqlite3_file base;   // SQLite's part
  int fd;
};
int descriptor(sqlite3_file* file) { return reinterpret_cast<ReadFile*>(file)->fd; }

int close_file(sqlite3_file* file) {
  ::close(descriptor(file));
  return SQLITE_OK;
}

// What lies behind the end reads as zeros. Of a page that is there in part, the zeros would pass for rows.
int read_bytes(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  auto* out = static_cast<char*>(to);
  const bool first_page = offset < 512;
  const int wanted = size;
  while (size > 0) {
    const ssize_t n = ::pread(descriptor(file), out, static_cast<size_t>(size), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SQLITE_IOERR_READ;
    if (n == 0) {
      std::memset(out, 0, static_cast<size_t>(size));
      return size < wanted && !first_page ? SQLITE_CORRUPT : SQLITE_IOERR_SHORT_READ;
    }
    out += n, offset += n, size -= static_cast<int>(n);
  }
  return SQLITE_OK;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  struct stat info {};
  if (::fstat(descriptor(file), &info) != 0) return SQLITE_IOERR_FSTAT;
  *size = info.st_size;
  return SQLITE_OK;
}

int write_bytes(sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; }
int truncate_file(sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; }
int nothing_to_do(sqlite3_file*, int) { return SQLITE_OK; }
int is_reserved(sqlite3_file*, int* reserved) {
  *reserved = 0;
  return SQLITE_OK;
}
int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return 4096; }
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; }

constexpr sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = close_file,
    .xRead = read_bytes,
    .xWrite = write_bytes,
    .xTruncate = truncate_file,
    .xSync = nothing_to_do,
    .xFileSize = file_size,
    .xLock = nothing_to_do,
    .xUnlock = nothing_to_do,
    .xCheckReservedLock = is_reserved,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (name == nullptr || (flags & SQLITE_OPEN_MAIN_DB) == 0) return SQLITE_CANTOPEN;   // no temporary files
  const int fd = ::open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SQLITE_CANTOPEN;
  reinterpret_cast<ReadFile*>(file)->fd = fd;
  file->pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
  return SQLITE_OK;
}
int delete_file(sqlite3_vfs*, const char*, int) { return SQLITE_IOERR_DELETE; }
int access_file(sqlite3_vfs*, const char*, int, int* result) {
  *result = 0;
  return SQLITE_OK;
}
int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
  if (std::strlen(name) >= static_cast<size_t>(size)) return SQLITE_CANTOPEN;
  std::strcpy(out, name);
  return SQLITE_OK;
}

bool registered() {
  static sqlite3_vfs vfs;
  const sqlite3_vfs* usual = ::sqlite3_vfs_find(nullptr);
  if (usual == nullptr) return false;
  vfs = *usual;   // its clock and random numbers
  vfs.zName = kReadingVfs;
  vfs.pNext = nullptr;
  vfs.szOsFile = sizeof(ReadFile);
  vfs.xOpen = open_file;
  vfs.xDelete = delete_file;
  vfs.xAccess = access_file;
  vfs.xFullPathname = full_path;
  return ::sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
}

}  // namespace

const char* sqlite_reading() {
  static const bool there = registered();
  return there ? kReadingVfs : nullptr;
}

}  // namespace profgpu
