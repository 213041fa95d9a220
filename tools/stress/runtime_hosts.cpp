// Drawing actions, ownership, failures, and the end of a run.
#include "tools/stress/runtime_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace heddle::stress {

using namespace std::chrono_literals;

RuntimeHosts::RuntimeHosts(World& world)
    : world_(world), programs_(world.stage().programs()), host_(std::make_shared<Right>()) {
  host_->memory = world_.model().add_memory(num_cells);
  Request values;
  values.name = "host storage";
  values.to = {host_->memory, 0};
  for (std::size_t k = 0; k < num_cells; ++k) {
    values.numbers[k] = 1000 + k;
    static_cast<std::int64_t*>(programs_.host.data())[k] = static_cast<std::int64_t>(1000 + k);
  }
  programs_.host.set_written();  // an earlier run may have changed it
  values.end = Request::End::took_effect;
  world_.model().add(values);
}

void RuntimeHosts::begin(std::uint64_t devices) {
  const std::uint64_t backends = 1 + draw(2);
  for (std::uint64_t k = 0; k < backends; ++k) world_.open_backend();
  for (std::uint64_t k = 0; k < devices; ++k) {
    if (auto seat = world_.open_seat(k % backends)) seats_.push_back(std::move(seat));
  }
  for (int k = 0; k < 1000 && !own_; ++k) {
    static_cast<void>(attempt([&] { own_ = world_.stage().scheduler().new_device("own"); }));
  }
  for (const auto& seat : seats_) add(std::make_shared<Place>(Place{seat, Context(seat->device)}));
  if (draw(2) != 0) return;
  allocate();
  for (int k = 0; k < 6; ++k) share();
}

void RuntimeHosts::add(PlacePointer place) {
  for (const auto& part : place->parts) {
    if (part) rights_.push_back(part->right);
  }
  if (places_.size() < 12) {
    places_.push_back(std::move(place));
  } else {
    std::swap(places_[draw(places_.size())], place);  // the former place is destroyed here
  }
}

RuntimeHosts::PlacePointer RuntimeHosts::any_place_with(Operand tensor) {
  for (int tries = 0; tries < 4; ++tries) {
    PlacePointer place = any_place();
    if (place->parts[static_cast<std::size_t>(tensor)]) return place;
  }
  return nullptr;
}

std::optional<Operand> RuntimeHosts::any_tensor(const Place& place) {
  const auto k = draw(num_tensors);
  return place.parts[k] ? std::optional(static_cast<Operand>(k)) : std::nullopt;
}

TransferOptions RuntimeHosts::transfer(const Events& after) {
  TransferOptions options;
  options.after = after;
  if (draw(4) == 0) options.full = sched::FullPolicy::fail;
  return options;
}

void RuntimeHosts::act() {
  switch (draw(48)) {
    case 0:
      return recover(*any_seat());
    case 1:
      if (draw(2) == 0) cancel(*any_seat());
      return;
    case 2:
    case 3:
      return wait();
    case 4:
      return world_.have([this, time = draw_time()] { world_.stage().sleep_for(time); });
    case 5:
      return fail_task();
    case 6:
      return run_in_task();
    case 7:
      if (draw(4) == 0) finalize_context();
      return;
    case 8:
      if (draw(4) == 0) finalize_device();
      return;
    case 9:
      if (draw(16) == 0) finalize_backend();
      return;
    case 10:
      return allocate();
    case 11:
    case 12:
    case 13:
      return donate();
    case 14:
    case 15:
    case 16:
      return copy_tensor();
    case 17:
      return copy_views();
    case 18:
      return read(false);
    case 19:
      return write();
    case 20:
      return move_host_array();
    case 21:
      return view_to_host();
    case 22:
      return view_from_host();
    case 23:
      return load();
    case 24:
    case 25:
    case 26:
      return link();
    case 27:
    case 28:
      return replay();
    case 29:
    case 30:
      return share();
    case 31:
    case 32:
    case 33:
    case 34:
      return host_work();
    default:
      return schedule(any_place(), false);
  }
}

