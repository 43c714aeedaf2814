#include "measure/cuda_library.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/clock.h"
#include "devices/pci_address.h"
#include "measure/kernels.h"

namespace profgpu::cuda {
namespace {

constexpr unsigned kThreads = 256;   // of a block
constexpr int32_t kBlocksPerMultiprocessor = 8;   // 2048 threads: as many as fit

std::string uuid_text(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace

std::string words_of(const DynLib& library, int code) {
  if (const auto hip = library.symbol<const char* (*)(int)>("hipGetErrorString")) {
    const auto symbol_of = library.symbol<const char* (*)(int)>("hipGetErrorName");
    const char *text = hip(code), *symbol = symbol_of ? symbol_of(code) : nullptr;
    return text && symbol ? fmt::format("{} ({})", text, symbol) : fmt::format("error {} of HIP", code);
  }
  const auto words = library.symbol<int (*)(int, const char**)>("cuGetErrorString");
  const auto name = library.symbol<int (*)(int, const char**)>("cuGetErrorName");
  const char *text = nullptr, *symbol = nullptr;
  if (!words || words(code, &text) != 0 || !text) return fmt::format("error {} of CUDA", code);
  if (!name || name(code, &symbol) != 0 || !symbol) return fmt::format("{} ({})", text, code);
  return fmt::format("{} ({})", text, symbol);
}

Library::Library(DynLib library)
    : VendorLibrary(std::move(library)), simulated_now_(library_.symbol<int64_t (*)()>("profgpu_stub_now_ns")),
      hip_(library_.symbol<int (*)(unsigned)>("hipInit") != nullptr) {}

namespace {

// An empty list hides every device from the driver, which then says no more than that there is none.
std::string hidden_by() {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name); value && (*value == '\0' || std::string_view(value) == "-1"))
      return fmt::format("{} is {}, which hides all devices: unset it, or name the devices to measure", name,
                         *value == '\0' ? "empty" : value);
  return "";
}

}  // namespace

Result<std::shared_ptr<Library>> Library::open() {
  auto opened = DynLib::open_first(
      vendor_library_names("PROFGPU_CUDA_LIBRARY", {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}));
  const Error none = opened ? Error{} : Error{"no NVIDIA driver: " + opened.error().message,
                                              "libcuda.so.1 comes with the driver; in a container use --gpus all"};
  if (!opened)
    opened = DynLib::open_first(vendor_library_names(
        "PROFGPU_HIP_LIBRARY", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}));
  if (!opened) return none;
  std::shared_ptr<Library> library(new Library(std::move(*opened)));
  if (const Status status = library->api.init(0); !status)
    return Error{status.error().message, hidden_by().empty() ? "`profgpu doctor` looks for the reason" : hidden_by()};
  if (library->devices() == 0)
    return Error{"CUDA has no device here",
                 hidden_by().empty() ? "see CUDA_VISIBLE_DEVICES, and `profgpu doctor`" : hidden_by()};
  return library;
}

