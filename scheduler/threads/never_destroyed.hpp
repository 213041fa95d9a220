// NeverDestroyed: objects needed during exit too, after statics have been destroyed.
#pragma once

#include <new>
#include <utility>

namespace heddle::sched {

/// A T in static memory, constructed at its first use and never destroyed. The object allocates no
/// memory for itself: construction fails only if T's constructor does.
template <class T>
class NeverDestroyed {
 public:
  template <class... Args>
  explicit NeverDestroyed(Args&&... args) {
    ::new (static_cast<void*>(bytes_)) T(std::forward<Args>(args)...);
  }
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;

  [[nodiscard]] T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) unsigned char bytes_[sizeof(T)];
};

}  // namespace heddle::sched
