// See runtime/device/modules.hpp.
#include "runtime/device/modules.hpp"

#include <algorithm>

#include "heddle/status.hpp"

namespace heddle::rt {

std::shared_ptr<const dev::Module> Modules::load(dev::PhysicalDevice& device, const Image& image,
                                                 const dev::LoadOptions& options) {
  const void* const space = device.properties().code_space;
  const auto slot = slot_of({space != nullptr ? space : &device, image.hash()});
  const std::scoped_lock lock(slot->mutex);
  auto module = slot->module.lock();
  if (!module) {
    throw_if_failed(device.load(image, options, &module));
    slot->module = module;
  }
  return module;
}

std::shared_ptr<Modules::Slot> Modules::slot_of(const Key& key) {
  const std::scoped_lock lock(mutex_);
  if (slots_.size() >= sweep_at_) {
    std::erase_if(slots_, [](const auto& item) {
      if (item.second.use_count() != 1) return false;  // another thread loads, or is about to
      const std::scoped_lock loaded(item.second->mutex);
      return item.second->module.expired();
    });
    sweep_at_ = std::max(sweep_at_, 2 * slots_.size());
  }
  auto& slot = slots_[key];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

}  // namespace heddle::rt
