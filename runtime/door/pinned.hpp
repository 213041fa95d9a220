// Pins: buffers protected from donation while a run is submitted as several works. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// Protects the buffers from donation until destruction. The constructor throws, as submit() does,
/// if a buffer was donated, a user was finalised, or an input was not written. `accesses`, kept
/// alive by the caller, includes the ledgers of the buffers and users.
class Pinned {
 public:
  Pinned(const Accesses& accesses, std::span<const Living* const> users, std::string_view user);
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();

 private:
  const Accesses& accesses_;
};

}  // namespace heddle::rt