void RuntimeHosts::allocate() {
  const auto seat = any_seat();
  std::optional<Buffer> buffer;
  const ArrayType type{i64, {2 * num_cells}};
  const Status status =
      attempt([&] { buffer = world_.have([&] { return Buffer::allocate(seat->device, type); }); });
  if (!buffer) {
    if (seat->gone && status.code() == ErrorCode::failed_precondition) return;
    world_.expect(status, {ErrorCode::exhausted, ErrorCode::device_failed}, "allocate()");
    return;
  }
  const Part part{world_.new_right(*seat, BufferView(*buffer, type), 2 * num_cells), 0,
                  2 * num_cells};
  world_.zero({part.right, 0});
  world_.zero({part.right, num_cells});
  rights_.push_back(part.right);
  if (arrays_.size() < 4) {
    arrays_.push_back(part);
  } else {
    arrays_[draw(4)] = part;
  }
}

/// Takes the memory of a tensor into a different context, on any device that reaches the memory.
void RuntimeHosts::donate() {
  const PlacePointer from = any_place();
  const auto tensor = any_tensor(*from);
  const auto seat = any_seat();
  if (!tensor) return;
  const Part old = *from->parts[static_cast<std::size_t>(*tensor)];
  if (old.right->donated || seat->space != old.right->space || seat->gone) return;
  std::optional<Buffer> taken;
  old.right->donated = true;  // first: other hosts may run before donate() returns
  const Status gave = attempt([&] { taken = old.right->view->buffer().donate(); });
  if (old.right->replayed && gave.code() == ErrorCode::failed_precondition) {
    old.right->donated = false;
    return;
  }
  if (!world_.expect(gave, {ErrorCode::ok}, "donate()")) return;
  world_.tell_of("donated", old);
  if (seat->gone) return;  // finalised meanwhile
  ++donated;
  const Tensor& t = programs_.tensors[static_cast<std::size_t>(*tensor)];
  const auto right = std::make_shared<Right>();
  right->memory = old.right->memory;
  right->space = old.right->space;
  right->runs_ahead = old.right->runs_ahead;
  right->view = BufferView(*taken, old.right->view->type());
  const Part part{right, old.at, old.cells};
  std::optional<Context> context;
  const Status put = attempt([&] { context = Context(seat->device).with(t, part.view()); });
  if (!world_.expect(put, {ErrorCode::ok}, "with()")) return;
  auto place = std::make_shared<Place>(Place{seat, *context});
  place->parts[static_cast<std::size_t>(*tensor)] = part;
  add(std::move(place));
}

void RuntimeHosts::finalize_context() {
  const PlacePointer place = any_place();
  place->finalized = true;
  place->context.finalize();
  ++finalized;
}

/// A closed device accepts no work. Where hosts may interleave at any moment, the device counts as
/// closed only after the call.
void RuntimeHosts::note_going(Seat& seat) {
  seat.gone = true;
  seat.closed = !world_.stage().has_threads();
}

/// Replaces a finalised device.
void RuntimeHosts::replace(const std::shared_ptr<Seat>& gone) {
  for (auto& seat : seats_) {
    if (seat != gone) continue;
    const auto fresh = world_.open_seat(world_.num_backends() - 1);
    if (fresh && seat == gone) {  // other hosts may have replaced it
      seat = fresh;               // first: other hosts may run below, and may finalise its backend
      add(std::make_shared<Place>(Place{fresh, Context(fresh->device)}));
    }
  }
}

void RuntimeHosts::finalize_device() {
  const auto seat = any_seat();
  note_going(*seat);
  const Time timeout = draw(2) == 0 ? draw_time() : Time(60s);
  const Status status = attempt([&] { world_.have([&] { seat->device.finalize(timeout); }); });
  world_.expect(status, {ErrorCode::ok, ErrorCode::deadline}, "Device::finalize()");
  seat->closed = true;
  ++finalized;
  replace(seat);
}

