// Linking, scheduling, merging.
#include <utility>

#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {
namespace {

std::size_t number_of(Operand operand) { return static_cast<std::size_t>(operand); }

/// Programs that write one of the two tensors are not linked in such a context.
bool overlap_in(const Place& place) {
  for (std::size_t a = 0; a < num_tensors; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (place.parts[a] && place.parts[b] && place.parts[a]->overlaps(*place.parts[b]))
        return true;
    }
  }
  return false;
}

}  // namespace

void RuntimeHosts::link() {
  const PlacePointer parent = any_place();
  const RuntimeProgram& program = programs_.programs[draw(programs_.programs.size())];
  const bool begins = program.formula.uses(Operand::h) && !parent->parts[number_of(Operand::h)];
  if (begins) {  // with the current contents of the host's storage
    if (host_->claimed) return;
    for (const Right::Use& use : host_->uses) {
      if (!world_.automatic() && !use.event.done()) return;
    }
    host_->claimed = true;
  }
  auto child = std::make_shared<Place>(*parent);
  child->formula = &program.formula;
  child->routine.reset();
  const Status status = attempt(
      [&] { child->routine = world_.have([&] { return parent->context.link(program.code); }); });
  if (status.ok()) {
    child->context = child->routine->context();
    note_linked(*child, program.formula);
    add(child);
  } else if (status.code() != ErrorCode::failed_precondition) {
    world_.expect(
        status,
        {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline, ErrorCode::cancelled},
        "link()");
  } else {
    bool may = parent->seat->gone || parent->finalized || this_task::running();
    for (const auto& part : parent->parts) may = may || (part && part->right->donated);
    may = may || overlap_in(*parent);
    if (begins && status.message().find("not written") != std::string::npos) {
      Request refused = copy_request("link()", {host_}, {host_});
      refused.not_written = may = true;
      world_.model().add(refused);
    }
    if (!may) world_.expect(status, {ErrorCode::ok}, "link()");
  }
  if (begins) host_->claimed = false;
}

/// The tensors that received memory.
void RuntimeHosts::note_linked(Place& child, const Formula& formula) {
  for (std::size_t k = 0; k < num_tensors; ++k) {
    const auto tensor = static_cast<Operand>(k);
    if (child.parts[k] || !formula.uses(tensor)) continue;
    const std::size_t cells = cells_of(tensor);
    const Part part{world_.new_right(*child.seat, child.context.view(programs_.tensors[k]), cells),
                    0, cells};
    if (tensor == Operand::h) {
      Request first = copy_request("first values", part, {host_});
      first.end = Request::End::took_effect;
      world_.model().add(first);
    } else {
      world_.zero(part);
    }
    child.parts[k] = part;
  }
}

/// The computation of the place's routine; false: there is no routine.
bool RuntimeHosts::fill_in(const PlacePointer& place, World::Work& work) {
  if (!place->routine) return false;
  const Formula& formula = *place->formula;
  work.seat = place->seat;
  Request& request = work.request;
  request.kind = Request::Kind::compute;
  request.name = formula.name;
  request.formula = &formula;
  request.row = draw(num_cells);
  request.partly = formula.twice;
  work.finalized = [place] { return place->finalized; };
  for (std::size_t k = 0; k < num_tensors; ++k) {
    const auto tensor = static_cast<Operand>(k);
    if (!formula.uses(tensor)) continue;
    request.operands[k] = place->parts[k]->slice();
    work.touches.push_back({place->parts[k]->right, formula.to == tensor});
  }
  request.to = request.operands[number_of(formula.to)];
  return true;
}

Event RuntimeHosts::submit(const Place& place, const World::Work& work, const Events& after,
                           bool in_task) {
  ScheduleOptions options;
  options.after = after;
  options.contain = draw(4) != 0;
  if (in_task || draw(4) == 0) options.full = sched::FullPolicy::fail;
  Bindings bindings;
  if (place.formula->one_row) bindings = {{programs_.row, work.request.row}};
  return world_.have([&] { return place.routine->schedule(bindings, options); });
}

