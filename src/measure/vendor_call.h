// VendorCall: a function of a library that is opened at run time, and why it failed, in words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/dyn_lib.h"
#include "base/result.h"

namespace profgpu {

/// A function that returns 0 for success, else a code.
template <class... Parameters>
class VendorCall {
 public:
  /// What a code means, as far as the library knows.
  using Words = std::string (*)(const DynLib&, int code);

  /// `other`: how another vendor's library of the same interface calls it.
  VendorCall(const DynLib& library, Words words, const char* name, const char* other = nullptr)
      : library_(library), words_(words), name_(name), function_(library.first_symbol({other ? other : name})) {
    if (function_ && other) name_ = other;
    if (!function_) function_ = library.first_symbol({name});
  }

  template <class... Arguments>
  Status operator()(Arguments... arguments) const {
    if (!function_) return Error{fmt::format("{} has no {}", library_.path(), name_), "update the driver or library"};
    const int code = function_(arguments...);
    return code == 0 ? ok() : Status(Error{fmt::format("{}: {}", name_, words_(library_, code))});
  }

 private:
  const DynLib& library_;
  Words words_;
  const char* name_;
  int (*function_)(Parameters...);
};

/// A vendor's library and its calls. Stays loaded: threads of its own do not expect to be unloaded.
template <class Calls>
class VendorLibrary {
 public:
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

 protected:
  explicit VendorLibrary(DynLib library) : library_(std::move(library)) {}
  ~VendorLibrary() { library_.leak(); }
  DynLib library_;

 public:
  const Calls api{library_};
};

/// Where a library of CUDA may be, in this order: the file that the environment variable `named_by` names, else what
/// the loader finds under `names`, the toolkit's folder, and the wheels (`wheels`: their folders below nvidia/) of the
/// Python environments that are active or usual.
std::vector<std::string> vendor_library_names(const char* named_by, const std::vector<std::string>& names,
                                              const std::vector<std::string>& wheels = {});

}  // namespace profgpu