void RuntimeHosts::finalize_backend() {
  const std::size_t k = any_seat()->backend;
  const std::vector<std::shared_ptr<Seat>> all = seats_;
  world_.backend_goes(k);
  for (const auto& seat : all) {
    if (seat->backend == k && !seat->gone) note_going(*seat);
  }
  const Backend backend = world_.backend(k);
  const Time timeout = draw(2) == 0 ? draw_time() : Time(60s);
  const Status status = attempt([&] { world_.have([&] { backend.finalize(timeout); }); });
  world_.expect(status, {ErrorCode::ok, ErrorCode::deadline}, "Backend::finalize()");
  for (const auto& seat : all) seat->closed = seat->closed || seat->backend == k;
  ++finalized;
  world_.open_backend();
  for (const auto& seat : all) {
    if (seat->backend == k) replace(seat);
  }
  // The scheduler belongs to the host.
  if (!own_) return;
  const Status ended = world_.have([&] {
    const Event event = own_->submit("of the host", [] {});
    return event.accepted() ? event.wait() : event.status();
  });
  world_.expect(ended, {ErrorCode::ok, ErrorCode::exhausted}, "a task of the host's own device");
}

void RuntimeHosts::fail_task() {
  const auto seat = any_seat();
  sched::SubmitOptions options;
  options.contain = draw(4) != 0;
  options.full = sched::FullPolicy::fail;
  const Event event = world_.have([&] {
    return seat->device.submit(
        "fails", []() -> Status { throw std::runtime_error("drawn to fail"); }, options);
  });
  if (event.accepted()) world_.publish(event);
}

/// Tasks may use the runtime too.
void RuntimeHosts::run_in_task() {
  const auto seat = any_seat();
  sched::SubmitOptions options;
  options.contain = true;
  options.full = sched::FullPolicy::fail;
  const auto nested = [this, what = draw(3)] {
    const Held held(world_.stage());
    if (what == 0) return read(true);
    if (what == 1) return copy_tensor();
    schedule(any_place(), true);
  };
  static_cast<void>(world_.have([&] { return seat->device.submit("nested", nested, options); }));
}

void RuntimeHosts::cancel(const Seat& seat) {
  seat.device.cancel_pending();
  ++cancelled;
}

void RuntimeHosts::recover(const Seat& seat) {
  const Status status = attempt([&] { world_.have([&] { seat.device.recover(); }); });
  if (seat.gone && status.code() == ErrorCode::failed_precondition) return;
  world_.expect(status, {ErrorCode::ok, ErrorCode::cancelled}, "recover()");
}

void RuntimeHosts::wait() {
  if (draw(3) != 0) {
    const Event event = world_.any_event();
    return world_.have([&] { static_cast<void>(event.wait()); });
  }
  const auto seat = any_seat();
  const Status status = attempt([&] { world_.have([&] { seat->device.await(); }); });
  if (seat->gone && status.code() == ErrorCode::failed_precondition) return;
  world_.expect(status, {ErrorCode::ok, ErrorCode::device_failed}, "await()");
}

void RuntimeHosts::read_all() {
  for (const auto& seat : seats_) {
    if (!seat->gone) recover(*seat);
  }
  for (const auto& weak : rights_) {
    const auto right = weak.lock();
    const auto reader = std::ranges::find_if(seats_, [&](const auto& seat) {
      return !seat->gone && right && seat->space == right->space;
    });
    if (!right || right->donated || reader == seats_.end()) continue;
    const std::size_t cells = right->view->num_bytes() / sizeof(std::uint64_t);
    for (std::size_t at = 0; at < cells; at += num_cells) {
      Values& seen = world_.host_memory.emplace_back();
      const Part part{right, at, std::min(num_cells, cells - at)};
      const auto last_read = [&](const Events& after) {
        return world_.have([&] {
          for (const Event& event : after) static_cast<void>(event.wait());
          const Event event = part.view().to_host(
              (*reader)->device, std::as_writable_bytes(std::span(seen).first(part.cells)));
          static_cast<void>(event.wait());
          return event;
        });
      };
      world_.ask({*reader, {{right, false}}, read_request("the last read", part, seen)}, last_read);
    }
  }
}

void RuntimeHosts::end() {
  recorded_.clear();
  places_.clear();
  arrays_.clear();
  seats_.clear();
  own_.reset();
}

}  // namespace heddle::stress