void RuntimeHosts::schedule(const PlacePointer& place, bool in_task) {
  if (place->formula != nullptr && place->formula->merges) {
    if (!in_task && draw(3) == 0) return consume(place);
    return merge_into(place);
  }
  World::Work work;
  if (!fill_in(place, work)) return;
  const World::Work& asked = work;
  world_.ask(work, [&](const Events& after) { return submit(*place, asked, after, in_task); });
}

void RuntimeHosts::note_cleared(Seat& seat, const Event& by) {
  seat.slot.cleared_by = std::max(seat.slot.cleared_by, by.ticket());
  if (seat.slot.load && seat.slot.load->event.ticket() < by.ticket()) seat.slot.load.reset();
}

/// Transfer and consumer as one task.
void RuntimeHosts::merge_into(const PlacePointer& place) {
  World::Work work;
  if (!fill_in(place, work)) return;
  const Operand tensor = *place->formula->merges;
  const PlacePointer source = any_place_with(tensor);
  if (!source) return;
  const Part& from = *source->parts[number_of(tensor)];
  work.request.operands[number_of(Operand::merged)] = from.slice();
  work.touches.push_back({from.right, false});
  work.finalized = [place, source] { return place->finalized || source->finalized; };
  const auto mode = draw(2) == 0 ? MergeMode::copy : MergeMode::stream;
  world_.ask(work, [&](const Events& after) {
    const TransferOptions options = transfer(after);
    const Event event =
        world_.have([&] { return merge(*place->routine, source->context, mode, {}, options); });
    note_cleared(*place->seat, event);
    return event;
  });
  ++merged;
}

/// Fills the merge buffer of a device, for later consumers.
void RuntimeHosts::load() {
  const Operand loads_of[] = {Operand::x, Operand::y, Operand::w};
  const Operand tensor = loads_of[draw(std::size(loads_of))];
  const auto seat = any_seat();
  const PlacePointer source = any_place_with(tensor);
  if (!source || seat->slot.claimed) return;
  const Part from = *source->parts[number_of(tensor)];
  const Part loaded{std::make_shared<Right>(), 0, from.cells};
  loaded.right->memory = world_.model().add_memory(from.cells, world_.automatic());
  World::Work work{seat, {{from.right, false}}, copy_request("load_merge", loaded, from)};
  work.finalized = [source] { return source->finalized; };
  const auto mode = draw(2) == 0 ? MergeMode::copy : MergeMode::stream;
  seat->slot.claimed = true;
  world_.ask(std::move(work), [&](const Events& after) {
    const TransferOptions options = transfer(after);
    const Tensor& loads = programs_.tensors[number_of(tensor)];
    const Transfer done = world_.have(
        [&] { return load_merge(seat->device, loads, source->context, mode, options); });
    // Where heddle orders devices, consumers read the values at this moment.
    const bool streamed = done.outcome == TransferOutcome::streamed && !world_.automatic();
    if (done.event.ticket() > seat->slot.cleared_by)
      seat->slot.load = Seat::Slot::Load{tensor, streamed ? from : loaded, streamed, done.event};
    return done.event;
  });
  seat->slot.claimed = false;
}

/// A consumer of the merge buffer's contents.
void RuntimeHosts::consume(const PlacePointer& place) {
  World::Work work;
  if (!fill_in(place, work) || place->seat->slot.claimed) return;
  const auto load = place->seat->slot.load;
  const bool expected = load && load->tensor == *place->formula->merges;
  if (expected) {
    work.request.operands[number_of(Operand::merged)] = load->source.slice();
    work.request.needs = load->event;
    if (load->streamed) work.touches.push_back({load->source.right, false});
  }
  work.may_be_refused = true;
  work.must_be_refused = !expected && !place->seat->slot.unknown;
  const World::Work& asked = work;
  place->seat->slot.claimed = true;
  world_.ask(work, [&](const Events& after) { return submit(*place, asked, after, false); });
  place->seat->slot.claimed = false;
}

}  // namespace heddle::stress
