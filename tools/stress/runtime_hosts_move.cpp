// Copies, and transfers between devices and the host.
#include <span>
#include <utility>

#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {
namespace {

std::size_t index_of(Operand operand) { return static_cast<std::size_t>(operand); }

/// A wait before requests that take no list of events. A wait by the device would be a separate
/// task, which may be cancelled. Tasks may not wait for work that waits for them.
void wait_for(const std::vector<Event>& events) {
  for (const Event& event : events) {
    const Status status = event.wait();
    if (!event.done()) throw Error(status);
  }
}

}  // namespace

void RuntimeHosts::copy_tensor() {
  const PlacePointer to = any_place();
  const auto tensor = any_tensor(*to);
  if (!tensor) return;
  const PlacePointer from = any_place_with(*tensor);
  const std::size_t k = index_of(*tensor);
  // The same place, or a former owner's place.
  if (!from || from->parts[k]->is_place_of(*to->parts[k])) return;
  World::Work work{to->seat,
                   {{to->parts[k]->right, true}, {from->parts[k]->right, false}},
                   copy_request("copy", *to->parts[k], *from->parts[k])};
  work.finalized = [to, from] { return to->finalized || from->finalized; };
  world_.ask(std::move(work), [&](const Events& after) {
    const TransferOptions options = transfer(after);
    const Transfer done = world_.have(
        [&] { return copy(programs_.tensors[k], from->context, to->context, options); });
    world_.expect(done.outcome == TransferOutcome::scheduled
                      ? Status()
                      : Status(ErrorCode::internal, done.reason),
                  {ErrorCode::ok}, "copy()");
    return done.event;
  });
}

/// Also within a buffer, where both ranges may overlap, and into part of a buffer.
void RuntimeHosts::copy_views() {
  const auto from = any_part();
  if (!from || arrays_.empty()) return;
  const std::size_t cells = 1 + draw(from->cells);
  const Part to = some_of(arrays_[draw(arrays_.size())], cells);
  const Part source = some_of(*from, cells);
  const auto seat = any_seat();
  World::Work work{
      seat, {{to.right, true}, {source.right, false}}, copy_request("view copy", to, source)};
  world_.ask(std::move(work), [&](const Events& after) {
    return world_.have([&] {
      wait_for(after);
      return to.view().copy_from(seat->device, source.view());
    });
  });
}

void RuntimeHosts::read(bool in_task) {
  const PlacePointer place = any_place();
  const auto tensor = any_tensor(*place);
  if (!tensor) return;
  const Part& part = *place->parts[index_of(*tensor)];
  Values& seen = world_.host_memory.emplace_back();
  World::Work work{place->seat, {{part.right, false}}, read_request("read", part, seen)};
  work.waits = true;
  work.may_be_refused = in_task;  // a wait that closes a cycle is refused
  work.finalized = [place] { return place->finalized; };
  world_.ask(std::move(work), [&](const Events& after) {
    const auto values = world_.have([&] {
      wait_for(after);
      return place->context.read<std::int64_t>(programs_.tensors[index_of(*tensor)]);
    });
    for (std::size_t k = 0; k < part.cells; ++k) seen[k] = static_cast<std::uint64_t>(values[k]);
    return Event();
  });
}

void RuntimeHosts::write() {
  const PlacePointer place = any_place();
  const auto tensor = any_tensor(*place);
  if (!tensor) return;
  const Part& part = *place->parts[index_of(*tensor)];
  Values values{};
  std::vector<std::int64_t> given(part.cells);
  for (std::size_t k = 0; k < part.cells; ++k) {
    values[k] = draw(1000);
    given[k] = static_cast<std::int64_t>(values[k]);
  }
  World::Work work{place->seat, {{part.right, true}}, values_request("write", part, values)};
  work.waits = true;
  work.finalized = [place] { return place->finalized; };
  world_.ask(std::move(work), [&](const Events& after) {
    world_.have([&] {
      wait_for(after);
      place->context.write(programs_.tensors[index_of(*tensor)], given);
    });
    return Event();
  });
}

/// Between h and its storage.
void RuntimeHosts::move_host_array() {
  const PlacePointer place = any_place_with(Operand::h);
  if (!place) return;
  const Part& part = *place->parts[index_of(Operand::h)];
  const Tensor& tensor = programs_.tensors[index_of(Operand::h)];
  const bool up = draw(2) == 0;
  const Part host{host_};
  World::Work work{
      place->seat,
      {{part.right, up}, {host_, !up}},
      up ? copy_request("from_host", part, host) : copy_request("to_host", host, part)};
  work.finalized = [place] { return place->finalized; };
  world_.ask(std::move(work), [&](const Events& after) {
    const TransferOptions options = transfer(after);
    return world_.have([&] {
      return up ? place->context.from_host(tensor, options).event
                : place->context.to_host(tensor, options).event;
    });
  });
}

void RuntimeHosts::view_to_host() {
  if (arrays_.empty()) return;
  const Part from = some_of(arrays_[draw(arrays_.size())], num_cells);
  const auto seat = any_seat();
  if (seat->space != from.right->space) return;
  Values& seen = world_.host_memory.emplace_back();
  world_.ask({seat, {{from.right, false}}, read_request("view to_host", from, seen)},
             [&](const Events& after) {
               return world_.have([&] {
                 wait_for(after);
                 return from.view().to_host(seat->device, std::as_writable_bytes(std::span(seen)));
               });
             });
}

void RuntimeHosts::view_from_host() {
  if (arrays_.empty()) return;
  const Part to = some_of(arrays_[draw(arrays_.size())], num_cells);
  const auto seat = any_seat();
  if (seat->space != to.right->space) return;
  Values& values = world_.host_memory.emplace_back();
  for (std::uint64_t& value : values) value = draw(1000);
  World::Work work{seat, {{to.right, true}}, values_request("view from_host", to, values)};
  world_.ask(std::move(work), [&](const Events& after) {
    return world_.have([&] {
      wait_for(after);
      return to.view().from_host(seat->device, std::as_bytes(std::span(values)));
    });
  });
}

}  // namespace heddle::stress
