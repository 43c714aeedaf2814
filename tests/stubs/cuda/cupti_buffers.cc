#include "cupti_buffers.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <deque>

#include "cupti_layouts.h"
#include "sim.h"

namespace cuda_sim {

namespace {

struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0, records = 0, most_records = 0;
};

// Never destroyed: threads outlive main.
struct State {
  pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;  // held while a buffer is asked for
  Buffer current;
  uint64_t dropped = 0, seen = 0;
  bool zeroed = false;

  pthread_mutex_t queueing = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  std::deque<Buffer> full;
  uint64_t queued = 0, delivered = 0;
  bool worker = false;

  BufferRequested requested = nullptr;
  BufferCompleted completed = nullptr;
};
State& state() {
  static State* const s = new State;
  return *s;
}

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

void deliver(const Buffer& buffer) {
  if (const int64_t us = scenario("slow_us", 0); us > 0) usleep(static_cast<useconds_t>(us));
  state().completed(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

void* work(void*) {
  State& s = state();
  for (;;) {
    Buffer buffer;
    {
      Lock lock(s.queueing);
      while (s.full.empty()) pthread_cond_wait(&s.changed, &s.queueing);
      buffer = s.full.front();
      s.full.pop_front();
    }
    deliver(buffer);
    Lock lock(s.queueing);
    ++s.delivered;
    pthread_cond_broadcast(&s.changed);
  }
}

void put_away(Buffer& buffer) {
  State& s = state();
  if (buffer.data == nullptr) return;
  Lock lock(s.queueing);
  if (!s.worker) {
    pthread_t thread;
    s.worker = pthread_create(&thread, nullptr, work, nullptr) == 0;
    if (s.worker) pthread_detach(thread);
  }
  s.full.push_back(buffer);
  ++s.queued;
  buffer = {};
  pthread_cond_broadcast(&s.changed);
}

// Under the lock `filling`.
bool new_buffer() {
  State& s = state();
  Buffer b;
  s.requested(&b.data, &b.size, &b.most_records);
  if (b.data == nullptr || b.size == 0) {
    // What older versions do where a client refuses a buffer: a client must never try.
    if (kApiVersion < 27) {
      fputs("simulated CUPTI: a buffer was refused; this version crashes then\n", stderr);
      abort();
    }
    return false;
  }
  if (s.zeroed) {
    for (size_t at = 0; at < b.size; at += 8)
      if (uint64_t word; memcpy(&word, b.data + at, 8), word != 0) {
        fputs("simulated CUPTI: a buffer that was promised to be zero is not\n", stderr);
        abort();
      }
  } else {
    memset(b.data, 0, b.size);
  }
  s.current = b;
  return true;
}

}  // namespace

void set_buffer_callbacks(BufferRequested requested, BufferCompleted completed) {
  State& s = state();
  Lock lock(s.filling);
  put_away(s.current);
  s.requested = requested;
  s.completed = completed;
}
bool have_buffer_callbacks() { return state().completed != nullptr; }
void promise_zeroed(bool promised) { state().zeroed = promised; }

void append_record(const void* record, size_t size) {
  static const auto drop_every = static_cast<uint64_t>(scenario("drop_every", 0));
  State& s = state();
  Lock lock(s.filling);
  if (s.requested == nullptr) return;
  if (drop_every != 0 && ++s.seen % drop_every == 0) {
    ++s.dropped;
    return;
  }
  Buffer& b = s.current;
  const bool full = b.data != nullptr && (b.size - b.used < size || (b.most_records != 0 && b.records >= b.most_records));
  if (full) put_away(b);
  if (b.data == nullptr && !new_buffer()) {
    ++s.dropped;
    return;
  }
  memcpy(b.data + b.used, record, size);
  b.used += size;
  ++b.records;
}

void flush_buffers() {
  State& s = state();
  Buffer mine;
  {
    Lock lock(s.filling);
    if (kApiVersion < 19) {
      mine = s.current;  // older versions deliver on the thread that flushes
      s.current = {};
    } else {
      put_away(s.current);
    }
  }
  if (mine.data != nullptr && mine.used != 0) deliver(mine);
  Lock lock(s.queueing);
  const uint64_t until = s.queued;
  while (s.delivered < until) pthread_cond_wait(&s.changed, &s.queueing);
}

uint64_t take_dropped() {
  State& s = state();
  Lock lock(s.filling);
  const uint64_t dropped = s.dropped;
  s.dropped = 0;
  return dropped;
}

}  // namespace cuda_sim
