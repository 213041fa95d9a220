// Modules of an open backend: each image is loaded once for each physical device, or for those that
// share a code space, as long as somebody holds the module. Any thread.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>

#include "devices/device.hpp"

namespace heddle::rt {

class Modules {
 public:
  /// A thread that asks for a module that another one is loading waits for that. Throws Error: what
  /// `device` says.
  [[nodiscard]] std::shared_ptr<const dev::Module> load(dev::PhysicalDevice& device,
                                                        const Image& image,
                                                        const dev::LoadOptions& options);

 private:
  struct Key {
    const void* owner;  ///< the device, or its code space
    Checksum image;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Slot {
    std::mutex mutex;                         // held while the image is loaded
    std::weak_ptr<const dev::Module> module;  // guarded by mutex
  };

  std::shared_ptr<Slot> slot_of(const Key& key);

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Slot>> slots_;  // guarded by mutex_
  std::size_t sweep_at_ = 64;                   // guarded by mutex_
};

}  // namespace heddle::rt
