// Collects the missing orders that Sync::check reports.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle {

class FoundOrders {
 public:
  /// Opens a checking backend that reports to this object, which may be destroyed earlier.
  [[nodiscard]] Backend open(std::string name) const { return open(named(std::move(name))); }
  [[nodiscard]] Backend open(BackendOptions options) const {
    if (!options.sync) options.sync = Sync::check;
    options.on_missing_order = [kept = kept_](const MissingOrder& missing) {
      const std::lock_guard lock(kept->mutex);
      kept->orders.push_back(missing);
    };
    return Backend::open(std::move(options));
  }
  /// Missing orders since the last call.
  [[nodiscard]] std::vector<MissingOrder> take() const {
    const std::lock_guard lock(kept_->mutex);
    return std::exchange(kept_->orders, {});
  }
  /// The labels: "write < read" for a read that does not come after the write.
  [[nodiscard]] std::vector<std::string> take_labels() const {
    std::vector<std::string> labels;
    for (const MissingOrder& each : take())
      labels.push_back(each.before.label + " < " + each.after.label);
    return labels;
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::vector<MissingOrder> orders;
  };
  static BackendOptions named(std::string name) {
    BackendOptions options;
    options.name = std::move(name);
    return options;
  }
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// Waits for the device's submitted work without an order that Sync::check would see: for tests of
/// a missing order, whose tasks must still not race.
inline void wait_unseen(const Device& device) {
  const auto ended = std::make_shared<std::promise<void>>();
  device.submit("unseen", [ended] { ended->set_value(); });
  ended->get_future().wait();
}

}  // namespace heddle
