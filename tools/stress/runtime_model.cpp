// See runtime_model.hpp.
#include "tools/stress/runtime_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::stress {

namespace {

/// A computation that writes only part of its target, or also reads the target.
bool changes(const Request& request) {
  const Formula& formula = *request.formula;
  for (std::size_t o = 0; o < num_operands; ++o) {
    if (formula.factors[o] != 0 && request.operands[o] == request.to) return true;
  }
  return formula.one_row && request.any_row;
}

Slice cell(const Slice& slice, std::size_t k) { return {slice.memory, slice.at + k, 1}; }

Slice written_by(const Request& request) {
  const bool row = request.kind == Request::Kind::compute && request.formula->one_row;
  return row && !request.any_row ? cell(request.to, request.row) : request.to;
}

/// The cells of an operand that a computation reads.
Slice read_of(const Request& request, std::size_t operand) {
  const Formula& formula = *request.formula;
  const Slice& whole = request.operands[operand];
  if (request.any_row || operand >= num_tensors) return whole;  // merges transfer the whole operand
  const std::size_t last = formula.read_for(num_cells, operand);
  if (last < num_cells) return cell(whole, last);
  return formula.one_row ? cell(whole, request.row) : whole;
}

}  // namespace

std::size_t RuntimeModel::add_memory(std::size_t cells, bool buffer) {
  memories_.emplace_back(cells);
  buffers_.push_back(buffer);
  return memories_.size() - 1;
}

Request& RuntimeModel::add(Request request) { return requests_.emplace_back(std::move(request)); }

std::string RuntimeModel::check() {
  for (auto& memory : memories_) std::ranges::fill(memory, Cell());
  compared_ = 0;
  for (std::size_t k = 0; k < requests_.size(); ++k) {
    if (std::string broken = check(requests_[k]); !broken.empty()) return broken;
    if (const std::size_t count = requests_[k].refused_with; count > 0 && !lacks_values(k, count))
      return fmt::format(
          "a replay ({} calls) was refused, as if what it reads had not been written: {}", count,
          requests_[k].refusal);
  }
  return {};
}

/// Whether earlier requests left unwritten memory that one of these requests reads, and that no
/// earlier one of these requests writes.
bool RuntimeModel::lacks_values(std::size_t first, std::size_t count) {
  const auto before = memories_;
  bool lacks = false;
  for (std::size_t k = first; k < first + count && !lacks; ++k) {
    lacks = worst_for(requests_.at(k)).missing != Missing::no;
    take_effect(requests_.at(k));
  }
  memories_ = before;
  return lacks;
}

std::string RuntimeModel::check(const Request& request) {
  const bool has_event = request.event.accepted() && request.event.ticket() != 0;
  if (has_event && !request.event.done()) {
    return fmt::format("{} ({}) never ended", request.name, request.event.to_string());
  }
  const bool well =
      has_event ? request.event.status().ok() : request.end == Request::End::took_effect;
  if (well && request.needs.ticket() != 0 && !request.needs.status().ok()) {
    return fmt::format("{} ({}) ended well, and {}, whose values it took, did not", request.name,
                       request.event.to_string(), request.needs.to_string());
  }
  if (request.not_written) {
    if (worst_for(request).missing != Missing::no) return {};
    std::string text = fmt::format("{} was refused, as if what it reads had not been written: {}",
                                   request.name, request.refusal);
    for (const Slice& slice : read_by(request)) {
      text += fmt::format("\nuses of memory {}, {} to {}:{}", slice.memory, slice.at,
                          slice.at + slice.cells, users_of(slice, request));
    }
    return text;
  }
  const Cell worst = worst_for(request);
  if (well && automatic_ && worst.missing == Missing::yes) {
    return fmt::format("{} ({}) ended well, and reads what was not written by {} ({})",
                       request.name, request.event.to_string(), worst.lost_by->name,
                       worst.lost_by->event.to_string());
  }
  if (!well && request.kind != Request::Kind::read) {
    if (has_event) miss(request, Missing::yes);
    if (request.perhaps_bad) miss(request, Missing::maybe);
  }
  if (well && request.kind == Request::Kind::read) {
    if (std::string broken = compare(request); !broken.empty()) return broken;
  } else if (well) {
    take_effect(request);
  } else if (has_event ? request.partly : request.end == Request::End::anything) {
    forget(request);
  }
  return {};
}

void RuntimeModel::take_effect(const Request& request) {
  switch (request.kind) {
    case Request::Kind::values: {
      Cells cells;
      for (std::size_t k = 0; k < num_cells; ++k)
        cells[k] = {request.numbers[k], true, Missing::no};
      return set(request.to, cells);
    }
    case Request::Kind::copy: {
      Cells cells = get(request.from);
      const bool itself = request.from == request.to;
      for (Cell& cell : cells) cell.missing = itself ? after_change(cell) : Missing::no;
      return set(request.to, cells);
    }
    case Request::Kind::change: {
      Cells cells = get(request.to);
      const Cells from = get(request.from);
      for (std::size_t k = 0; k < request.to.cells; ++k) {
        cells[k].value = 3 * cells[k].value + from[k].value + request.numbers[k];
        cells[k].known = cells[k].known && from[k].known;
        cells[k].missing = after_change(cells[k]);
      }
      return set(request.to, cells);
    }
    case Request::Kind::compute: {
      const Cells once = computed(request, get(request.to));
      set(request.to, once);
      if (request.formula->twice) set(request.to, computed(request, once));
      return;
    }
    case Request::Kind::read:
      break;
  }
}

