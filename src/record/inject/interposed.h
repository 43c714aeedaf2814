// Functions of other libraries that this one exports under their own names. Where it is preloaded, a program's calls
// come here first: they are recorded and passed on. Elsewhere they are never called.
//
// Arguments are passed on as machine words, so that no header of the library is needed: handles, pointers and integers
// of any width go into the same registers and places of the stack. Functions with floating-point arguments cannot be
// passed on like this.
#pragma once

#include <string.h>

#include <type_traits>
#include <utility>

#include "record/inject/glibc.h"
#include "record/inject/recorder.h"
#include "record/inject/system_call.h"

namespace profgpu::inject {

using Word = uintptr_t;

/// A function by its name in what the program, or the module of `caller`, is linked with, this library aside; null: not
/// there. A module that was opened later, as Python's are, may see libraries that the program does not.
inline void* function_of_callers_libraries(const char* name, const void* caller) {
  Dl_info module{};
  if (dlsym == nullptr) return nullptr;
  if (void* const next = dlsym(RTLD_NEXT, name); next != nullptr) return next;
  if (dladdr == nullptr || dlopen == nullptr) return nullptr;
  if (dladdr(caller, &module) == 0 || module.dli_fname == nullptr) return nullptr;
  void* const handle = dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return handle != nullptr ? dlsym(handle, name) : nullptr;
}

/// The domain of ranges that are calls of a library above CUDA, or of MPI.
inline constexpr char kLibraryDomain[] = "profgpu.library";

inline void post_library_call(const char* name, int64_t start_ns, int64_t end_ns) {
  wire::RangeEvent row;
  row.thread = thread_id();
  row.name = intern(name);
  row.domain = intern(kLibraryDomain, sizeof kLibraryDomain - 1);
  row.time_ns = start_ns;
  row.op = wire::RangeOp::kPush;
  post(row);
  row.time_ns = end_ns;
  row.op = wire::RangeOp::kPop;
  post(row);
}

template <size_t>
using WordAt = Word;
template <size_t... kIndex>
int call_with_words(void* function, const Word* words, std::index_sequence<kIndex...>) {
  return reinterpret_cast<int (*)(WordAt<kIndex>...)>(function)(words[kIndex]...);
}

}  // namespace profgpu::inject

// The parameters of a function of N words, and their names.
#define PROFGPU_WORDS_1 Word a
#define PROFGPU_WORDS_2 PROFGPU_WORDS_1, Word b
#define PROFGPU_WORDS_3 PROFGPU_WORDS_2, Word c
#define PROFGPU_WORDS_4 PROFGPU_WORDS_3, Word d
#define PROFGPU_WORDS_5 PROFGPU_WORDS_4, Word e
#define PROFGPU_WORDS_6 PROFGPU_WORDS_5, Word f
#define PROFGPU_WORDS_7 PROFGPU_WORDS_6, Word g
#define PROFGPU_WORDS_8 PROFGPU_WORDS_7, Word h
#define PROFGPU_WORDS_9 PROFGPU_WORDS_8, Word i
#define PROFGPU_WORDS_10 PROFGPU_WORDS_9, Word j
#define PROFGPU_WORDS_11 PROFGPU_WORDS_10, Word k
#define PROFGPU_WORDS_12 PROFGPU_WORDS_11, Word l
#define PROFGPU_WORDS_13 PROFGPU_WORDS_12, Word m
#define PROFGPU_WORDS_14 PROFGPU_WORDS_13, Word n
#define PROFGPU_WORDS_15 PROFGPU_WORDS_14, Word o
#define PROFGPU_WORDS_16 PROFGPU_WORDS_15, Word p
#define PROFGPU_WORDS_18 PROFGPU_WORDS_16, Word q, Word r
#define PROFGPU_WORDS_19 PROFGPU_WORDS_18, Word s
#define PROFGPU_WORDS_21 PROFGPU_WORDS_19, Word t, Word u
#define PROFGPU_WORDS_23 PROFGPU_WORDS_21, Word v, Word w
#define PROFGPU_NAMES_1 a
#define PROFGPU_NAMES_2 PROFGPU_NAMES_1, b
#define PROFGPU_NAMES_3 PROFGPU_NAMES_2, c
#define PROFGPU_NAMES_4 PROFGPU_NAMES_3, d
#define PROFGPU_NAMES_5 PROFGPU_NAMES_4, e
#define PROFGPU_NAMES_6 PROFGPU_NAMES_5, f
#define PROFGPU_NAMES_7 PROFGPU_NAMES_6, g
#define PROFGPU_NAMES_8 PROFGPU_NAMES_7, h
#define PROFGPU_NAMES_9 PROFGPU_NAMES_8, i
#define PROFGPU_NAMES_10 PROFGPU_NAMES_9, j
#define PROFGPU_NAMES_11 PROFGPU_NAMES_10, k
#define PROFGPU_NAMES_12 PROFGPU_NAMES_11, l
#define PROFGPU_NAMES_13 PROFGPU_NAMES_12, m
#define PROFGPU_NAMES_14 PROFGPU_NAMES_13, n
#define PROFGPU_NAMES_15 PROFGPU_NAMES_14, o
#define PROFGPU_NAMES_16 PROFGPU_NAMES_15, p
#define PROFGPU_NAMES_18 PROFGPU_NAMES_16, q, r
#define PROFGPU_NAMES_19 PROFGPU_NAMES_18, s
#define PROFGPU_NAMES_21 PROFGPU_NAMES_19, t, u
#define PROFGPU_NAMES_23 PROFGPU_NAMES_21, v, w
