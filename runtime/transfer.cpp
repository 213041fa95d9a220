// See transfer.hpp; and copies of tensors between contexts.
#include "runtime/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/buffer_state.hpp"
#include "runtime/context_state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/host_uses.hpp"
#include "runtime/submit.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {

Place place_of(const BufferView& view) {
  const BufferState& buffer = *Inside::of(view.buffer());
  return {buffer.physical, buffer.data + view.offset(), buffer.device};
}

namespace {

/// std::less: addresses of different blocks.
bool ranges_overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b,
                    std::size_t b_bytes) noexcept {
  const std::less<> before;
  return a_bytes != 0 && b_bytes != 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
}

Place host_place(const HostMemory& host) {
  return {nullptr, static_cast<std::byte*>(host.data), nullptr};
}

std::string_view name_of(const Place& place) {
  return place.device ? std::string_view(*place.device) : "the host";
}

bool is_in_host_memory(const Place& place) noexcept {
  return place.space() == dev::host_memory_space;
}

}  // namespace

std::shared_ptr<Stream> queue_for(Execution& by, const Place& place) {
  if (place.space() == by.physical->properties().memory_space) return by.queue;
  std::shared_ptr<Stream> queue;
  throw_if_failed(by.staging.queue(place.physical, &queue));
  return queue;
}

void log_missing(Execution& execution, Status status) noexcept {
  Status done = execution.queue->settle();
  if (status.ok()) status = std::move(done);
  if (status.ok()) return;
  sched::log_made(LogLevel::error, [&] {
    return fmt::format("{}: memory has no first values: {}", execution.name, status.to_string());
  });
}

bool overlap(const BufferView& a, const BufferView& b) noexcept {
  const BufferState& one = *Inside::of(a.buffer());
  const BufferState& other = *Inside::of(b.buffer());
  return one.physical->properties().memory_space == other.physical->properties().memory_space &&
         ranges_overlap(one.data + a.offset(), a.num_bytes(), other.data + b.offset(),
                        b.num_bytes());
}

Route route(const Place& from, const Place& to, std::size_t bytes) noexcept {
  const bool one_space = from.space() == to.space();
  if (bytes == 0 || (one_space && from.data == to.data)) return Route::none;
  if (!from.physical || !to.physical) return Route::pinned;
  // Devices copy between separate bytes.
  if (one_space)
    return ranges_overlap(to.data, bytes, from.data, bytes) ? Route::staged : Route::shared;
  if (is_in_host_memory(from) || is_in_host_memory(to)) return Route::pinned;
  const bool peers =
      to.physical->is_peer_of(*from.physical) || from.physical->is_peer_of(*to.physical);
  return peers ? Route::peer : Route::staged;
}

Move plan_move(Execution& by, const Place& from, const Place& to, std::size_t bytes,
               std::string_view what, const Tensor* tensor) try {
  Move move{route(from, to, bytes), to.data, from.data, bytes, by.queue};
  switch (move.route) {
    case Route::none:
    case Route::fill:
      break;
    case Route::shared:
      move.writer = queue_for(by, to);
      break;
    case Route::peer:
      move.writer = queue_for(by, to.physical->is_peer_of(*from.physical) ? to : from);
      break;
    case Route::pinned: {
      const bool into_host = !to.physical || (from.physical && is_in_host_memory(to));
      (into_host ? move.reader : move.writer) = queue_for(by, into_host ? from : to);
      break;
    }
    case Route::staged:
      move.reader = queue_for(by, from);
      move.writer = queue_for(by, to);
      move.staging = by.staging.memory(bytes);
      if (!move.staging) throw Error(ErrorCode::exhausted, "no host memory to stage it");
      break;
  }
  return move;
} catch (const Error& e) {
  throw Error(Status(
      e.code(),
      [&] {
        const std::string text = tensor == nullptr
                                     ? std::string(what)
                                     : fmt::format("{} tensor '{}' {}", what, tensor->label(),
                                                   tensor->type().to_string());
        return fmt::format("{}, {} bytes from {} to {}: {}", text, bytes, name_of(from),
                           name_of(to), e.status().message());
      },
      e.status()));
}

Status Move::run() const noexcept {
  if (route == Route::staged) return stage();
  if (route == Route::none) return {};
  Stream& queue = writer ? *writer : *reader;
  Status status = queue.follow(*own);
  if (status.ok()) status = ask(queue.queue());
  Status joined = own->join(queue);
  return status.ok() ? std::move(joined) : status;
}

