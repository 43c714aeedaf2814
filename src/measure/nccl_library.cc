#include "measure/nccl_library.h"

namespace profgpu::nccl {

std::string words_of(const DynLib& library, int code) {
  if (const auto words = library.symbol<const char* (*)(int)>("ncclGetErrorString"))
    if (const char* text = words(code)) return fmt::format("{} ({})", text, code);
  return fmt::format("error {} of NCCL", code);
}

Result<std::shared_ptr<Library>> Library::open() {
  auto opened = DynLib::open_first(
      vendor_library_names("PROFGPU_NCCL_LIBRARY", {"libnccl.so.2", "librccl.so.1"}, {"nccl"}));
  if (!opened)
    return Error{"no NCCL: " + opened.error().message,
                 "it comes with PyTorch: activate its environment, or name the file in PROFGPU_NCCL_LIBRARY"};
  std::shared_ptr<Library> library(new Library(std::move(*opened)));
  return library;
}

}  // namespace profgpu::nccl
