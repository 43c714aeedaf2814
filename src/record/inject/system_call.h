// The system calls that the library needs, made directly: errno stays unchanged, and no library that interposes libc
// sees them. Results are the kernel's: negative is -errno.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>

namespace profgpu::inject {

#if defined(__x86_64__)
inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#endif

inline long as_word(const void* p) { return reinterpret_cast<long>(p); }

inline int open_file(const char* path, int flags, int mode = 0) {
  return static_cast<int>(system_call(SYS_openat, AT_FDCWD, as_word(path), flags | O_CLOEXEC, mode));
}
inline long write_file(int fd, const void* data, size_t size) {
  return system_call(SYS_write, fd, as_word(data), static_cast<long>(size));
}
inline long read_file(int fd, void* data, size_t size) {
  return system_call(SYS_read, fd, as_word(data), static_cast<long>(size));
}
inline void close_file(int fd) { system_call(SYS_close, fd); }
inline bool is_failure(const void* mapping) { return reinterpret_cast<uintptr_t>(mapping) >= uintptr_t(-4095); }
inline void* map_memory(void* at, size_t size, int protection, int flags, int fd = -1) {
  return reinterpret_cast<void*>(system_call(SYS_mmap, as_word(at), static_cast<long>(size), protection, flags, fd, 0));
}
inline uint32_t process_id() { return static_cast<uint32_t>(system_call(SYS_getpid)); }
inline uint32_t kernel_thread_id() { return static_cast<uint32_t>(system_call(SYS_gettid)); }

inline int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

/// The first `size` bytes of a file; how many there are, or -1 if it cannot be read.
inline long read_whole(const char* path, void* data, size_t size) {
  const int fd = open_file(path, O_RDONLY);
  if (fd < 0) return -1;
  size_t have = 0;
  while (have < size) {
    const long got = read_file(fd, static_cast<char*>(data) + have, size - have);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  close_file(fd);
  return static_cast<long>(have);
}

/// Sleeps while *word is `expected`, at most `wait_ns`.
inline void wait_on(const void* word, uint32_t expected, int64_t wait_ns) {
  const timespec wait{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  system_call(SYS_futex, as_word(word), FUTEX_WAIT_PRIVATE, expected, as_word(&wait));
}
inline void wake_all(const void* word) { system_call(SYS_futex, as_word(word), FUTEX_WAKE_PRIVATE, INT32_MAX); }

// Bits of the kernel's signal mask. Signals 32 and 33 are glibc's own: setuid() and the end of a thread wait for every
// thread to take them.
inline constexpr uint64_t kOwnSignals = uint64_t{3} << 31;
inline uint64_t block_signals() {
  const uint64_t all = ~kOwnSignals;
  uint64_t before = 0;
  system_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, as_word(&all), as_word(&before), sizeof all);
  return before;
}
inline void restore_signals(uint64_t mask) {
  system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, as_word(&mask), 0, sizeof mask);
}

// A lock for our own threads and those that work for us. All zero is unlocked; a forked child finds it so.

class Lock {
 public:
  void lock() {
    uint32_t expected = 0;
    if (word_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
    // 2: a thread may sleep.
    while (word_.exchange(2, std::memory_order_acquire) != 0) wait_on(&word_, 2, 100'000'000);
  }
  bool try_lock() {
    uint32_t expected = 0;
    return word_.compare_exchange_strong(expected, 1, std::memory_order_acquire);
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) wake_all(&word_);
  }

 private:
  std::atomic<uint32_t> word_;
};

class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace profgpu::inject
