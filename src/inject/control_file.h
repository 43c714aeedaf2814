// The control page of this process (wire/control.h), mapped from FOLDER/.control/HOST/PID.control.
#pragma once

#include "inject/system_call.h"
#include "wire/control.h"

namespace profgpu::inject {

/// Null where it cannot be had: the recording goes on without it.
wire::ControlPage* map_control_page(const char* folder, const char* host, uint32_t pid);

/// Words are written and read whole: the other side may look at any time.
template <class T>
void set_word(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
template <class T>
T get_word(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

}  // namespace profgpu::inject