Status Move::ask(dev::Queue& queue) const noexcept {
  switch (route) {
    case Route::fill:
      return queue.zero(to, bytes);
    case Route::shared:
    case Route::peer:
      return queue.copy(to, from, bytes);
    case Route::pinned:
      return reader ? queue.to_host(to, from, bytes) : queue.from_host(to, from, bytes);
    case Route::none:
    case Route::staged:
      break;
  }
  return {};
}

/// Piece by piece: one is read while the one before is written.
Status Move::stage() const noexcept {
  const std::size_t piece = staging->block_bytes;
  const std::size_t pieces = (bytes + piece - 1) / piece;
  // Where they overlap, what is written was read before.
  const bool upward = !std::less<>()(from, to);
  Status status = reader->follow(*own);
  for (std::size_t k = 0; k < pieces && status.ok(); ++k) {
    const std::size_t at = (upward ? k : pieces - 1 - k) * piece;
    const std::size_t some = std::min(piece, bytes - at);
    status = reader->queue().to_host(staging->block(k), from + at, some);
    if (status.ok()) status = writer->follow(*reader);
    if (status.ok()) status = reader->follow(*writer);  // which has emptied the other block
    if (status.ok()) status = writer->queue().from_host(to + at, staging->block(k), some);
  }
  Status read = own->join(*reader);
  Status written = writer == reader ? Status() : own->join(*writer);
  if (status.ok()) status = std::move(read);
  return status.ok() ? std::move(written) : status;
}

namespace {

/// One move.
class Moving : public Operation {
 public:
  /// `host`: an array that it keeps, if any.
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
  /// Nobody but this task has the memory, and no later task uses it that keeps it by nothing.
  [[nodiscard]] bool nobody_reads() const noexcept {
    if (memory_.use_count() != 1) return false;
    const auto memory = memory_.lock();  // comes after those that have dropped it
    return !memory->was_bare();
  }

  const std::weak_ptr<const Memory> memory_;
};

/// All of a view and, if it is known, of the host memory that it comes from or goes to.
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
  if (is_in_host_memory(to)) {
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

/// By a task of the device, which comes after what uses the memory yet. A full queue is waited for,
/// as by whatever is scheduled next: to take other memory instead, for each buffer of a loop, would
/// need as much as a whole queue holds. Why it was refused.
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
    // A task of another device might be the first that uses it: were that passed over, it would
    // put zeros there without a wait for what uses the memory yet.
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
    // relaxed: a number for people.
    if (counts) execution.copies.fetch_add(1, std::memory_order_relaxed);
    return move.run();
  };
  return submit(device, {"copy", operation(run), accesses}, options);
}

std::shared_ptr<const BufferView> require_source(const Tensor& tensor, const Context& source,
                                                 std::string_view what) {
  if (auto view = find_view(*Inside::of(source), tensor)) return view;
  throw Error(ErrorCode::not_found,
              fmt::format("{} of tensor '{}': the source context '{}' does not hold it", what,
                          tensor.label(), source.label()));
}

CopyPlan plan_copy(const Tensor& tensor, const Context& source, const Context& destination) {
  CopyPlan plan{require_source(tensor, source, "copy"),
                find_view(*Inside::of(destination), tensor)};
  require_open(*Inside::of(destination)->device);
  if (!plan.to) {
    plan.nothing = fmt::format("the destination context '{}' does not hold tensor '{}'",
                               destination.label(), tensor.label());
  } else if (Inside::of(plan.from->buffer()) == Inside::of(plan.to->buffer()) &&
             plan.from->offset() == plan.to->offset()) {
    plan.nothing = "source and destination share their memory";
  } else {
    require_writable(*plan.to);
  }
  return plan;
}

}  // namespace heddle::rt

namespace heddle {

Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options, std::source_location where) {
  rt::CopyPlan plan = rt::plan_copy(tensor, source, destination);
  if (!plan.nothing.empty()) return {TransferOutcome::nothing_to_do, {}, std::move(plan.nothing)};
  const auto& device = Inside::of(destination)->device;
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("copy '{}' from {} to {}", tensor.label(),
                       Inside::of(source)->device->execution->name, device->execution->name);
  });
  Event event =
      rt::submit_copy(*device, *plan.from, *plan.to, &tensor, rt::submit_options(options, where));
  return {TransferOutcome::scheduled, std::move(event), {}};
}

}  // namespace heddle
