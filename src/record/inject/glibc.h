// Functions that glibc 2.34 moved into libc.so.6 under a new version: bound to the version that they have had from the
// first, so that the library loads from glibc 2.28 on. There they are in libpthread and libdl, which every process that
// uses CUDA has; where a process has not, they are null. Include it in every file that uses one of them.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

// Tests link these files into a program, whose sanitizer has functions of the same names.
#ifndef PROFGPU_NO_PINS
#if defined(__x86_64__)
#define PROFGPU_GLIBC_BASE "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define PROFGPU_GLIBC_BASE "GLIBC_2.17"
#else
#error "which version did glibc start with on this architecture?"
#endif
#define PROFGPU_PIN(name) __asm__(".symver " #name "," #name "@" PROFGPU_GLIBC_BASE)

PROFGPU_PIN(dlopen);
PROFGPU_PIN(dlsym);
PROFGPU_PIN(dlclose);
PROFGPU_PIN(dlerror);
PROFGPU_PIN(dladdr);
PROFGPU_PIN(pthread_create);
PROFGPU_PIN(pthread_detach);
PROFGPU_PIN(pthread_attr_setstacksize);
#endif

#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
#pragma weak dlerror
#pragma weak dladdr
#pragma weak pthread_create
#pragma weak pthread_detach
#pragma weak pthread_attr_setstacksize
