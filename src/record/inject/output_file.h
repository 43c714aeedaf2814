// The recording file of this process. Whole chunks are appended; what could not be written whole is cut off again.
//
// The program may close every descriptor that it does not know (closefrom, daemons) and open others in their place. So
// ours has a number far from those that open() gives out, and before each write the kernel is asked whether it still is
// our file; where it is not, the file is opened again by its name.
#pragma once

#include "record/inject/system_call.h"
#include "record/inject/text.h"
#include "record/wire/control.h"

namespace profgpu::inject {

enum class Written : uint8_t {
  kAll,
  kNotNow,  ///< disk full, too many open files: the bytes are lost, later ones may do
  kGone,    ///< the file is no longer there
};

struct FileName {
  const char* folder;
  const char* host;
  int64_t rank;  ///< negative: not known
  uint32_t pid;
};

class OutputFile {
 public:
  /// Makes a new file and writes its header. 0, or the negative errno.
  int create(const FileName& name);
  Written append(const void* data, size_t size);
  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] int descriptor() const { return fd_; }
  [[nodiscard]] const char* path() const { return path_; }
  [[nodiscard]] bool is_ours(int fd, bool& is_deleted) const;

 private:
  bool write_all(const void* data, size_t size);
  /// Negative errno where the file cannot be had now.
  int ensure_open();

  int fd_;
  uint64_t device_, inode_;
  int64_t size_;
  char path_[4096];
};

/// Closes the descriptor of `file` in a child that inherited it.
void close_inherited(const OutputFile& file);

/// While it lives, a file that grows beyond the limit (RLIMIT_FSIZE) cannot kill the program. For threads that are not
/// ours.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  uint64_t mask_;
  bool was_pending_;
};

// The control page of this process (wire/control.h), mapped from FOLDER/.control/HOST/PID.control.

/// Null where it cannot be had: the recording goes on without it.
wire::ControlPage* map_control_page(const char* folder, const char* host, uint32_t pid);

/// Words are written and read whole: the other side may look at any time.
template <class T>
void set_word(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
template <class T>
T get_word(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

}  // namespace profgpu::inject
