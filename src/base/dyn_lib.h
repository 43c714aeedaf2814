// DynLib: a shared library that is opened at run time, so that nothing of a vendor is linked.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// Holds the library open for as long as it lives. Movable, not copyable.
class DynLib {
 public:
  DynLib() = default;
  DynLib(DynLib&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}
  DynLib& operator=(DynLib&& other) noexcept;
  ~DynLib();

  /// A name ("libfoo.so.1", searched as ld.so(8) says) or a path. The error holds what the loader said.
  static Result<DynLib> open(const std::string& name);
  /// The first of `names` that opens. The error is that of the first which exists but does not open, else it says that
  /// none was found and lists them.
  static Result<DynLib> open_first(const std::vector<std::string>& names);

  /// Null if the library has no such function. `symbol<int (*)(void)>("foo")`.
  template <class Function>
  [[nodiscard]] Function symbol(const char* name) const {
    return reinterpret_cast<Function>(address(name));
  }
  /// A function that becomes a pointer of the type it is put into; null where there is none.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };
  /// The first of these that the library has.
  [[nodiscard]] Symbol first_symbol(std::initializer_list<const char*> names) const;
  /// The file it was loaded from, where the loader says; else the name it was opened by.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  /// Never closes it: for libraries that a stuck thread may still be inside of.
  void leak() { handle_ = nullptr; }

 private:
  DynLib(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  [[nodiscard]] void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

/// Path of the running program; empty if the kernel does not say.
std::string own_program();
/// Where a file of profgpu may be: where the environment variable `named_by` points, beside the program, and where it
/// is installed. `program`: path of the executable.
std::vector<std::string> paths_of_part(const std::string& program, const std::string& file,
                                       const char* named_by = nullptr);

}  // namespace profgpu
