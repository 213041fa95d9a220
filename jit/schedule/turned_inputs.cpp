// See turned_inputs.hpp.
#include "jit/schedule/turned_inputs.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/schedule/contraction.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t short_max = 8;  // elements of the last axis
constexpr std::int64_t long_min = 16;  // iterations of a loop for vectors
constexpr std::int64_t copy_bytes_max = 4 << 20;
constexpr double reads_of_an_element = 8;  // at least, as the copy reads and writes each once
constexpr double reads_min = 10'000;       // for the copy, and the scratch that a call needs

bool has_short_rows(const BufferDecl& buffer) {
  const Dims& dims = buffer.type.dims;
  return buffer.role != Role::merge && buffer.type.num_bytes().value_or(0) > 0 &&
         buffer.type.num_bytes().value_or(0) <= copy_bytes_max && dims.size() >= 2 &&
         dims.back() > 1 && dims.back() <= short_max && dims[dims.size() - 2] >= long_min;
}

/// The reads of a nest, by buffer.
class NestReads {
 public:
  NestReads(const Loop& kernel, const StmtPtr& nest) : kernel_(kernel) { read({nest}, 1); }

  /// The buffers with short rows that the nest is to read turned: as a whole, as the copy reads
  /// them so.
  [[nodiscard]] std::vector<BufferId> to_turn() const {
    std::vector<BufferId> result;
    for (const auto& [buffer, reads] : reads_) {
      const ArrayType& type = kernel_.buffers[buffer].type;
      const auto elements = static_cast<double>(type.num_elements().value_or(0));
      const bool whole = static_cast<std::int64_t>(reads.columns.size()) == type.dims.back();
      if (reads.are_across && !reads.others && whole &&
          reads.count >= std::max(reads_min, reads_of_an_element * elements))
        result.push_back(buffer);
    }
    return result;
  }

 private:
  struct Reads {
    double count = 0;
    bool are_across = false;         // a long innermost loop steps over rows
    bool others = false;             // there are reads that a copy would slow down, or cannot serve
    std::set<std::int64_t> columns;  // that are read in all rows
  };

  void read(const Block& body, double times) {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        walk(*stmt->value, [&](const Value& value) {
          if (value.kind == ValueKind::load && has_short_rows(kernel_.buffers[value.buffer]))
            note(value, times);
        });
      }
      if (stmt->kind == StmtKind::prefetch) reads_[stmt->buffer].others = true;
      if (!binds_variable(*stmt)) continue;
      around_.push_back(stmt.get());
      const bool is_loop = stmt->kind == StmtKind::loop;
      read(stmt->body, is_loop ? times * static_cast<double>(stmt->to - stmt->from) : times);
      around_.pop_back();
    }
  }

  void note(const Value& load, double times) {
    Reads& reads = reads_[load.buffer];
    reads.count += times;
    const std::size_t rank = kernel_.buffers[load.buffer].type.dims.size();
    const bool is_computed = std::ranges::any_of(around_, [&](const Stmt* each) {
      return each->kind == StmtKind::at && moves_with(load.subscripts, each->var);
    });
    if (load.subscripts.size() != rank || is_computed) {
      reads.others = true;
      return;
    }
    note_columns(load, reads);
    const auto innermost = std::find_if(around_.rbegin(), around_.rend(), [](const Stmt* each) {
      return each->kind == StmtKind::loop && each->to - each->from >= long_min;
    });
    if (innermost == around_.rend() || !moves_with(load.subscripts, (*innermost)->var)) return;
    const bool is_across = moves_with(load.subscripts[rank - 2], (*innermost)->var) &&
                           !moves_with(load.subscripts[rank - 1], (*innermost)->var);
    if (is_across && !stores_rows(innermost.base()))
      reads.are_across = true;
    else
      reads.others = true;
  }

  void note_columns(const Value& load, Reads& reads) const {
    const Dims& dims = kernel_.buffers[load.buffer].type.dims;
    for (std::size_t k = 0; k + 1 < dims.size(); ++k) {
      if (!is_whole_axis(load.subscripts[k], dims[k])) return;
    }
    const Affine& column = load.subscripts.back();
    if (column.terms.empty()) reads.columns.insert(column.constant);
    for (std::int64_t k = 0; is_whole_axis(column, dims.back()) && k < dims.back(); ++k)
      reads.columns.insert(k);
  }
  /// Whether the subscript is the variable of a loop over the axis.
  [[nodiscard]] bool is_whole_axis(const Affine& at, std::int64_t extent) const {
    return std::ranges::any_of(around_, [&](const Stmt* each) {
      return each->kind == StmtKind::loop && at == affine_var(each->var) && each->from == 0 &&
             each->to == extent;
    });
  }

  /// Whether a loop inside stores the elements of a row: lanes would store across rows.
  bool stores_rows(std::vector<const Stmt*>::const_iterator inside) const {
    return std::any_of(inside, around_.end(), [&](const Stmt* loop) {
      bool stores = false;
      walk(loop->body, [&](const Stmt& each) {
        stores = stores || (each.kind == StmtKind::store && moves_with(each.subscripts, loop->var));
      });
      return stores;
    });
  }

  const Loop& kernel_;
  std::map<BufferId, Reads> reads_;
  std::vector<const Stmt*> around_;  // loops and positions, outer before inner
};

