// See task_parts.hpp.
#include "scheduler/device/task_parts.hpp"

#include "scheduler/device/device_core.hpp"
#include "scheduler/device/helpers.hpp"

namespace heddle::sched {
namespace {

bool within_part(const TaskContext* task) noexcept {
  for (; task != nullptr; task = task->outer) {
    if (task->in_part) return true;
  }
  return false;
}

/// Runs a part, and notes the part meanwhile.
struct Noting {
  DeviceCore& device;
  const std::uint64_t timeline;
  Helpers& helpers;
  const PartFunction function;
  void* const context;

  void run_here(std::uint32_t part, std::uint32_t member) const noexcept {
    device.parts().note(part);
    function(context, part, member);
  }
  void run(std::uint32_t part, std::uint32_t member) const noexcept {
    if (member == 0) {
      run_here(part, member);
      return device.parts().note_rest();  // the member may wait for other parts from here on
    }
    helpers.note(member, timeline, part);
    function(context, part, member);
    helpers.note_rest(member);
  }
};

}  // namespace

Sharing sharing_of(const TaskContext& task) noexcept {
  const Identity& device = task.device->identity();
  if (device.simulated && hooks() != nullptr) return Sharing::interleaved;
  return device.host_runs() || within_part(task.outer) ? Sharing::in_order : Sharing::together;
}

bool TaskParts::alone() const noexcept {
  if (task_ == nullptr) return true;
  const Identity& device = task_->device->identity();
  if (device.host_runs()) return false;
  return sharing_of(*task_) != Sharing::together || !device.helpers->team().has_helpers();
}

std::uint32_t TaskParts::run(std::uint32_t parts, PartFunction function, void* context,
                             const std::stop_token& stop) const noexcept {
  if (task_ == nullptr) {
    for (std::uint32_t part = 0; part < parts; ++part) {
      if (stop.stop_requested()) return parts - part;
      function(context, part, 0);
    }
    return 0;
  }
  DeviceCore& device = *task_->device;
  Noting noting{device, task_->timeline, *device.identity().helpers, function, context};
  device.parts().begin({.parts = parts});
  std::uint32_t left = 0;
  const auto begins = [&](std::size_t) { return !stop.stop_requested(); };
  switch (sharing_of(*task_)) {
    case Sharing::together: {
      const PartFunction part = [](void* of, std::uint32_t number, std::uint32_t member) noexcept {
        static_cast<const Noting*>(of)->run(number, member);
      };
      left = noting.helpers.team().run(parts, part, &noting, stop);
      break;
    }
    case Sharing::in_order:
      for (std::uint32_t part = 0; part < parts && left == 0; ++part) {
        if (begins(part)) {
          noting.run_here(part, 0);
        } else {
          left = parts - part;
        }
      }
      break;
    case Sharing::interleaved:
      left = parts - run_interleaved(*hooks(), noting.helpers.width(), parts, begins,
                                     [&](std::size_t part, std::uint32_t member) {
                                       noting.run_here(static_cast<std::uint32_t>(part), member);
                                     });
      break;
  }
  device.parts().note_rest();
  return left;
}

}  // namespace heddle::sched
