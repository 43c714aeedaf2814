#include "present/html.h"

#ifdef PROFGPU_HAS_PAGE
extern "C" const char profgpu_page_begin[], profgpu_page_end[];   // cmake/page.cmake
#endif

namespace profgpu {

std::string_view page_template() {
#ifdef PROFGPU_HAS_PAGE
  return {profgpu_page_begin, static_cast<size_t>(profgpu_page_end - profgpu_page_begin)};
#else
  return {};
#endif
}

}  // namespace profgpu