/// Values were complete before, except in cells that no request checked.
RuntimeModel::Missing RuntimeModel::after_change(const Cell& before) const noexcept {
  return automatic_ ? Missing::no : std::min(before.missing, Missing::maybe);
}

RuntimeModel::Cells RuntimeModel::computed(const Request& request, const Cells& before) const {
  const Formula& formula = *request.formula;
  Cells result = before;
  for (std::size_t k = 0; k < cells_of(formula.to); ++k) {
    if (formula.one_row && k != request.row) continue;
    Cell sum{formula.constant, true, Missing::no};
    for (std::size_t o = 0; o < num_operands; ++o) {
      if (formula.factors[o] == 0) continue;
      const Cell cell = get(request.operands[o])[formula.read_for(k, o)];
      sum.value += formula.factors[o] * cell.value;
      sum.known = sum.known && cell.known;
    }
    if (changes(request)) sum.missing = after_change(before[k]);
    result[k] = sum;
  }
  return result;
}

void RuntimeModel::forget(const Request& request) {
  if (request.kind == Request::Kind::read) return;
  const Slice to = written_by(request);
  Cells cells = get(to);
  for (Cell& cell : cells) cell.known = false;
  set(to, cells);
}

void RuntimeModel::miss(const Request& request, Missing missing) {
  if (!buffers_.at(request.to.memory)) return;
  const Slice to = written_by(request);
  Cells cells = get(to);
  // Cells that may have been written may no longer be missing.
  const bool anything = request.end == Request::End::anything;
  for (Cell& cell : cells) {
    cell.missing = anything ? Missing::maybe : std::max(cell.missing, missing);
    cell.lost_by = &request;
  }
  set(to, cells);
}

/// Includes partial changes.
std::vector<Slice> RuntimeModel::read_by(const Request& request) {
  std::vector<Slice> slices;
  const bool is_values = request.kind == Request::Kind::values;
  if (!is_values && request.kind != Request::Kind::compute) slices.push_back(request.from);
  if (request.kind == Request::Kind::change) slices.push_back(request.to);
  if (request.kind != Request::Kind::compute) return slices;
  for (std::size_t o = 0; o < num_operands; ++o) {
    if (request.formula->factors[o] != 0) slices.push_back(read_of(request, o));
  }
  if (changes(request)) slices.push_back(written_by(request));
  return slices;
}

RuntimeModel::Cell RuntimeModel::worst_for(const Request& request) const {
  Cell most;
  for (const Slice& slice : read_by(request)) {
    for (const Cell& cell : get(slice)) {
      if (cell.missing > most.missing) most = cell;
    }
  }
  return most;
}

RuntimeModel::Cells RuntimeModel::get(const Slice& slice) const {
  Cells cells;
  for (std::size_t k = 0; k < slice.cells; ++k)
    cells[k] = memories_.at(slice.memory).at(slice.at + k);
  return cells;
}

void RuntimeModel::set(const Slice& slice, const Cells& cells) {
  for (std::size_t k = 0; k < slice.cells; ++k)
    memories_.at(slice.memory).at(slice.at + k) = cells[k];
}

/// The requests that read or wrote any of the cells, a line each.
std::string RuntimeModel::users_of(const Slice& slice, const Request& before) const {
  std::string text;
  const auto overlaps = [&](const Slice& other) {
    return other.memory == slice.memory && other.at < slice.at + slice.cells &&
           slice.at < other.at + other.cells;
  };
  for (const Request& other : requests_) {
    if (&other == &before) break;
    std::string how;
    const auto look = [&](const char* what, const Slice& part) {
      if (overlaps(part)) how += fmt::format(" {} {} to {}", what, part.at, part.at + part.cells);
    };
    if (other.kind != Request::Kind::read) look("writes", other.to);
    if (other.kind == Request::Kind::compute) {
      for (std::size_t o = 0; o < num_operands; ++o) {
        if (other.formula->factors[o] != 0) look("reads", other.operands[o]);
      }
    } else if (other.kind != Request::Kind::values) {
      look("reads", other.from);
    }
    if (how.empty()) continue;
    text += fmt::format("\n  {}{}: {}", other.name, how,
                        other.refusal.empty() ? other.event.to_string() : other.refusal);
  }
  return text;
}

std::string RuntimeModel::compare(const Request& request) {
  const Cells cells = get(request.from);
  for (std::size_t k = 0; k < request.from.cells; ++k) {
    if (!cells[k].known) continue;
    ++compared_;
    if (cells[k].value == (*request.seen)[k]) continue;
    return fmt::format("{} ({}) saw {:#x} in element {} of memory {}, which must hold {:#x}",
                       request.name, request.event.to_string(), (*request.seen)[k],
                       request.from.at + k, request.from.memory, cells[k].value);
  }
  return {};
}

}  // namespace heddle::stress