class InputTurner {
 public:
  InputTurner(Scheduling& in, const Block& body)
      : in_(in), written_(in.lowered.loop.buffers.size()) {
    walk(body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) written_[stmt.buffer] = true;
    });
  }

  Block turned(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      std::map<BufferId, BufferId> by;
      const std::vector<BufferId> buffers = NestReads(in_.lowered.loop, stmt).to_turn();
      if (!buffers.empty() && !find_contraction(in_.lowered.loop, stmt)) {
        for (const BufferId buffer : buffers)
          if (!written_[buffer]) by[buffer] = copy_of(buffer);
      }
      result.push_back(by.empty() ? stmt : reading(stmt, by));
    }
    Block all = std::move(copies_);
    append(all, result);
    return all;
  }

 private:
  BufferId copy_of(BufferId buffer) {
    const auto known = copy_.find(buffer);
    if (known != copy_.end()) return known->second;
    const ArrayType type = in_.lowered.loop.buffers[buffer].type;
    Dims dims = type.dims;
    std::rotate(dims.begin(), dims.end() - 1, dims.end());
    const BufferId copy = in_.add_scratch("turned", type.dtype, dims);
    std::vector<Affine> from;
    std::vector<VarId> vars;
    for (std::size_t k = 0; k < type.dims.size(); ++k) {
      vars.push_back(in_.fresh.var());
      from.push_back(affine_var(vars.back()));
    }
    StmtPtr nest = make_store(copy, rotated(from), make_load(buffer, type.dtype, from));
    for (std::size_t k = vars.size(); k-- > 0;)
      nest = make_loop(vars[k], 0, type.dims[k], {std::move(nest)});
    copies_.push_back(std::move(nest));
    return copy_[buffer] = copy;
  }

  static std::vector<Affine> rotated(std::vector<Affine> subscripts) {
    std::rotate(subscripts.begin(), subscripts.end() - 1, subscripts.end());
    return subscripts;
  }

  static StmtPtr reading(const StmtPtr& stmt, const std::map<BufferId, BufferId>& by) {
    StmtPtr result = stmt;
    if (stmt->value) {
      const ValuePtr value = rebuild(stmt->value, [&](ValuePtr each) {
        if (each->kind != ValueKind::load || !by.contains(each->buffer)) return each;
        return make_load(by.at(each->buffer), each->dtype, rotated(each->subscripts));
      });
      if (value != stmt->value) result = with_value(*stmt, value);
    }
    if (stmt->body.empty()) return result;
    Block body;
    for (const StmtPtr& inner : stmt->body) body.push_back(reading(inner, by));
    return with_body(*result, std::move(body));
  }

  Scheduling& in_;
  std::vector<bool> written_;
  std::map<BufferId, BufferId> copy_;
  Block copies_;
};

}  // namespace

Block with_turned_inputs(Scheduling& in, const Block& body) {
  return InputTurner(in, body).turned(body);
}

}  // namespace heddle::jit
