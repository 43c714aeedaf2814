#include "measure/vendor_call.h"

#include <glob.h>

#include "base/environment.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Folders that have lib/python3.N, the active environment's first.
std::vector<std::string> python_homes() {
  std::vector<std::string> homes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string home = environment(name); !home.empty()) homes.push_back(home);
  const std::string path = environment("PATH");
  for (const std::string_view folder : pieces_of(path, ':'))
    if (folder.ends_with("/bin")) homes.emplace_back(folder_of(folder));
  if (const std::string home = environment("HOME"); !home.empty()) homes.push_back(home + "/.local");
  return homes;
}

void add_matches(const std::string& pattern, std::vector<std::string>& to) {
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) to.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
}

}  // namespace

std::vector<std::string> vendor_library_names(const char* named_by, const std::vector<std::string>& names,
                                              const std::vector<std::string>& wheels) {
  if (const std::string named = environment(named_by); !named.empty()) return {named};
  std::vector<std::string> all = names;
  for (const std::string& name : names) add_matches("/usr/local/cuda*/lib64/" + name, all);
  for (const std::string& home : python_homes())
    for (const std::string& wheel : wheels)
      for (const std::string& name : names)
        for (const char* packages : {"site-packages", "dist-packages"})
          add_matches(fmt::format("{}/lib/python3*/{}/nvidia/{}/lib/{}", home, packages, wheel, name), all);
  return all;
}

}  // namespace profgpu
