// Runs a fuzz target over the files of its corpus, where libFuzzer is not linked: fuzz_NAME [FILE or FOLDER]...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs(int argc, char** argv) {
  std::vector<fs::path> files;
  std::error_code error;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i], error)) {
      if (fs::exists(argv[i], error)) files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i], error))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  const auto files = inputs(argc, argv);
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    // A copy of exactly this size, so that the address sanitizer sees a read past its end.
    const std::vector<uint8_t> data(bytes.begin(), bytes.end());
    std::printf("%s (%zu bytes)\n", file.filename().c_str(), data.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%zu inputs\n", files.size());
}
