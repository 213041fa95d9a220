// Objects that are needed during exit too, when statics have been destroyed.
#pragma once

#include <new>
#include <utility>

namespace heddle::sched {

/// A T in static memory, made at its first use and never destroyed. It takes no memory for itself,
/// so that making it does not fail where T's constructor does not.
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
