// The error that a call ends with.
#pragma once

#include "heddle/status.hpp"

namespace heddle {

/// What `call` throws as an Error; an ok status if it throws none.
template <class Call>
Status failure(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

}  // namespace heddle
