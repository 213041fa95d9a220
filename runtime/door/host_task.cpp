// Host work in a device's order, with a list of the memory that the work touches.
#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/door/submit.hpp"

namespace heddle {
namespace {

class HostTask final : public rt::Operation {
 public:
  explicit HostTask(std::function<Status()> work) : work_(std::move(work)) {}
  Status run(rt::Execution& /*execution*/) override { return work_(); }
  [[nodiscard]] bool host_takes_part() const noexcept override { return true; }

 private:
  const std::function<Status()> work_;
};

}  // namespace

Event Device::submit_touching(sched::Label label, const Touches& touches,
                              std::function<Status()> work,
                              const sched::SubmitOptions& options) const {
  rt::Accesses accesses;
  for (const BufferView& each : touches.reads) accesses.add({&each, rt::Use::read, nullptr});
  for (const BufferView& each : touches.writes) {
    rt::require_writable(each);
    accesses.add({&each, rt::Use::change, nullptr});
  }
  std::vector<std::shared_ptr<rt::HostUses>> arrays;
  const auto add = [&](const HostArray& array, rt::Use use) {
    arrays.push_back(rt::uses_of(array));
    accesses.add(*arrays.back(), array.num_bytes(), use, nullptr);
  };
  for (const HostArray& each : touches.host_reads) add(each, rt::Use::read);
  for (const HostArray& each : touches.host_writes) add(each, rt::Use::change);
  rt::SubmitOptions how;
  static_cast<sched::SubmitOptions&>(how) = options;
  how.sync = touches.sync;
  if (!how.site) how.site = label.site();
  return rt::submit(*state_, {label, std::make_unique<HostTask>(std::move(work)), accesses}, how);
}

}  // namespace heddle
