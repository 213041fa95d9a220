// Buffers that nobody donates for a while: for what is submitted as several works. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// From its construction until it goes no buffer of these is donated, or it throws: as submit()
/// does where one was already, one of the users was finalised, or what is read was not written.
/// `accesses`, which the caller keeps, has the ledgers of all that.
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
