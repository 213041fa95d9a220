// Modules of an open backend: an image is loaded once per physical device, or once per code space,
// and shared while a user holds the module. Any thread.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>

#include "devices/device.hpp"

namespace heddle::rt {

class Modules {
 public:
  /// The module of `image`, loaded if necessary. A thread that requests a module being loaded waits
  /// for the load. Throws the device's Error.
  [[nodiscard]] std::shared_ptr<const dev::Module> load(dev::PhysicalDevice& device,
                                                        const Image& image,
                                                        const dev::LoadOptions& options);

 private:
  struct Key {
    const void* owner;  ///< device or code space
    Checksum image;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Slot {
    std::mutex mutex;                         // held during a load
    std::weak_ptr<const dev::Module> module;  // guarded by mutex
  };

  std::shared_ptr<Slot> slot_of(const Key& key);

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Slot>> slots_;  // guarded by mutex_
  std::size_t sweep_at_ = 64;                   // guarded by mutex_
};

}  // namespace heddle::rt
