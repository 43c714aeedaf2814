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

Result<std::shared_ptr<Library>> Library::open(bool hip) {
  auto opened = DynLib::open_first(
      hip ? vendor_library_names("PROFGPU_HIPBLASLT_LIBRARY", {"libhipblaslt.so.1", "libhipblaslt.so.0"})
          : vendor_library_names("PROFGPU_CUBLASLT_LIBRARY",
                                 {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, {"cu13", "cublas"}));
  if (!opened && hip) return Error{"no hipBLASLt: " + opened.error().message, "it comes with ROCm"};
  if (!opened)
    return Error{"no cuBLASLt: " + opened.error().message,
                 "it comes with the CUDA toolkit and with PyTorch: activate its environment, or name the file in "
                 "PROFGPU_CUBLASLT_LIBRARY"};
  std::shared_ptr<Library> library(new Library(std::move(*opened), hip));
  return library;
}

const Dialect& Library::dialect() const {
  static constexpr Dialect kCuda{kCompute32F, kCompute64F, kCompute32I, kCompute32FFastTf32, kTransposeA, kTransposed,
                                 kBatchCount, kBatchStride};
  static constexpr Dialect kHip{2, 7, 9, 6, 0, kHipTransposed, 0, 1};
  return hip_ ? kHip : kCuda;
}

std::span<const ProductKind> product_kinds() {
  // FP8 results are BF16, since frameworks take those; INT8 sums are 32 bits.
  static constexpr ProductKind kKinds[] = {
      {"fp64", kCompute64F, kR64F, kR64F, kR64F, 8, 8},
      {"fp32", kCompute32F, kR32F, kR32F, kR32F, 4, 4},
      {"tf32", kCompute32FFastTf32, kR32F, kR32F, kR32F, 4, 4},
      {"bf16", kCompute32F, kR32F, kR16BF, kR16BF, 2, 2},
      {"fp16", kCompute32F, kR32F, kR16F, kR16F, 2, 2},
      {"fp8", kCompute32F, kR32F, kR8FE4M3, kR16BF, 1, 2},
      {"int8", kCompute32I, kR32I, kR8I, kR32I, 1, 4},
  };
  return kKinds;
}

const ProductKind* product_kind(std::string_view name) {
  for (const ProductKind& kind : product_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

Result<std::unique_ptr<Product>> Product::make(const std::shared_ptr<Library>& library, const cuda::Device& device,
                                               const ProductKind& kind, const ProductShape& shape) {
  std::unique_ptr<Product> product(new Product(library, device, kind));
  Status status = product->describe(shape);
  if (status) status = product->allocate(shape);
  if (!status) return status.error();
  return product;
}

// Column by column, one matrix of the batch behind the other.
Status Product::create_layout(MatrixLayout* layout, DataType type, int64_t rows, int64_t columns, int64_t batch) const {
  Status status = api_.create_layout(layout, int{type}, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                     rows);
  if (!status || batch == 1) return status;
  const auto count = static_cast<int32_t>(batch);
  const int64_t stride = rows * columns;
  const Dialect& of = library_->dialect();
  status = api_.set_layout(*layout, int{of.batch_count}, &count, sizeof count);
  return status ? api_.set_layout(*layout, int{of.batch_stride}, &stride, sizeof stride) : status;
}

Status Product::describe(const ProductShape& shape) {
  Status status = api_.create(&handle_);
  const Dialect& of = library_->dialect();
  const int compute = kind_.compute == kCompute64F           ? of.compute_64f
                      : kind_.compute == kCompute32I         ? of.compute_32i
                      : kind_.compute == kCompute32FFastTf32 ? of.compute_tf32
                                                             : of.compute_32f;
  if (status) status = api_.create_description(&description_, compute, int{kind_.scale});
  if (status) status = api_.set_description(description_, int{of.transpose_a}, &of.transposed, sizeof of.transposed);
  if (status) status = create_layout(&a_, kind_.factor, shape.k, shape.m, shape.batch);
  if (status) status = create_layout(&b_, kind_.factor, shape.k, shape.n, shape.batch);
  if (status) status = create_layout(&d_, kind_.result, shape.m, shape.n, shape.batch);
  Preference preference = nullptr;
  if (status) status = api_.create_preference(&preference);
  if (!status) return status;
  const auto workspace = static_cast<uint64_t>(kWorkspaceBytes);
  status = api_.set_preference(preference, int{kMaxWorkspaceBytes}, &workspace, sizeof workspace);
  int found = 0;
  if (status) status = api_.choose(handle_, description_, a_, b_, d_, d_, preference, 1, &chosen_, &found);
  (void)api_.destroy_preference(preference);
  if (status && found == 0) status = Error{"cuBLASLt has no kernel for this precision on this device"};
  return status;
}

Status Product::allocate(const ProductShape& s) {
  const int64_t a_bytes = s.batch * s.k * s.m * kind_.factor_bytes, b_bytes = s.batch * s.k * s.n * kind_.factor_bytes;
  for (const int64_t bytes : {a_bytes, b_bytes, s.batch * s.m * s.n * kind_.result_bytes, kWorkspaceBytes}) {
    auto memory = cuda::DeviceMemory::allocate(device_, bytes);
    if (!memory) return memory.error();
    memory_.push_back(std::move(*memory));
  }
  const std::vector<char> block = random_block(kind_.factor);
  for (size_t i = 0; i < 2; ++i)
    if (const Status filled = fill_with(device_, memory_[i], static_cast<size_t>(i == 0 ? a_bytes : b_bytes), block);
        !filled)
      return filled;
  return ok();
}

Status Product::multiply(cuda::Stream stream) const {
  // 1 and 0 in each of the types that scales have.
  static constexpr double kOne64 = 1, kZero64 = 0;
  static constexpr float kOne32 = 1, kZero32 = 0;
  static constexpr int32_t kOneInt = 1, kZeroInt = 0;
  const void* one = kind_.scale == kR64F ? static_cast<const void*>(&kOne64)
                    : kind_.scale == kR32I ? static_cast<const void*>(&kOneInt) : &kOne32;
  const void* zero = kind_.scale == kR64F ? static_cast<const void*>(&kZero64)
                     : kind_.scale == kR32I ? static_cast<const void*>(&kZeroInt) : &kZero32;
  const cuda::Address a = memory_[0].address(), b = memory_[1].address(), d = memory_[2].address();
  return api_.multiply(handle_, description_, one, a, a_, b, b_, zero, d, d_, d, d_, &chosen_.algorithm,
                       memory_[3].address(), static_cast<size_t>(kWorkspaceBytes), stream);
}

Product::~Product() {
  for (const MatrixLayout layout : {a_, b_, d_})
    if (layout) (void)api_.destroy_layout(layout);
  if (description_) (void)api_.destroy_description(description_);
  if (handle_) (void)api_.destroy(handle_);
}

}  // namespace profgpu::cublas
