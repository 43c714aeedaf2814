// The tool behind every copy of NVTX in the process: ranges, marks and names go to the recorder. NVTX calls these
// functions directly, on the program's own threads.
//
// Budget: 100 ns a range event.
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "record/inject/nvtx_payloads.h"
#include "record/inject/recorder.h"

namespace profgpu::inject::nvtx {
namespace {

// UTF-8 of a wide string (UTF-32 here), truncated to fit a small stack.
class Narrow {
 public:
  explicit Narrow(const wchar_t* wide) {
    for (; wide != nullptr && *wide != 0 && length_ + 4 <= sizeof text_; ++wide) put(static_cast<uint32_t>(*wide));
  }
  [[nodiscard]] const char* text() const { return text_; }
  [[nodiscard]] size_t length() const { return length_; }

 private:
  void put(uint32_t c) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;   // bytes after the first
    constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
    add(kLead[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i) add(0x80 | (c >> (6 * i) & 0x3f));
  }
  void add(uint32_t byte) { text_[length_++] = static_cast<char>(byte); }

  size_t length_ = 0;
  char text_[1024];
};

// Of text in either width.
uint32_t name_id(const char* text) { return intern(text); }
uint32_t name_id(const wchar_t* wide) {
  const Narrow narrow(wide);
  return intern(narrow.text(), narrow.length());
}

uint32_t message(int32_t type, const void* text) {
  switch (text != nullptr ? type : int32_t{kNoMessage}) {
    case kAscii: return name_id(static_cast<const char*>(text));
    case kUnicode: return name_id(static_cast<const wchar_t*>(text));
    case kRegistered: return name_of(static_cast<const Handle*>(text));
    default: return 0;
  }
}

void set_payload(wire::RangeEvent& row, const EventAttributes& attributes, const Handle* domain) {
  row.payload = attributes.payload;
  const auto low = static_cast<uint32_t>(attributes.payload);
  row.payload_type = wire::PayloadType::kInteger;
  switch (attributes.payload_type) {
    case kUnsigned64:
    case kSigned64: return;
    case kUnsigned32: row.payload = low; return;
    case kSigned32: row.payload = static_cast<uint64_t>(int64_t{static_cast<int32_t>(low)}); return;
    case kDouble: row.payload_type = wire::PayloadType::kDouble; return;
    case kFloat: {
      float narrow;
      memcpy(&narrow, &low, sizeof narrow);
      const double wide = narrow;
      memcpy(&row.payload, &wide, sizeof wide);
      row.payload_type = wire::PayloadType::kDouble;
      return;
    }
    case kExtended: {
      const auto* const data = reinterpret_cast<const PayloadData*>(attributes.payload);
      return attach_payloads(row, domain, data, static_cast<size_t>(attributes.payloads));
    }
    default: row.payload = 0; row.payload_type = wire::PayloadType::kNone;
  }
}

// `name`: text in either width, or the attributes that have it; null: none.
void send(wire::RangeOp op, const Handle* domain, auto name, uint64_t range = 0) {
  if (!recording_here()) return;
  wire::RangeEvent row;
  row.time_ns = host_now();
  row.thread = thread_id();
  row.domain = name_of(domain);
  row.op = op;
  row.range = range;
  if constexpr (requires { name_id(name); }) {
    row.name = name_id(name);
  } else if constexpr (requires { name->message; }) {
    if (name != nullptr && name->size >= sizeof *name) {
      row.category = name->category;
      row.name = message(name->message_type, name->message);
      set_payload(row, *name, domain);
    }
  }
  post(row);
}
constexpr struct NoName {
} kNoName{};

// What NVTX calls. `Name`: a character type or EventAttributes.
template <class Name>
void domain_mark(const Handle* domain, const Name* name) {
  send(wire::RangeOp::kMark, domain, name);
}
template <class Name>
void mark(const Name* name) {
  domain_mark(nullptr, name);
}

template <class Name>
uint64_t domain_start(const Handle* domain, const Name* name) {
  const uint64_t range = next_range();
  send(wire::RangeOp::kStart, domain, name, range);
  return range;
}
template <class Name>
uint64_t start(const Name* name) {
  return domain_start(nullptr, name);
}
void domain_end(const Handle* domain, uint64_t range) { send(wire::RangeOp::kEnd, domain, kNoName, range); }
void end(uint64_t range) { domain_end(nullptr, range); }

template <class Name>
int domain_push(const Handle* domain, const Name* name) {
  send(wire::RangeOp::kPush, domain, name);
  return kNoTracking;
}
template <class Name>
int push(const Name* name) {
  return domain_push(nullptr, name);
}
int domain_pop(const Handle* domain) {
  send(wire::RangeOp::kPop, domain, kNoName);
  return kNoTracking;
}
int pop() { return domain_pop(nullptr); }

// As properties "nvtx_category DOMAIN NUMBER".
void domain_name_category(const Handle* domain, uint32_t category, const char* name) {
  if (name == nullptr || !recording_here()) return;
  size_t length = 0;
  const char* const domain_name = text_of(domain, length);
  Text<256> key;
  key << "nvtx_category ";
  for (size_t i = 0; i < length; ++i) key << domain_name[i];
  key << ' ' << category;
  property(key.c_str(), name);
}
void domain_name_category(const Handle* domain, uint32_t category, const wchar_t* name) {
  Text<1024> text;
  const Narrow narrow(name);
  for (size_t i = 0; i < narrow.length(); ++i) text << narrow.text()[i];
  domain_name_category(domain, category, text.c_str());
}
template <class Char>
void name_category(uint32_t category, const Char* name) {
  domain_name_category(nullptr, category, name);
}

template <class Char>
void name_os_thread(uint32_t tid, const Char* name) {
  if (recording_here()) name_thread(tid, name_id(name));
}

// Only names of threads are used; the program gets its attributes back as a handle, never null.
const void* create_resource(const Handle*, const ResourceAttributes* attributes) {
  if (attributes != nullptr && attributes->size >= sizeof *attributes &&
      attributes->identifier_type == kResourceNativeThread && recording_here())
    name_thread(static_cast<uint32_t>(attributes->identifier), message(attributes->message_type, attributes->message));
  return attributes;
}
void destroy_resource(const void*) {}

const Handle* make_handle(const char* text) {
  return text != nullptr ? handle_of(text, strnlen(text, kMaxNameBytes)) : nullptr;
}
const Handle* make_handle(const wchar_t* text) {
  const Narrow narrow(text);
  return handle_of(narrow.text(), narrow.length());
}
template <class Char>
const Handle* create(const Char* text) {
  return make_handle(text);
}
template <class Char>
const Handle* register_string(const Handle*, const Char* text) {
  return make_handle(text);
}
void destroy_domain(const Handle*) {}
void initialize(const void*) {}

struct Entry {
  uint32_t id;
  Function function;
};
template <class F>
Function any(F* function) {
  return reinterpret_cast<Function>(function);
}
using CategoryNaming = void(const Handle*, uint32_t, const char*);
using WideCategoryNaming = void(const Handle*, uint32_t, const wchar_t*);

void fill(const CallbacksTable& callbacks, Module module, const Entry* entries, size_t count) {
  Function** table = nullptr;
  unsigned int size = 0;
  if (callbacks.function_table(module, &table, &size) == 0 || table == nullptr) return;
  for (size_t i = 0; i < count; ++i)
    if (entries[i].id < size && table[entries[i].id] != nullptr) *table[entries[i].id] = entries[i].function;
}

void attach(const CallbacksTable& callbacks) {
  const Entry core[] = {
      {kMarkEx, any(mark<EventAttributes>)}, {kMarkA, any(mark<char>)}, {kMarkW, any(mark<wchar_t>)},
      {kRangeStartEx, any(start<EventAttributes>)}, {kRangeStartA, any(start<char>)},
      {kRangeStartW, any(start<wchar_t>)}, {kRangeEnd, any(end)}, {kRangePushEx, any(push<EventAttributes>)},
      {kRangePushA, any(push<char>)}, {kRangePushW, any(push<wchar_t>)}, {kRangePop, any(pop)},
      {kNameCategoryA, any(name_category<char>)}, {kNameCategoryW, any(name_category<wchar_t>)},
      {kNameOsThreadA, any(name_os_thread<char>)}, {kNameOsThreadW, any(name_os_thread<wchar_t>)},
  };
  const Entry core2[] = {
      {kDomainMarkEx, any(domain_mark<EventAttributes>)}, {kDomainRangeStartEx, any(domain_start<EventAttributes>)},
      {kDomainRangeEnd, any(domain_end)}, {kDomainRangePushEx, any(domain_push<EventAttributes>)},
      {kDomainRangePop, any(domain_pop)}, {kDomainResourceCreate, any(create_resource)},
      {kDomainResourceDestroy, any(destroy_resource)},
      {kDomainNameCategoryA, any<CategoryNaming>(domain_name_category)},
      {kDomainNameCategoryW, any<WideCategoryNaming>(domain_name_category)},
      {kDomainRegisterStringA, any(register_string<char>)}, {kDomainRegisterStringW, any(register_string<wchar_t>)},
      {kDomainCreateA, any(create<char>)}, {kDomainCreateW, any(create<wchar_t>)},
      {kDomainDestroy, any(destroy_domain)}, {kInitialize, any(initialize)},
  };
  fill(callbacks, kModuleCore, core, sizeof core / sizeof *core);
  fill(callbacks, kModuleCore2, core2, sizeof core2 / sizeof *core2);
}

}  // namespace

bool is_wanted() {
  Options options;
  Text<256> not_understood;
  parse_options(getenv("PROFGPU_RECORD_OPTIONS"), options, not_understood);
  return options.nvtx;
}

// Counts on in a forked child, so that no number of the parent comes back.
uint64_t next_range() {
  static std::atomic<uint64_t> last_range;
  return last_range.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace profgpu::inject::nvtx

/// Called by every copy of NVTX at its first use. 0: that copy disables itself for good.
PROFGPU_EXPORT int InitializeInjectionNvtx2(
    profgpu::inject::nvtx::GetExportTable get_table) {
  using namespace profgpu::inject;
  if (get_table == nullptr || !nvtx::is_wanted() || !start_recorder("nvtx")) return 0;
  const auto* const callbacks = static_cast<const nvtx::CallbacksTable*>(get_table(nvtx::kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return 0;
  nvtx::attach(*callbacks);
  return 1;
}