std::string Library::version() const {
  int version = 0;
  if (!api.driver_version(&version)) return "";
  if (hip_) return fmt::format("HIP {}.{}", version / 10'000'000, version / 100'000 % 100);
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int Library::devices() const {
  int count = 0;
  return api.count(&count) ? count : 0;
}

int64_t Library::now_ns() const { return simulated_now_ ? simulated_now_() : monotonic_ns(); }

Result<std::unique_ptr<Device>> Device::find(std::shared_ptr<Library> library, int index) {
  std::unique_ptr<Device> device(new Device(std::move(library), index));
  if (const Status status = device->identify(); !status) return status.error();
  return device;
}

Status Device::identify() {
  Status status = api.device(&handle_, index);
  if (!status) return status;
  std::array<char, 256> text{};
  if (status = api.name(text.data(), static_cast<int>(text.size() - 1), handle_); !status) return status;
  name = text.data();
  std::array<unsigned char, 16> bytes{};
  if (api.uuid(bytes.data(), handle_))   // HIP's is text already
    uuid = library_->hip() ? "GPU-" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())
                           : uuid_text(bytes);
  if (api.pci_bus_id(text.data(), static_cast<int>(text.size() - 1), handle_))
    if (const auto address = pci_address(text.data())) pci_bus_id = address->bus_id();
  size_t size = 0;
  if (status = api.total_memory(&size, handle_); !status) return status;
  memory_bytes = static_cast<int64_t>(size);
  int major = 0, minor = 0;
  const bool hip = library_->hip();
  for (const auto& [attribute, to] : {std::pair{hip ? int{kHipMultiprocessors} : int{kMultiprocessors}, &multiprocessors},
                                      {hip ? int{kHipComputeMajor} : int{kComputeMajor}, &major},
                                      {hip ? int{kHipComputeMinor} : int{kComputeMinor}, &minor}})
    if (status = api.attribute(to, attribute, handle_); !status) return status;
  compute_capability = fmt::format("{}.{}", major, minor);
  int cache = 0;
  if (api.attribute(&cache, hip ? int{kHipCacheBytes} : int{kCacheBytes}, handle_)) cache_bytes = std::max(cache, 0);
  return ok();
}

Status Device::create_context() {
  const int64_t begin_ns = now_ns();
  // HIP makes its context with the first call that needs one.
  Status status = library_->hip() ? use() : api.retain(&context_, handle_);
  if (status && library_->hip()) status = api.synchronize();
  if (!status) return context_ = nullptr, status;
  started_ = true;
  context_ns = now_ns() - begin_ns;
  return use();
}

Status Device::start() {
  Status status = ok();
  if (status = api.create_stream(&stream_, kNonBlockingStream); !status) return status;
  for (Event* event : {&begin_, &end_})
    if (status = api.create_event(event, 0U); !status) return status;
  kernels_ = load_kernels();
  if (!kernels_) module_ = nullptr;
  return ok();
}

Status Device::load_kernels() {
  if (!library_->hip()) return api.load_module(&module_, kernel_text().c_str());
  const auto code = hip_kernels();
  return code ? api.load_module(&module_, code->data()) : Status(code.error());
}

Status Device::reach(const Device& to) const {
  return library_->hip() ? api.enable_peer_device(to.handle_, 0U) : api.enable_peer(to.context_, 0U);
}

Status Device::copy_to(const Device& to, Address target, Address source, size_t bytes, Stream stream) const {
  if (library_->hip()) return api.to_peer_device(target, to.handle_, source, handle_, bytes, stream);
  return api.to_peer(target, to.context_, source, context_, bytes, stream);
}

Device::~Device() {
  if (!started_ || !use()) return;
  if (module_) (void)api.unload_module(module_);
  for (const Event event : {begin_, end_})
    if (event) (void)api.destroy_event(event);
  if (stream_) (void)api.destroy_stream(stream_);
  if (!library_->hip()) (void)api.release(handle_);
}

Function Device::kernel(const char* kernel_name) const {
  Function function = nullptr;
  return module_ && api.function(&function, module_, kernel_name) ? function : nullptr;
}

Status Device::launch(Function kernel, std::vector<uint64_t> parameters) const {
  std::vector<void*> pointers;
  for (uint64_t& p : parameters) pointers.push_back(&p);
  const auto blocks = static_cast<unsigned>(multiprocessors * kBlocksPerMultiprocessor);
  return api.launch(kernel, blocks, 1U, 1U, kThreads, 1U, 1U, 0U, stream_, pointers.data(), nullptr);
}

Result<double> Device::timed_ns() const {
  if (const Status done = api.wait_for_stream(stream_); !done) return done.error();
  float ms = 0;
  if (const Status status = api.elapsed_ms(&ms, begin_, end_); !status) return status.error();
  return static_cast<double>(ms) * 1e6;
}

Result<SideStream> SideStream::make(const Device& device) {
  Stream stream = nullptr;
  if (const Status status = device.api.create_stream(&stream, kNonBlockingStream); !status) return status.error();
  return SideStream(device, stream);
}

Result<DeviceMemory> DeviceMemory::allocate(const Device& device, int64_t bytes) {
  Address address = 0;
  if (const Status status = device.api.allocate(&address, static_cast<size_t>(bytes)); !status) return status.error();
  DeviceMemory memory(device, address);
  Status filled = device.api.fill(address, static_cast<unsigned char>(0), static_cast<size_t>(bytes), device.stream());
  if (filled) filled = device.api.wait_for_stream(device.stream());
  if (!filled) return filled.error();
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (address_ && device_->use()) (void)device_->api.free(address_);
}

Result<PinnedMemory> PinnedMemory::allocate(const Device& device, int64_t bytes) {
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  if (const Status status = device.api.allocate_host(&data, size, kPortable); !status) return status.error();
  std::memset(data, 0, size);
  return PinnedMemory(device, data);
}

PinnedMemory::~PinnedMemory() {
  if (data_) (void)device_->api.free_host(data_);
}

}  // namespace profgpu::cuda
