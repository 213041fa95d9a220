// See runtime_model.hpp.
#include "tools/stress/runtime_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::stress {

std::size_t RuntimeModel::add_memory(std::size_t cells, bool buffer) {
  memories_.emplace_back(cells);
  buffers_.push_back(buffer);
  return memories_.size() - 1;
}

Request& RuntimeModel::add(Request request) { return requests_.emplace_back(std::move(request)); }

std::string RuntimeModel::check() {
  for (auto& memory : memories_) std::ranges::fill(memory, Cell());
  compared_ = 0;
  for (const Request& request : requests_) {
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
      if (missing_for(request) == Missing::no) {
        return fmt::format("{} was refused, as if what it reads had not been written",
                           request.name);
      }
      continue;
    }
    if (well && automatic_ && missing_for(request) == Missing::yes) {
      return fmt::format("{} ({}) ended well, and reads what was not written", request.name,
                         request.event.to_string());
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
      for (Cell& cell : cells) cell.missing = Missing::no;
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

RuntimeModel::Cells RuntimeModel::computed(const Request& request, const Cells& before) const {
  const Formula& formula = *request.formula;
  Cells result = before;
  for (std::size_t k = 0; k < num_cells; ++k) {
    if (formula.one_row && k != request.row) continue;
    Cell sum{formula.constant, true, Missing::no};
    for (std::size_t o = 0; o < num_operands; ++o) {
      if (formula.factors[o] == 0) continue;
      const Cell cell = get(request.operands[o])[k];
      sum.value += formula.factors[o] * cell.value;
      sum.known = sum.known && cell.known;
    }
    result[k] = sum;
  }
  return result;
}

void RuntimeModel::forget(const Request& request) {
  if (request.kind == Request::Kind::read) return;
  Cells cells = get(request.to);
  for (Cell& cell : cells) cell.known = false;
  set(request.to, cells);
}

void RuntimeModel::miss(const Request& request, Missing missing) {
  if (!buffers_.at(request.to.memory)) return;
  Cells cells = get(request.to);
  // What was perhaps written is perhaps no longer missing.
  const bool anything = request.end == Request::End::anything;
  for (Cell& cell : cells)
    cell.missing = anything ? Missing::maybe : std::max(cell.missing, missing);
  set(request.to, cells);
}

/// In what it reads, with what it changes in part.
RuntimeModel::Missing RuntimeModel::missing_for(const Request& request) const {
  Missing most = Missing::no;
  const auto look = [&](const Slice& slice) {
    for (const Cell& cell : get(slice)) most = std::max(most, cell.missing);
  };
  if (request.kind == Request::Kind::read || request.kind == Request::Kind::copy)
    look(request.from);
  if (request.kind != Request::Kind::compute) return most;
  for (std::size_t o = 0; o < num_operands; ++o) {
    if (request.formula->factors[o] != 0) look(request.operands[o]);
  }
  if (!request.formula->overwrites()) look(request.to);
  return most;
}

RuntimeModel::Cells RuntimeModel::get(const Slice& slice) const {
  Cells cells;
  for (std::size_t k = 0; k < num_cells; ++k)
    cells[k] = memories_.at(slice.memory).at(slice.at + k);
  return cells;
}

void RuntimeModel::set(const Slice& slice, const Cells& cells) {
  for (std::size_t k = 0; k < num_cells; ++k)
    memories_.at(slice.memory).at(slice.at + k) = cells[k];
}

std::string RuntimeModel::compare(const Request& request) {
  const Cells cells = get(request.from);
  for (std::size_t k = 0; k < num_cells; ++k) {
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
