// A folder of its own for each test, which goes with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace profgpu {

class TestFolder {
 public:
  TestFolder() : path_((std::filesystem::temp_directory_path() / "profgpu-test-XXXXXX").string()) {
    ::mkdtemp(path_.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::string& string() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return std::filesystem::path(path_) / name;
  }
  /// Makes the folders above the file, too; its path.
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = *this / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace profgpu
