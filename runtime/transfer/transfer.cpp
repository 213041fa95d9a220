// See runtime/transfer/transfer.hpp.
#include "runtime/transfer/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {

namespace {

Place host_place(const HostMemory& host) {
  return {nullptr, static_cast<std::byte*>(host.data), nullptr};
}

/// The operation of one move.
class Moving : public Operation {
 public:
  /// `host`: an array to keep alive, or null.
  Moving(Move move, std::shared_ptr<const HostArray> host)
      : move_(std::move(move)), host_(std::move(host)) {}
  Status run(Execution& /*execution*/) override { return move_.run(); }

 private:
  const Move move_;
  const std::shared_ptr<const HostArray> host_;
};

class FirstValues final : public Moving {
 public:
  FirstValues(Move move, std::shared_ptr<const HostArray> host,
              const std::shared_ptr<const Memory>& memory)
      : Moving(std::move(move), std::move(host)), memory_(memory) {}
  Status run(Execution& execution) override {
    if (nobody_reads()) return {};
    return Moving::run(execution);
  }
  void pass_over(Execution& execution) noexcept override { log_missing(execution, run(execution)); }

 private:
  /// True if only this task refers to the memory, and no later task uses the memory without a
  /// reference.
  [[nodiscard]] bool nobody_reads() const noexcept {
    if (memory_.use_count() != 1) return false;
    const auto memory = memory_.lock();  // ordered after the releases by the former owners
    return !memory->was_bare();
  }

  const std::weak_ptr<const Memory> memory_;
};

/// Accesses to a whole view and, if given, to the host array on the other side.
class Moved {
 public:
  Moved(const BufferView& view, Use of_view, const HostArray* host, const Tensor* tensor) {
    accesses_.add({&view, of_view, tensor});
    if (host == nullptr) return;
    host_ = uses_of(*host);
    accesses_.add(*host_, host->num_bytes(), of_view == Use::read ? Use::overwrite : Use::read,
                  tensor);
  }
  [[nodiscard]] const Accesses& accesses() const noexcept { return accesses_; }

 private:
  std::shared_ptr<HostUses> host_;
  Accesses accesses_;
};

}  // namespace

void submit_first_values(const DeviceState& device, const BufferView& view, const HostArray& host,
                         const Tensor& tensor, bool constant, const std::source_location& where) {
  const std::size_t bytes = view.num_bytes();
  if (bytes == 0) return;
  await_values(*device.execution, host, tensor, where);
  const Place to = place_of(view);
  if (to.is_in_host_memory()) {
    std::memcpy(to.data, host.data(), bytes);
    return;
  }
  auto values = std::make_shared<HostArray>(host);
  if (!constant) {
    *values = HostArray(host.type());
    std::memcpy(values->data(), host.data(), bytes);
  }
  Move move =
      plan_move(*device.execution, host_place({values->data(), bytes}), to, bytes, "from_host");
  const Moved moved(view, Use::overwrite, constant ? &host : nullptr, &tensor);
  auto first = std::make_unique<FirstValues>(std::move(move), std::move(values),
                                             Inside::of(view.buffer())->memory);
  Work work{"from_host", std::move(first), moved.accesses()};
  work.first_values = true;
  submit(device, std::move(work), without_events(where));
}

namespace {

/// Submits a task that zeroes the memory after the current uses. Waits while the queue is full,
/// like the work scheduled next: different memory instead, for each buffer of a loop, would cost as
/// much memory as a full queue holds. Returns the status of a refusal.
Status submit_zeros(const DeviceState& device, const std::shared_ptr<BufferState>& state) {
  const auto& queue = device.execution->queue;
  const BufferView view(Inside::make<Buffer>(state),
                        {u8, {static_cast<std::int64_t>(state->bytes)}});
  Accesses accesses;
  accesses.add({&view, Use::overwrite, nullptr});
  Work work{"zero",
            std::make_unique<FirstValues>(
                Move{Route::fill, state->data, nullptr, state->bytes, queue, {}, queue}, nullptr,
                state->memory),
            accesses};
  work.first_values = true;
  try {
    submit(device, std::move(work), {});
    return {};
  } catch (const Error& e) {
    return e.status();
  }
}

}  // namespace

std::shared_ptr<BufferState> allocate_zeros(const DeviceState& device, std::size_t bytes,
                                            const std::string& what, std::uint64_t tensor) {
  auto state = allocate(*device.execution, bytes, what, tensor);
  if (state->hazards().size() > 0) {
    // A task of another device might be the first user. If that task were passed over, it would
    // write the zeros without waiting for the current uses.
    const Status refused = submit_zeros(device, state);
    if (refused.ok()) return state;
    state.reset();
    try {
      state = allocate(*device.execution, bytes, what, tensor, dev::LastUses::over);
    } catch (const Error& e) {
      throw Error(e.code(),
                  fmt::format("{}; memory that queued tasks use yet would do, once it is zeroed, "
                              "and the task for that was refused: {}",
                              e.status().message(), refused.to_string()),
                  e.status().cause());
    }
  }
  state->begin_with_zeros();
  return state;
}

Event submit_from_host(const DeviceState& device, const BufferView& view, HostMemory host,
                       const Tensor* tensor, const SubmitOptions& options) {
  require_open(device);
  Move move =
      plan_move(*device.execution, host_place(host), place_of(view), host.bytes, "from_host");
  const Moved moved(view, Use::overwrite, host.array.get(), tensor);
  return submit(device,
                {"from_host", std::make_unique<Moving>(std::move(move), std::move(host.array)),
                 moved.accesses()},
                options);
}

Event submit_to_host(const DeviceState& device, const BufferView& view, HostMemory host,
                     const Tensor* tensor, const SubmitOptions& options) {
  require_open(device);
  Move move = plan_move(*device.execution, place_of(view), host_place(host), host.bytes, "to_host");
  const Moved moved(view, Use::read, host.array.get(), tensor);
  return submit(device,
                {"to_host", std::make_unique<Moving>(std::move(move), std::move(host.array)),
                 moved.accesses()},
                options);
}

Event submit_copy(const DeviceState& device, const BufferView& from, const BufferView& to,
                  const Tensor* tensor, const SubmitOptions& options) {
  require_open(device);
  Move move = plan_move(*device.execution, place_of(from), place_of(to), to.num_bytes(),
                        tensor != nullptr ? "copy of" : "copy of " + from.to_string(), tensor);
  Accesses accesses;
  accesses.add({&to, Use::overwrite, tensor});
  accesses.add({&from, Use::read, tensor});
  const auto run = [move = std::move(move), counts = tensor != nullptr](Execution& execution) {
    if (counts) Execution::count(execution.copies);
    return move.run();
  };
  return submit(device, {"copy", operation(run), accesses}, options);
}

}  // namespace heddle::rt
