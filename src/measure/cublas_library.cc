#include "measure/cublas_library.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace profgpu::cublas {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

// Random elements of a type, of magnitude 0.5 to 1: a device draws less power for zeros and then runs at clocks that it
// does not reach with data. The bits are sign, an exponent of -1, and a random mantissa; an integer is all random.
std::vector<char> random_block(DataType type) {
  std::mt19937_64 random(1);
  std::vector<char> block(kBlockBytes);
  const auto fill = [&]<class Bits>(Bits sign, Bits exponent, Bits mantissa) {
    for (size_t at = 0; at < block.size(); at += sizeof(Bits)) {
      const uint64_t bits = random();
      const auto element = static_cast<Bits>((bits & (sign | mantissa)) | exponent);
      std::memcpy(&block[at], &element, sizeof element);
    }
  };
  switch (type) {
    case kR64F: fill(uint64_t{1} << 63, uint64_t{0x3FE} << 52, (uint64_t{1} << 52) - 1); break;
    case kR32F: fill(uint32_t{1} << 31, uint32_t{0x7E} << 23, (uint32_t{1} << 23) - 1); break;
    case kR16BF: fill(uint16_t{0x8000}, uint16_t{0x3F00}, uint16_t{0x7F}); break;
    case kR16F: fill(uint16_t{0x8000}, uint16_t{0x3800}, uint16_t{0x3FF}); break;
    case kR8FE4M3: fill(uint8_t{0x80}, uint8_t{0x30}, uint8_t{7}); break;
    case kR8I: case kR32I: fill(uint8_t{0x80}, uint8_t{0}, uint8_t{0x7F}); break;
  }
  return block;
}

// Copies the block to the start, then what is there behind itself.
Status fill_with(const cuda::Device& device, const cuda::DeviceMemory& memory, size_t bytes,
                 const std::vector<char>& block) {
  size_t filled = std::min(bytes, block.size());
  Status status = device.api.to_device(memory.address(), block.data(), filled, device.stream());
  for (; status && filled < bytes; filled = std::min(2 * filled, bytes))
    status = device.api.within_device(memory.address() + filled, memory.address(), std::min(filled, bytes - filled),
                                      device.stream());
  return status ? device.api.wait_for_stream(device.stream()) : status;
}

}  // namespace

std::string words_of(const DynLib& library, int code) {
  if (const auto words = library.symbol<const char* (*)(int)>("cublasLtGetStatusString"))
    if (const char* text = words(code)) return fmt::format("{} ({})", text, code);
  return fmt::format("status {} of cuBLAS", code);
}

Result<std::shared_ptr<Library>> Library::open() {
  auto opened = DynLib::open_first(vendor_library_names(
      "PROFGPU_CUBLASLT_LIBRARY", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
      {"cu13", "cublas"}));
  if (!opened)
    return Error{"no cuBLASLt: " + opened.error().message,
                 "it comes with the CUDA toolkit and with PyTorch: activate its environment, or name the file in "
                 "PROFGPU_CUBLASLT_LIBRARY"};
  std::shared_ptr<Library> library(new Library(std::move(*opened)));
  return library;
}

Result<std::unique_ptr<Product>> Product::make(const std::shared_ptr<Library>& library, const cuda::Device& device,
                                               const ProductKind& kind, int64_t size) {
  std::unique_ptr<Product> product(new Product(library, device, kind));
  Status status = product->describe(size);
  if (status) status = product->allocate(size);
  if (!status) return status.error();
  return product;
}

Status Product::describe(int64_t size) {
  const auto n = static_cast<uint64_t>(size);
  Status status = api_.create(&handle_);
  if (status) status = api_.create_description(&description_, int{kind_.compute}, int{kind_.scale});
  if (status) status = api_.set_description(description_, int{kTransposeA}, &kTransposed, sizeof kTransposed);
  if (status) status = api_.create_layout(&factor_, int{kind_.factor}, n, n, size);
  if (status) status = api_.create_layout(&result_, int{kind_.result}, n, n, size);
  Preference preference = nullptr;
  if (status) status = api_.create_preference(&preference);
  if (!status) return status;
  const auto workspace = static_cast<uint64_t>(kWorkspaceBytes);
  status = api_.set_preference(preference, int{kMaxWorkspaceBytes}, &workspace, sizeof workspace);
  int found = 0;
  if (status)
    status = api_.choose(handle_, description_, factor_, factor_, result_, result_, preference, 1, &chosen_, &found);
  (void)api_.destroy_preference(preference);
  if (status && found == 0) status = Error{"cuBLASLt has no kernel for this precision on this device"};
  return status;
}

Status Product::allocate(int64_t size) {
  const int64_t factor_bytes = size * size * kind_.factor_bytes, result_bytes = size * size * kind_.result_bytes;
  for (const int64_t bytes : {factor_bytes, factor_bytes, result_bytes, kWorkspaceBytes}) {
    auto memory = cuda::DeviceMemory::allocate(device_, bytes);
    if (!memory) return memory.error();
    memory_.push_back(std::move(*memory));
  }
  const std::vector<char> block = random_block(kind_.factor);
  for (size_t i = 0; i < 2; ++i)
    if (const Status filled = fill_with(device_, memory_[i], static_cast<size_t>(factor_bytes), block); !filled)
      return filled;
  return ok();
}

Status Product::multiply() const {
  // 1 and 0 in each of the types that scales have.
  static constexpr double kOne64 = 1, kZero64 = 0;
  static constexpr float kOne32 = 1, kZero32 = 0;
  static constexpr int32_t kOneInt = 1, kZeroInt = 0;
  const void* one = kind_.scale == kR64F ? static_cast<const void*>(&kOne64)
                    : kind_.scale == kR32I ? static_cast<const void*>(&kOneInt) : &kOne32;
  const void* zero = kind_.scale == kR64F ? static_cast<const void*>(&kZero64)
                     : kind_.scale == kR32I ? static_cast<const void*>(&kZeroInt) : &kZero32;
  const cuda::Address a = memory_[0].address(), b = memory_[1].address(), d = memory_[2].address();
  return api_.multiply(handle_, description_, one, a, factor_, b, factor_, zero, d, result_, d, result_,
                       &chosen_.algorithm, memory_[3].address(), static_cast<size_t>(kWorkspaceBytes),
                       device_.stream());
}

Product::~Product() {
  for (const MatrixLayout layout : {factor_, result_})
    if (layout) (void)api_.destroy_layout(layout);
  if (description_) (void)api_.destroy_description(description_);
  if (handle_) (void)api_.destroy(handle_);
}

}  // namespace profgpu::cublas
