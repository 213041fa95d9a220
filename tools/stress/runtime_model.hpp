// The expected contents of memory after a run of the tensor runtime: an interpreter of the
// requests, in the order in which they take effect. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "heddle/event.hpp"
#include "tools/stress/runtime_programs.hpp"

namespace heddle::stress {

using Values = std::array<std::uint64_t, num_cells>;

/// Cells of a memory, beginning at `first`: `num_cells` at most.
struct Slice {
  std::size_t memory = 0, at = 0, cells = num_cells;
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// The requested operation.
struct Request {
  enum class Kind : std::uint8_t {
    values,   ///< `to` receives `numbers`
    copy,     ///< `to` receives the values of `from`
    compute,  ///< `to` receives the result of `formula` on `operands`
    change,   ///< `to` receives three times itself, plus `from`, plus `numbers`
    read,     ///< `seen` holds the values read from `from`
  };
  Kind kind = Kind::values;
  const char* name = "";
  Slice to{}, from{};
  Values numbers{};
  const Values* seen = nullptr;  ///< outlives the model
  const Formula* formula = nullptr;
  std::array<Slice, num_operands> operands{};
  std::size_t row = 0;
  /// Counts as a use of every row that the request may access.
  bool any_row = false;

  /// The event of the request's task; without an event, `end` holds the result.
  Event event{};
  /// The result of a request without an event.
  enum class End : std::uint8_t { took_effect, did_not, anything } end = End::did_not;
  /// A request that failed may have taken effect, in part or whole.
  bool partly = false;
  /// A request without an event may have been accepted, and has failed.
  bool perhaps_bad = false;
  /// If the named request succeeded, this one did too.
  Event needs{};
  /// The request was refused, because it would read memory that a failed write should have written.
  bool not_written = false;
  std::string refusal{};  ///< the message of the refusal
  /// The number of requests, from this one on, that were refused together: one of them would read
  /// memory that earlier failed writes left unwritten, and none of them writes that memory.
  std::size_t refused_with = 0;
};

class RuntimeModel {
 public:
  /// `automatic`: no request reads unwritten memory, whatever it waits for.
  void use(bool automatic) { automatic_ = automatic; }
  /// Adds a memory of `cells` cells with unknown contents, and returns its number. `buffer`: reads
  /// of unwritten cells are refused.
  std::size_t add_memory(std::size_t cells, bool buffer = true);
  /// Adds a request that takes effect after the earlier ones. The reference stays valid.
  Request& add(Request request);

  /// Interprets all requests. Returns an empty string, or the mismatches.
  [[nodiscard]] std::string check();
  /// Cells that were read with known contents, in the last check.
  [[nodiscard]] std::uint64_t compared() const noexcept { return compared_; }

 private:
  enum class Missing : std::uint8_t { no, maybe, yes };
  struct Cell {
    std::uint64_t value = 0;
    bool known = false;
    Missing missing = Missing::no;     ///< whether the last write left the cell unwritten
    const Request* lost_by = nullptr;  ///< the failed write, where the cell is missing
  };
  using Cells = std::array<Cell, num_cells>;

  [[nodiscard]] std::string check(const Request& request);
  [[nodiscard]] bool lacks_values(std::size_t first, std::size_t count);
  void take_effect(const Request& request);
  void forget(const Request& request);
  void miss(const Request& request, Missing missing);
  [[nodiscard]] static std::vector<Slice> read_by(const Request& request);
  /// The most incomplete cell among the cells that the request reads.
  [[nodiscard]] Cell worst_for(const Request& request) const;
  [[nodiscard]] Missing after_change(const Cell& before) const noexcept;
  [[nodiscard]] Cells computed(const Request& request, const Cells& before) const;
  [[nodiscard]] Cells get(const Slice& slice) const;
  void set(const Slice& slice, const Cells& cells);
  [[nodiscard]] std::string compare(const Request& request);
  [[nodiscard]] std::string users_of(const Slice& slice, const Request& before) const;

  std::deque<Request> requests_;
  std::vector<std::vector<Cell>> memories_;
  std::vector<bool> buffers_;  // whether each memory is a buffer
  std::uint64_t compared_ = 0;
  bool automatic_ = false;
};

}  // namespace heddle::stress
