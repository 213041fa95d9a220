// Detects the active sanitizers, and prevents their false alarms. Any thread.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HEDDLE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HEDDLE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEDDLE_TSAN 1
#endif
#endif

#ifdef HEDDLE_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace heddle::sched {

/// During its lifetime, ThreadSanitizer ignores plain accesses of this thread, and still sees
/// atomic accesses: for code ordered by standalone fences, which ThreadSanitizer does not
/// understand.
class OrderedByFences {
 public:
  OrderedByFences() noexcept {
#ifdef HEDDLE_TSAN
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~OrderedByFences() {
#ifdef HEDDLE_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  OrderedByFences(const OrderedByFences&) = delete;
  OrderedByFences& operator=(const OrderedByFences&) = delete;
};

}  // namespace heddle::sched
